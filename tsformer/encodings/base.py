"""The extension point: the base class of encodings, their sums, and building them by name.

Shape letters, here and in every encoding: `B` series, `N` tokens, `D` model width, `H` heads,
`E` width of one head.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NoReturn, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._registry import Registry, check_options, part_names, share_out

HOOKS = ("embed", "rotate", "bias", "mix")

Extrapolation = Literal["extends", "clamps", "interpolates"]


class Hooks(Protocol):
    """The four points at which an encoding injects the times of tokens."""

    def embed(self, x: Tensor, t: Tensor) -> Tensor: ...
    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]: ...
    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None: ...
    def mix(self, v: Tensor, t: Tensor) -> Tensor | None: ...


class PositionalEncoding(nn.Module):
    """Base class of all positional encodings: four hooks, each the identity until overridden.

    Subclassing with a name registers the class: ``class Ramp(PositionalEncoding, name="ramp")``.
    Every ``encoding=`` then accepts the name. The signature of the class is its configuration:
    ``__init__`` takes ``d_model``, ``n_heads`` and ``max_len`` (the number of tokens of the longest
    training series) as keywords, then the encoding's own options with their defaults.

    Positions `t`, of shape ``[1 | B, N]``, are points in time and not indices: floats, 1 apart in a
    regular series and non-decreasing in any other. Padded tokens are zero in `x` and `v`, and
    repeat the last valid time of their series. Compute from `t` in float32 even under autocast:
    bfloat16 can represent only 769 of the integers up to 4095. Draw random numbers on the device of
    `x`, and count no calls in Python: on a GPU a step may be captured in a CUDA graph, which
    replays only the device's operations.

    Attributes
    ----------
    kind : str
        The hook that the class overrides: "embed", "rotate", "bias" or "mix"; several joined as in
        "embed+bias", "none" if it overrides none. Derived, so a subclass need not state it; if it
        does, the two must agree.
    extrapolation : str
        Behaviour past the trained length: "extends" (the formula continues), "clamps" (the last
        trained value repeats) or "interpolates" (the trained values are stretched).
    symmetric : bool
        Whether swapping past and future changes nothing, as with ``abs(t_j - t_i)``. Behind a
        pointwise stem and with mean pooling, such an encoding cannot tell a rising series from a
        falling one.
    per_block : bool
        Whether each block owns its weights. Otherwise one instance serves the whole stack.
    bias_of_times : bool
        Whether `bias` depends on the times alone, and on `q` and `k` only through their dtype.
        Blocks that share an instance then share its bias, computed once per forward pass.
    reference : str
        The paper.

    Raises
    ------
    ValueError
        When subclassing: if the name is not allowed or taken (``replace=True`` takes it over), or
        if the class states a `kind` that contradicts its hooks.
    """

    registry: ClassVar = Registry["PositionalEncoding"](
        "encoding", ("kind", "extrapolation", "symmetric", "per_block", "reference")
    )
    name: ClassVar[str] = ""
    kind: str = "none"
    extrapolation: Extrapolation = "extends"
    symmetric: bool = False
    per_block: ClassVar[bool] = False
    bias_of_times: ClassVar[bool] = False
    reference: str = ""

    def __init_subclass__(cls, *, name: str | None = None, replace: bool = False, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.name = name or ""  # not inherited: the parent's name must not stand for this class
        kind = "+".join(overridden_hooks(cls)) or "none"
        stated = vars(cls).get("kind", kind)
        if stated != kind:
            raise ValueError(
                f"{cls.__qualname__} states kind = {stated!r}, but the hooks it overrides make it "
                f"{kind!r}; delete the attribute: kind is derived"
            )
        cls.kind = kind
        if name is not None:
            cls.registry.register(name, cls, replace=replace)

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        """Encode the times `t` into the tokens `x` ``[B, N, D]``; called once, after the stem."""
        return x

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries and keys ``[B, H, N, E]`` to ``[B, H, N, E']``; `E'` may exceed `E`."""
        return q, k

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        """Return what to add to the scaled scores, ``[1 | B, 1 | H, N, N]``, or None.

        `q` and `k` ``[B, H, N, E]`` are as projected, before any `rotate`.
        """
        return None

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        """Return what to add to the output of attention over `v` ``[B, H, N, E]``, or None."""
        return None


