"""Checks of arguments, the texts of their errors, and constructor parameters with their checks.

Annotated fields of a class `with_parameters`, as ``d_model: Annotated[int, whole(1)] = 64``, define
its constructor, `get_params`, the checks of `fit`, the adapters and the command line. Fields with
``field(init=False)`` are fitted attributes.
"""

import difflib
import inspect
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from math import inf
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, dataclass_transform, get_args, get_origin

AnyClass = TypeVar("AnyClass", bound=type[Any])
_Object = TypeVar("_Object")
#: Raises TypeError or ValueError for an invalid value of the named parameter.
Check = Callable[[str, Any], None]


def shortened(value: object, most: int = 100) -> str:
    """Return the `repr` of a value for an error message, cut after `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def nearest(name: object, choices: Iterable[object]) -> list[str]:
    """Return the choices that are spelled like `name`, at most five, the nearest first."""
    spelled = {str(choice).lower(): choice for choice in choices if isinstance(choice, str)}
    near = difflib.get_close_matches(str(name)[:100].lower(), spelled, n=5)
    return [spelled[key] for key in near]


def unknown(kind: str, name: object, choices: Iterable[object]) -> str:
    """Return an error message for an unknown name, with the nearest match and the choices."""
    choices = list(choices)
    message = f"unknown {kind} {shortened(name)}"
    near = nearest(name, choices)
    if near:
        message += f": did you mean {near[0]!r}?"
    if len(choices) > 60:
        return f"{message} ({len(choices)} are known)"
    if not choices:
        return f"{message}: there is nothing to choose from"
    listing = ", ".join(map(repr, choices))
    return f"{message}{' Choose' if near else '; choose'} from: {listing}"


def check_known(kind: str, name: object, choices: Collection[Any], *, where: str = "") -> None:
    """Raise ValueError for an unknown name, with the nearest match and the choices."""
    if not isinstance(name, Hashable) or name not in choices:
        raise ValueError(where + unknown(kind, name, choices))


def listed(names: Iterable[object], counts: Iterable[int] = ()) -> str:
    """Return names of at most 40 characters with counts, at most 20."""
    texts = [text if len(text) <= 40 else f"{text[:37]}..." for text in map(str, names)]
    numbers = [f" ({n:,})" for n in counts] or [""] * len(texts)
    parts = [text + number for text, number in zip(texts, numbers, strict=True)]
    return ", ".join(parts[:20]) + (f", and {len(parts) - 20:,} more" if len(parts) > 20 else "")


def is_one_of(value: Any, choices: tuple[Any, ...]) -> bool:
    """Whether a value is among some choices; arrays are not."""
    plain = isinstance(value, str) or not hasattr(value, "__len__")
    return any(value is choice or (plain and bool(value == choice)) for choice in choices)


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = inf,
    *,
    whole: bool = False,
    excluded: bool = False,
    also: tuple[Any, ...] = (),
) -> None:
    """Raise TypeError or ValueError unless a value is a finite number in range, or in `also`."""
    if also and is_one_of(value, also):
        return
    right_kind = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    within = right_kind and (low < value < high if excluded else low <= value <= high)
    if within and value != inf:
        return
    above, below = "><" if excluded else (">=", "<=")
    allowed = f"{'an int' if whole else 'a float'} {above} {low:.15g}"
    allowed += f" and {below} {high:.15g}" * (high != inf)
    allowed += f", or {', '.join(map(repr, also))}" * bool(also)
    message = f"{name} must be {allowed}; got {shortened(value)}"
    if right_kind:
        raise ValueError(message)
    raise TypeError(f"{message} of type {type(value).__name__}")


def whole(low: int, *also: Any) -> Check:
    """Allow ints from `low` on, and the values `also`."""
    return partial(check_number, low=low, whole=True, also=also)


def real(low: float, high: float = inf, *, also: tuple[Any, ...] = ()) -> Check:
    """Allow floats between two bounds, and the values `also`."""
    return partial(check_number, low=low, high=high, excluded=True, also=also)


def one_of(*choices: Any) -> Check:
    """Allow the choices."""
    return partial(check_known, choices=choices)


def options(name: str, value: Any) -> None:
    """Allow a dict of options, or None."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict or None; got {shortened(value)}")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def with_parameters(cls: AnyClass) -> AnyClass:
    """Make the annotated fields of a class the parameters of its constructor."""
    dataclass(eq=False, repr=False, kw_only=True)(cls)
    init: Any = cls.__init__
    signature = inspect.signature(init)
    plain = list(signature.parameters.values())
    for i, parameter in enumerate(plain):
        if hasattr(parameter.annotation, "__metadata__"):
            plain[i] = parameter.replace(annotation=parameter.annotation.__origin__)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        check_arguments(type(self).__name__, __init__, args, kwargs)
        init(self, *args, **kwargs)

    __init__.__qualname__ = init.__qualname__
    __init__.__signature__ = signature.replace(parameters=plain)  # type: ignore[attr-defined]
    cls.__init__ = __init__
    return cls


