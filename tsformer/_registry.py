"""Registries of named classes, such as encodings, and sums of names such as ``"tape+erpe"``."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from tsformer._checks import check_fields_of, check_known, unknown

Base = TypeVar("Base")
Made = TypeVar("Made")


class Registry(Generic[Base]):
    """Named subclasses of a base class, in order; `available` lists their attributes `columns`."""

    def __init__(self, kind: str, columns: Sequence[str] = ()):
        self.kind = kind
        self._columns = columns
        self._classes: dict[str, type[Base]] = {}

    def register(self, name: str, cls: type[Base], *, replace: bool = False) -> None:
        """Register a class under a name, as subclassing with ``name=`` does.

        ValueError for a name that is empty, has whitespace at its ends, contains '+' or is taken,
        unless `replace` is true.
        """
        if not name or "+" in name or name != name.strip():
            raise ValueError(
                f"an {self.kind} cannot be named {name!r}: choose a name without '+', which makes "
                "sums, and whitespace at its ends"
            )
        if name in self._classes and not replace:
            raise ValueError(
                f"the {self.kind} name {name!r} is taken by {self._classes[name].__qualname__}; "
                "choose another, or pass replace=True beside name="
            )
        self._classes[name] = cls

    def unregister(self, name: str) -> type[Base]:
        """Remove a name, as between tests or to run a notebook cell again; return its class.

        Examples
        --------
        >>> from tsformer.encodings import PositionalEncoding, unregister
        >>> class Draft(PositionalEncoding, name="draft"): ...
        >>> unregister("draft") is Draft
        True
        """
        cls = self.find(name)
        del self._classes[name]
        return cls

    def names(self) -> list[str]:
        """Return all names, in the order of registration."""
        return list(self._classes)

    def find(self, name: str) -> type[Base]:
        """Return the class of a name, or of the path ``"module.Class"`` of an imported module."""
        home = name.rpartition(".")[0] if isinstance(name, str) else ""
        imported: dict[str, type[Base]] = {
            f"{home}.{key}": cls
            for key, cls in getattr(sys.modules.get(home), "__dict__", {}).items()
            if isinstance(cls, type) and getattr(cls, "registry", None) is self
            if "registry" not in vars(cls)  # as in the base class
        }
        check_known(self.kind, name, known := self._classes | imported)
        return known[name]

    def available(self) -> list[dict[str, Any]]:
        """Return a table of the registered classes: name, class attributes and summary.

        Examples
        --------
        >>> from tsformer.encodings import available
        >>> [row["kind"] for row in available() if row["name"] == "rope"]
        ['rotate']
        """
        return [
            {"name": name}
            | {column: getattr(cls, column) for column in self._columns}
            | {"summary": (cls.__doc__ or "").strip().partition("\n")[0]}
            for name, cls in self._classes.items()
        ]


class Registered:
    """Base of classes that subclassing with a name registers."""

    name: ClassVar[str] = ""
    #: The registered name, else the name of the class.
    registered_name: ClassVar[str] = ""
    registry: ClassVar[Registry[Any]]

    def __init_subclass__(cls, *, name: str | None = None, replace: bool = False, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.name = name or ""  # a name belongs to one class, so subclasses do not inherit it
        cls.registered_name = name or cls.__name__
        if name is not None:
            cls.registry.register(name, cls, replace=replace)


class Named(Registered):
    """Base of registered classes whose attributes are their options."""

    __post_init__ = check_fields_of  # called by dataclasses

    def saved(self) -> tuple[str, dict[str, Any]]:
        """Return the registered name and the options."""
        kind, cls = self.registry.kind, type(self)
        if self.name not in self.registry.names() or self.registry.find(self.name) is not cls:
            raise ValueError(
                f"{kind}={self!r} cannot be saved, as its class is not registered: define it as "
                f"class {cls.__name__}({kind.capitalize()}, name=...)"
            )
        return self.name, dict(vars(self))

    def __eq__(self, value: object) -> bool:
        return type(self) is type(value) and vars(self) == vars(value)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        names = inspect.signature(type(self)).parameters
        options = [f"{name}={getattr(self, name)!r}" for name in names if hasattr(self, name)]
        return f"{type(self).__qualname__}({', '.join(options)})"


Factory = Callable[..., Any]


def terms_of(
    base: type[Any],
    spec: Any,
    params: Mapping[str, Any],
    *,
    sum_of: str = "",
    sizes: Sequence[str] = (),
) -> list[tuple[Factory, dict[str, Any]]]:
    """Return class or factory, and options, of each part of a name, a sum, a class or a factory.

    `sum_of` is an example of a sum, if there are sums; `sizes` are arguments beside the options.
    """
    kind = base.registry.kind
    if isinstance(spec, str):
        names = part_names(spec) if sum_of else [spec]
        factories = [base.registry.find(name) for name in names]
    elif callable(spec):
        names, factories = [""], [spec]
    else:
        sums = f"a sum of names such as {sum_of!r}, " if sum_of else ""
        raise TypeError(
            f"{kind} must be a name, {sums}{base.__name__} or a factory; "
            f"got {spec!r} of type {type(spec).__name__}"
        )
    shares: list[dict[str, Any]] = [{} for _ in names]
    accepted = [list(params) for _ in names]  # a factory may take any
    for i, factory in enumerate(factories):
        if isinstance(factory, type) and issubclass(factory, base):
            accepted[i] = [o for o in inspect.signature(factory).parameters if o not in sizes]
    for key, value in params.items():
        owners = [i for i, options in enumerate(accepted) if key in options]
        if len(names) == 1:
            shares[0][key] = value
        elif key in names and isinstance(value, Mapping):
            shares[names.index(key)].update(value)
        elif len(owners) == 1:
            shares[owners[0]][key] = value
        elif owners:
            several = [names[i] for i in owners]
            raise ValueError(
                f"{kind}_params key {key!r} fits several parts, {several}; say which: "
                f"{{{several[0]!r}: {{{key!r}: {value!r}}}}}"
            )
        else:
            choices = sorted({option for options in accepted for option in options})
            raise ValueError(unknown(f"option of {'+'.join(names)}", key, choices))
    for factory, options, share in zip(factories, accepted, shares, strict=True):
        label = getattr(factory, "registered_name", "") or getattr(factory, "__name__", "")
        check_options(label, options, share)
    return list(zip(factories, shares, strict=True))


def make(base: type[Made], factory: Factory, /, **params: Any) -> Made:
    """Call a class or a factory, which must return an instance of `base`."""
    made = factory(**params)
    if not isinstance(made, base):
        kinds = f"{type(made).__name__}; it must return an instance of {base.__name__}"
        raise TypeError(f"the factory {factory!r} returned {kinds}")
    return made


def build(base: type[Made], spec: Any, params: Mapping[str, Any], **sums: str) -> list[Made]:
    """Make the parts of a spec as of `terms_of`, or return an instance as it is."""
    if isinstance(spec, base) and params:
        raise TypeError(f"{spec!r} is an instance, which takes no options; got {dict(params)}")
    if isinstance(spec, base):
        return [spec]
    return [make(base, cls, **options) for cls, options in terms_of(base, spec, params, **sums)]


def part_names(spec: str) -> list[str]:
    """Split a sum into the names of its parts."""
    parts = [name.strip() for name in spec.split("+")]
    doubled = {name for name in parts if parts.count(name) > 1}
    if doubled:
        raise ValueError(f"the sum {spec!r} names {min(doubled)!r} twice; name each part once")
    return parts


def check_options(label: str, options: Sequence[str], params: Mapping[str, Any]) -> None:
    """Raise ValueError if a key of `params` is not an option of `label`."""
    for key in params:
        check_known(f"option of {label}", key, options)