def overridden_hooks(cls: type) -> list[str]:
    """Return which of the four hooks a class overrides, in the order in which they apply."""
    return [hook for hook in HOOKS if getattr(cls, hook) is not getattr(PositionalEncoding, hook)]


#: An encoding to build: a name or sum of names such as ``"tape+erpe"``, a class, or a function that
#: takes the sizes and options as keywords and returns a module. `resolve` builds it.
EncodingSpec = str | type[PositionalEncoding] | Callable[..., PositionalEncoding]


def resolve(
    encoding: EncodingSpec, *, d_model: int, n_heads: int, max_len: int, **encoding_params: Any
) -> PositionalEncoding:
    """Build a positional encoding from its name, a sum of names, a class or a factory.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass, or callable
        ``"lspe"``; a sum such as ``"tape+erpe"``, whose hooks apply in order; a class; or a
        callable that takes the sizes and options as keywords and returns a PositionalEncoding.
    d_model : int
        Model width `D`.
    n_heads : int
        Number of heads `H`.
    max_len : int
        Number of tokens of the longest training series.
    **encoding_params
        Options of the class. In a sum an option goes to the one part that has it; if several
        have it, or to be explicit, nest it under the name of the part:
        ``fixed={"base": 100.0}, rope={"base": 500.0}`` for "fixed+rope".

    Returns
    -------
    PositionalEncoding
        A module with the hooks `embed`, `rotate`, `bias` and `mix`.

    Raises
    ------
    TypeError
        If `encoding` has another type, or a factory returns another type.
    ValueError
        If a name or an option is unknown, with the nearest match and all choices; if a sum names
        a part twice; or if an option of a sum fits several parts.

    Examples
    --------
    >>> encoding = resolve("lspe", d_model=16, n_heads=4, max_len=20, d_hidden=8)
    >>> encoding.embed(torch.zeros(2, 20, 16), torch.arange(20.0)[None]).shape
    torch.Size([2, 20, 16])
    """
    sizes = {"d_model": d_model, "n_heads": n_heads, "max_len": max_len}
    makers = _makers(encoding, encoding_params, causal=False, **sizes)
    parts = [make() for make in makers]
    return parts[0] if len(parts) == 1 else Sum(parts)


class EncodingStack(nn.Module):
    """The encoding of a stack of blocks: one instance per stack, or one per block.

    A part whose class is `per_block` has an instance in each of the `n_layers` blocks; all blocks
    share any other part. ``stack.at(i)`` has the four hooks of block `i`; ``stack.embed`` is
    applied once, before the first block. Other parameters are as in `resolve`. In a `causal` stack
    encodings with an option ``causal`` read earlier tokens only.
    """

    def __init__(
        self,
        encoding: EncodingSpec,
        *,
        n_layers: int,
        d_model: int,
        n_heads: int,
        max_len: int,
        causal: bool = False,
        **encoding_params: Any,
    ):
        super().__init__()
        self.n_layers = n_layers
        self.parts = nn.ModuleList()
        sizes = {"d_model": d_model, "n_heads": n_heads, "max_len": max_len}
        for make in _makers(encoding, encoding_params, causal=causal, **sizes):
            first = make()
            copies = max(n_layers, 1) if first.per_block else 1
            self.parts.append(nn.ModuleList([first, *(make() for _ in range(copies - 1))]))
        self.symmetric = all(part[0].symmetric for part in self.parts)  # type: ignore[index]

    def at(self, block: int) -> Hooks:
        """Return the hooks of block number `block`."""
        return _chained([part[min(block, len(part) - 1)] for part in self.parts])  # type: ignore[arg-type,index]

    def one_pass(self) -> list[Hooks]:
        """Return the hooks of each block for one forward pass; a bias of times is computed once."""
        columns: list[list[Hooks]] = []
        for part in self.parts:
            modules: list[Any] = list(part)  # type: ignore[call-overload]
            copies = [hooks_of(each) for each in modules]
            if len(copies) == 1:
                shared = SharedBias(copies[0]) if modules[0].bias_of_times else copies[0]
                copies = [shared] * self.n_layers
            columns.append(copies)
        return [_chained(parts) for parts in zip(*columns, strict=True)]

    def embed(self, x: Tensor, t: Tensor, mask: Tensor | None = None) -> Tensor:
        """Apply the `embed` hooks to the tokens `x` ``[B, N, D]`` at times `t` ``[1 | B, N]``.

        `mask` ``[B, N]`` is False where a token is padding. Padding is zeroed after each part, so
        that no convolution of the next part carries it to valid tokens.
        """
        for part in self.parts:
            x = hooks_of(part[0]).embed(x, t)  # type: ignore[index]
            if mask is not None:
                x = x * mask[..., None]
        return x