def check_arguments(
    kind: str, init: Callable[..., None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise TypeError for unknown or unnamed arguments of a constructor, with the remedy."""
    parameters = list(inspect.signature(init).parameters.values())[1:]  # without self
    names = [parameter.name for parameter in parameters]
    for name in sorted(kwargs.keys() - set(names)):
        raise TypeError(unknown(f"parameter of {kind}", name, names))
    unnamed = sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters)
    if len(args) > unnamed:
        message = f"{kind} takes {unnamed} value without a name; got {len(args)}"
        raise TypeError(f"{message}: pass the next as {names[unnamed]}={args[unnamed]!r:.40}")


def check_new_values(estimator: Any, params: Mapping[str, Any]) -> None:
    """Raise ValueError for a parameter that `set_params` cannot set."""
    known = estimator.get_params(deep=False)
    for key in params:
        name, _, option = key.partition("__")
        value = params.get(name, known.get(name))
        if name not in known:
            problem = unknown(f"parameter of {type(estimator).__name__}", name, known)
        elif option and not hasattr(value, "set_params"):
            problem = f"{name}={value!r} has no parameters; its options are set by {name}_params="
        elif option and hasattr(value, "models_"):
            problem = (
                f"{name} is fitted, and the change would not affect its weights; pass {name}="
                "sklearn.base.clone(encoder), which is fitted in each fit"
            )
        else:
            continue
        raise ValueError(f"Invalid parameter {key!r}: {problem}")


def check_fields_of(owner: Any) -> None:
    """Raise TypeError or ValueError for the first field with an invalid value."""
    label = getattr(owner, "registered_name", "")
    for parameter in fields(owner):
        for check in getattr(parameter.type, "__metadata__", ()):
            name = f"{parameter.name} of {label}" if label else parameter.name
            check(name, getattr(owner, parameter.name))


Finite = Annotated[float, real(-inf)]
Positive = Annotated[float, real(0)]


def read_fields(described: Any, of: str = "", /, **types: Any) -> dict[str, Any]:
    """Return checked fields of a JSON object; a part, named `of`, has no other fields."""
    if not isinstance(described, dict):
        raise ValueError(f"{of or 'the description'} must be an object; got {shortened(described)}")
    for name in described if of else ():
        check_known(f"field of {of}", name, types)
    for name, kind in types.items():
        label = f"{of}.{name}" if of else name
        if name not in described:
            raise ValueError(f"{label} is missing")
        check_type(label, described[name], kind)
    return {name: described[name] for name in types}


def read_dataclass(cls: type[_Object], described: Any, of: str) -> _Object:
    """Make a dataclass of the fields of an untrusted object of JSON."""
    types = {f.name: f.type for f in fields(cls)}  # type: ignore[arg-type]
    return cls(**read_fields(described, of, **types))


def check_type(name: str, value: Any, kind: Any) -> None:
    """Raise TypeError or ValueError for a JSON value that is not of an annotated type."""
    if hasattr(kind, "__metadata__"):
        check_type(name, value, kind.__origin__)
        for check in kind.__metadata__:
            check(name, value)
        return
    arms = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    arm = next((arm for arm in arms if _is_of(value, arm)), None)
    if arm is None:
        plain = (getattr(arm, "__origin__", arm) for arm in arms)  # float of Annotated
        names = " or ".join(getattr(arm, "__name__", str(arm)) for arm in plain)
        raise ValueError(f"{name} must be {names}; got {shortened(value)}")
    if arm is not kind:
        check_type(name, value, arm)
    elif types := get_args(kind):
        for entry in value.values() if isinstance(value, dict) else value:
            check_type(name, entry, types[isinstance(value, dict)])


def _is_of(value: Any, kind: Any) -> bool:
    while hasattr(kind, "__origin__"):
        kind = kind.__origin__
    if type(value) is int and kind in (int, float):
        return abs(value) < 2**31 if kind is int else abs(value) <= 2**53
    return kind is Any or type(value) is (list if kind is tuple else kind)
