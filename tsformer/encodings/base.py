"""The extension point: base class of encodings, their sums, and functions of times that they share.

Shape letters, here and in every encoding: `B` series, `N` tokens, `D` model width, `H` heads,
`E` width of one head.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NoReturn, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._registry import Registry

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


def _add(terms: Any) -> Tensor | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


#: The package, whose own encodings are tested.
_PACKAGE = __name__.rpartition(".")[0] + "."


def hooks_of(part: PositionalEncoding) -> Hooks:
    """Return the hooks of a part, checked if its class is a user's."""
    return part if type(part).__module__.startswith(_PACKAGE) else CheckedHooks(part)


def check_signatures(part: PositionalEncoding) -> None:
    """Raise TypeError for a hook of a user's class with other arguments than the base class."""
    for hook in HOOKS:
        own, base = (getattr(cls, hook) for cls in (type(part), PositionalEncoding))
        if own is base or type(part).__module__.startswith(_PACKAGE):
            continue
        arguments = list(inspect.signature(base).parameters)
        try:
            inspect.signature(own).bind(*arguments)
        except TypeError as error:
            raise TypeError(
                f"the hook {hook} of {type(part).__qualname__} must take "
                f"({', '.join(arguments)}); it takes {inspect.signature(own)}"
            ) from error


class CheckedHooks:
    """The hooks of an encoding; each validates its result."""

    def __init__(self, part: PositionalEncoding):
        self.part = part

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        found = self.part.embed(x, t)
        self._check("embed", found, "[B, N, D]", [{size} for size in x.shape])
        return found

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        found: Any = self.part.rotate(q, k, t)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            self._refuse("rotate", "two tensors, for queries and keys", type(found).__name__)
        for each in found:
            self._check("rotate", each, "[B, H, N, E']", [*({size} for size in q.shape[:3]), None])
        if not _traced() and found[0].shape != found[1].shape:
            shapes = f"{tuple(found[0].shape)} and {tuple(found[1].shape)}"
            self._refuse("rotate", "two tensors of one shape", shapes)
        return found[0], found[1]

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        found = self.part.bias(q, k, t)
        if found is not None:
            B, H, N = q.shape[:3]
            self._check("bias", found, "[1 | B, 1 | H, N, N]", [{1, B}, {1, H}, {N}, {N}])
            if not _traced() and bool((found == float("-inf")).all(dim=-1).any()):
                raise ValueError(
                    f"the hook bias of {type(self.part).__qualname__} must leave each token a key "
                    "to attend to; it returned -inf for all keys of a token"
                )
        return found

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        found = self.part.mix(v, t)
        if found is not None:
            self._check("mix", found, "[B, H, N, E]", [{size} for size in v.shape])
        return found

    def _check(
        self, hook: str, found: Any, letters: str, wanted: Sequence[set[int] | None]
    ) -> None:
        """Raise TypeError or ValueError for anything but a tensor of a wanted shape."""
        if not isinstance(found, Tensor):
            self._refuse(hook, f"a tensor {letters}", type(found).__name__)
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