class Chain:
    """Several encodings as one: hooks apply part by part, in order; biases and mixes add up."""

    def __init__(self, parts: Sequence[Hooks]):
        self.parts = parts

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        for part in self.parts:
            x = part.embed(x, t)
        return x

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        for part in self.parts:
            q, k = part.rotate(q, k, t)
        return q, k

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        return _add(part.bias(q, k, t) for part in self.parts)

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        return _add(part.mix(v, t) for part in self.parts)


class Sum(PositionalEncoding):
    """A sum of encodings, as in ``"tape+erpe"``: the hooks of its parts, in order."""

    parts: nn.ModuleList

    def __init__(self, parts: Sequence[PositionalEncoding]):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.kind = "+".join(part.kind for part in parts)
        self.symmetric = all(part.symmetric for part in parts)
        # Past the trained length a sum behaves as its first part that does not extend.
        limited = (part.extrapolation for part in parts if part.extrapolation != "extends")
        self.extrapolation = next(limited, "extends")
        references = [part.reference for part in parts if part.reference]
        self.reference = "; ".join(dict.fromkeys(references))

    # Chain composes hooks, and needs only `self.parts`.
    embed = Chain.embed
    rotate = Chain.rotate
    bias = Chain.bias
    mix = Chain.mix


class SharedBias:
    """The hooks of a part for one forward pass; the first block computes the bias for all."""

    def __init__(self, part: Hooks):
        self.embed = part.embed
        self.rotate = part.rotate
        self.mix = part.mix
        self._part = part
        self._computed: Tensor | None = None

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        if self._computed is None:
            self._computed = self._part.bias(q, k, t)
        return self._computed


def _add(terms: Any) -> Tensor | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _chained(parts: Sequence[Hooks]) -> Hooks:
    return parts[0] if len(parts) == 1 else Chain(parts)


def at_least_float32(t: Tensor) -> Tensor:
    """Cast 16-bit times to float32: bfloat16 cannot represent every integer above 256."""
    return t if t.dtype == torch.float64 else t.float()


def sinusoid(t: Tensor, d_model: int, *, base: float = 10000.0) -> Tensor:
    """Return ``PE[2k] = sin(t w_k)``, ``PE[2k+1] = cos(t w_k)`` with ``w_k = base^(-2k / D)``."""
    t = at_least_float32(t)
    k = torch.arange(0, d_model, 2, device=t.device, dtype=t.dtype)
    angle = t[..., None] * base ** (-k / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :d_model]


def interpolated_rows(table: Tensor, t: Tensor) -> Tensor:
    """Return the rows of a table of positions at real-valued times, interpolated linearly."""
    last = len(table) - 1
    end = t.amax(dim=-1, keepdim=True)
    t = (t * (last / end.clamp(min=max(last, 1)))).clamp(0, last)
    low = t.floor().long()
    high = (low + 1).clamp(max=last)
    # F.embedding, as the gradient of indexing is summed in no fixed order.
    return torch.lerp(
        F.embedding(low, table), F.embedding(high, table), (t - low)[..., None].to(table.dtype)
    )


#: Next to the weight of the query's own token, ``exp(-60)`` vanishes in float32.
NEGLIGIBLE = -60.0


def relative_times(t: Tensor) -> Tensor:
    """Return the times from queries to keys, ``t_j - t_i`` ``[1 | B, 1, N, N]``."""
    return t[:, None, None, :] - t[:, None, :, None]


def mask_negligible(bias: Tensor) -> Tensor:
    """Replace negligible biases by minus infinity; a bias must be zero at a distance of zero.

    Somewhat smaller weights would be denormal numbers, with which a CPU computes many times slower
    than with zeros.
    """
    return bias.masked_fill(bias < NEGLIGIBLE, float("-inf"))


def checked_max_distance(name: str, asked: int | None, default: int) -> int:
    """Return the clipping distance, or its default of at least 1."""
    if asked is not None and asked < 1:
        raise ValueError(f"max_distance of {name} must be at least 1 token; got {asked!r}")
    return max(default, 1) if asked is None else asked


_SIZES = ("d_model", "n_heads", "max_len")


def _makers(
    encoding: EncodingSpec, params: Mapping[str, Any], *, causal: bool, **sizes: int
) -> list[Callable[[], PositionalEncoding]]:
    """Return a function without arguments for each part of the sum."""
    if not isinstance(encoding, str):
        if not callable(encoding):
            raise TypeError(
                "encoding must be a name, a sum of names such as 'tape+erpe', a "
                "PositionalEncoding class or a factory; "
                f"got {encoding!r} of type {type(encoding).__name__}"
            )
        return [partial(_make, encoding, _with_direction(encoding, params, causal), sizes)]
    parts = part_names(encoding)
    classes = [PositionalEncoding.registry.find(name) for name in parts]
    options = [_options(cls) for cls in classes]
    shares = share_out(parts, options, params, argument="encoding_params")
    return [
        partial(_make, cls, _with_direction(cls, own, causal), sizes)
        for cls, own in zip(classes, shares, strict=True)
    ]


def _with_direction(factory: Any, params: Mapping[str, Any], causal: bool) -> Mapping[str, Any]:
    """Pass ``causal=True`` to parts with the option."""
    takes = isinstance(factory, type) and "causal" in inspect.signature(factory).parameters
    return {**params, "causal": True} if causal and takes else params


def _make(
    factory: Callable[..., PositionalEncoding], params: Mapping[str, Any], sizes: Mapping[str, int]
) -> PositionalEncoding:
    if isinstance(factory, type) and issubclass(factory, PositionalEncoding):
        label = factory.name or factory.__name__
        check_options(label, _options(factory), params, argument="encoding_params")
    _check_sizes(factory)
    try:
        made = factory(**sizes, **params)
    except AttributeError as error:
        if "__init__() call" not in str(error):
            raise
        name = getattr(factory, "__qualname__", repr(factory))
        raise TypeError(
            f"the constructor of {name} must call super().__init__() before it assigns parameters "
            f"or modules: {error}"
        ) from error
    if not isinstance(made, PositionalEncoding):
        raise TypeError(
            f"the encoding factory {factory!r} returned {type(made).__name__}; "
            "it must return a PositionalEncoding"
        )
    check_signatures(made)
    _check_state(made)
    return made


def _check_sizes(factory: Callable[..., PositionalEncoding]) -> None:
    """Raise TypeError for a class or factory that does not take the sizes of the model."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables of C have no signature
        return
    kinds = {each.kind for each in parameters.values()}
    missing = [name for name in _SIZES if name not in parameters]
    has_none = getattr(factory, "__init__", None) is nn.Module.__init__  # it rejects its keywords
    if missing and (has_none or inspect.Parameter.VAR_KEYWORD not in kinds):
        name = getattr(factory, "__qualname__", repr(factory))
        constructor = "the constructor of " if isinstance(factory, type) else ""
        raise TypeError(
            f"{constructor}{name} must take {', '.join(_SIZES)} as keywords, as in "
            f"(*, {', '.join(_SIZES)}); it lacks {', '.join(missing)}"
        )


def _options(cls: type[PositionalEncoding]) -> list[str]:
    parameters = inspect.signature(cls).parameters
    return [name for name in parameters if name not in _SIZES]


#: The package, whose own encodings are tested.
_PACKAGE = __name__.rpartition(".")[0] + "."


def hooks_of(part: PositionalEncoding) -> Hooks:
    """Return the hooks of a part, checked if its class is a user's."""
    return part if type(part).__module__.startswith(_PACKAGE) else CheckedHooks(part)


def check_signatures(part: PositionalEncoding) -> None:
    """Raise TypeError for a user's class without hooks, or with other arguments of a hook."""
    if type(part).__module__.startswith(_PACKAGE):
        return
    hooks = [h for h in HOOKS if getattr(type(part), h) is not getattr(PositionalEncoding, h)]
    if not hooks:
        raise TypeError(
            f"{type(part).__qualname__} implements none of the hooks {', '.join(HOOKS)}: define "
            'one, or use encoding="none"'
        )
    for hook in hooks:
        own, base = (getattr(cls, hook) for cls in (type(part), PositionalEncoding))
        arguments = list(inspect.signature(base).parameters)
        try:
            inspect.signature(own).bind(*arguments)
        except TypeError as error:
            raise TypeError(
                f"the hook {hook} of {type(part).__qualname__} must take "
                f"({', '.join(arguments)}); it takes {inspect.signature(own)}"
            ) from error


def _check_state(part: PositionalEncoding) -> None:
    """Raise TypeError for a tensor that would be neither saved nor moved to a device."""
    for module in part.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                raise TypeError(
                    f"{type(module).__qualname__} of an encoding keeps a tensor in self.{name}, "
                    f"which is not saved: assign torch.nn.Parameter(...) if it is trained, else "
                    f"call self.register_buffer({name!r}, ...)"
                )


class CheckedHooks:
    """The hooks of an encoding; each validates its result."""

    def __init__(self, part: PositionalEncoding):
        self.part = part

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        found = self.part.embed(x, t)
        self._check("embed", found, "[B, N, D]", [{size} for size in x.shape], x.dtype)
        return found

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        found: Any = self.part.rotate(q, k, t)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            self._refuse("rotate", "two tensors, for queries and keys", type(found).__name__)
        for each in found:
            sizes = [*({size} for size in q.shape[:3]), None]
            self._check("rotate", each, "[B, H, N, E']", sizes, q.dtype)
        if not _traced() and found[0].shape != found[1].shape:
            shapes = f"{tuple(found[0].shape)} and {tuple(found[1].shape)}"
            self._refuse("rotate", "two tensors of one shape", shapes)
        return found[0], found[1]

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        found = self.part.bias(q, k, t)
        if found is not None:
            B, H, N = q.shape[:3]
            sizes = [{1, B}, {1, H}, {N}, {N}]
            self._check("bias", found, "[1 | B, 1 | H, N, N]", sizes, q.dtype)
            if not _traced() and bool((found == float("-inf")).all(dim=-1).any()):
                raise ValueError(
                    f"the hook bias of {type(self.part).__qualname__} must leave each token a key "
                    "to attend to; it returned -inf for all keys of a token"
                )
        return found

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        found = self.part.mix(v, t)
        if found is not None:
            self._check("mix", found, "[B, H, N, E]", [{size} for size in v.shape], v.dtype)
        return found

    def _check(
        self,
        hook: str,
        found: Any,
        letters: str,
        wanted: Sequence[set[int] | None],
        dtype: torch.dtype,
    ) -> None:
        """Raise TypeError or ValueError for anything but a tensor of a wanted shape and type."""
        if not isinstance(found, Tensor):
            self._refuse(hook, f"a tensor {letters}", type(found).__name__)
        # Booleans would be a mask or numbers. Autocast mixes float32 and 16 bits.
        if not found.dtype.is_floating_point or (
            found.dtype != dtype and torch.float64 in (found.dtype, dtype)
        ):
            self._refuse(hook, f"a tensor of {dtype}", str(found.dtype))
        if _traced():
            return  # where sizes are symbols
        fits = found.dim() == len(wanted) and all(
            sizes is None or size in sizes for size, sizes in zip(found.shape, wanted, strict=True)
        )
        if not fits:
            names = ["E'" if s is None else " | ".join(map(str, sorted(s))) for s in wanted]
            shape = f"[{', '.join(names)}]"
            self._refuse(hook, f"shape {letters}, here {shape}", f"{list(found.shape)}")

    def _refuse(self, hook: str, wanted: str, got: str) -> NoReturn:
        name = type(self.part).__qualname__
        kind = ValueError if got.startswith(("[", "(")) else TypeError
        raise kind(f"the hook {hook} of {name} must return {wanted}; it returned {got}")


def _traced() -> bool:
    """Whether torch traces the program, or records it in a CUDA graph."""
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    return torch.compiler.is_compiling() or capturing
