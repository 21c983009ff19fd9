"""The extension point: the base class of encodings, their sums, and building them by name.

Shapes, here and in each encoding: `B` series, `N` tokens, `D` width, `H` heads of width `E`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial, reduce, wraps
from operator import contains
from typing import Any, ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._registry import Factory, Registered, Registry, make, part_names, terms_of

HOOKS = ("embed", "rotate", "bias", "mix")
_PACKAGE = __name__.rpartition(".")[0] + "."

Extrapolation = Literal["extends", "clamps", "interpolates"]


class PositionalEncoding(Registered, nn.Module):
    """Base class of all positional encodings: four hooks, each the identity until overridden.

    Subclassing with a name registers the class for every ``encoding=``: ``class
    Ramp(PositionalEncoding, name="ramp")``. The signature is the configuration: ``__init__`` takes
    ``d_model``, ``n_heads`` and ``max_len`` (the number of tokens of the longest training series)
    as keywords, then the options with their defaults. ``replace=True`` takes over a name.

    Positions `t`, of shape ``[1 | B, N]``, are points in time and not indices: floats, 1 apart in a
    regular series and non-decreasing in any other. Padded tokens are zero in `x` and `v`, and
    repeat the last valid time of their series. Compute from `t` in float32 even under autocast.
    Draw random numbers on the device of `x`, and count no calls in Python: a step may be captured
    in a CUDA graph.

    Attributes
    ----------
    kind : str
        The overridden hooks, joined as in "embed+bias", or "none". Derived.
    extrapolation : str
        Behaviour past the trained length: "extends" (the formula continues), "clamps" (the last
        trained value repeats) or "interpolates" (the trained values are stretched).
    symmetric : bool
        Whether swapping past and future changes nothing, as with ``abs(t_j - t_i)``.
    per_block : bool
        Whether each block owns its weights. Otherwise one instance serves the whole stack.
    bias_of_times : bool
        Whether `bias` depends on the times alone, and on `q` and `k` only through their dtype.
        Blocks that share an instance then compute it once per forward pass.
    reference : str
        The paper.
    """

    registry: ClassVar = Registry["PositionalEncoding"](
        "encoding", ("kind", "extrapolation", "symmetric", "per_block", "reference")
    )
    kind: str = "none"
    extrapolation: Extrapolation = "extends"
    symmetric: bool = False
    per_block: ClassVar[bool] = False
    bias_of_times: ClassVar[bool] = False
    reference: str = ""

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        cls.kind = "+".join(overridden_hooks(cls)) or "none"
        if not cls.__module__.startswith(_PACKAGE):  # tests check the package's encodings
            for hook in set(HOOKS) & set(vars(cls)):
                setattr(cls, hook, _checked(hook, vars(cls)[hook]))

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        """Encode the times `t` into the tokens `x` ``[B, N, D]``; called once, after the stem."""
        return x

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries and keys ``[B, H, N, E]`` to ``[B, H, N, E']``; `E'` may exceed `E`."""
        return q, k

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        """Return None or what to add to the scaled scores, ``[1 | B, 1 | H, N, N]``.

        `q` and `k` ``[B, H, N, E]`` are not rotated. Each row needs a key above minus infinity.
        """
        return None

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        """Return what to add to the output of attention over `v` ``[B, H, N, E]``, or None."""
        return None


def overridden_hooks(cls: type) -> list[str]:
    """Return the hooks that a class overrides, in the order in which they apply."""
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
    d_model, n_heads, max_len : int
        Model width `D`, number of heads `H`, number of tokens of the longest training series.
    **encoding_params
        Options of the class. In a sum an option goes to the one part that has it; if several have
        it, nest it under the name of the part: ``fixed={"base": 100.0}, rope={"base": 500.0}``.

    Raises
    ------
    TypeError, ValueError
        For another type, an unknown name or option, a part twice, an option that fits several.

    Examples
    --------
    >>> encoding = resolve("lspe", d_model=16, n_heads=4, max_len=20, d_hidden=8)
    >>> encoding.embed(torch.zeros(2, 20, 16), torch.arange(20.0)[None]).shape
    torch.Size([2, 20, 16])
    """
    sizes = {"d_model": d_model, "n_heads": n_heads, "max_len": max_len}
    parts = [_make(cls, sizes | options) for cls, options in _parts(encoding, encoding_params)]
    return parts[0] if len(parts) == 1 else Sum(parts)


class EncodingStack(nn.Module):
    """The encoding of a stack of blocks: one instance per stack, or one per block.

    A `per_block` part has an instance in each of the `n_layers` blocks; the blocks share all other
    parts. ``stack.at(i)`` has the four hooks of block `i`. In a `decoder`, parts with an option
    ``causal`` read earlier tokens only. Other parameters are as in `resolve`.
    """

    def __init__(
        self, encoding: EncodingSpec, *, n_layers: int, decoder: bool = False, **options: Any
    ):
        super().__init__()
        self.n_layers = n_layers
        self.parts = nn.ModuleList()
        sizes = {name: options.pop(name) for name in _SIZES}
        for factory, params in _parts(encoding, options):
            if decoder and "causal" in inspect.signature(factory).parameters:
                params = {**params, "causal": True}
            copies = nn.ModuleList([_make(factory, sizes | params)])
            n_copies = n_layers if copies[0].per_block else 1
            copies.extend(_make(factory, sizes | params) for _ in range(n_copies - 1))
            self.parts.append(copies)
        self.symmetric = all(copies[0].symmetric for copies in self.parts)  # type: ignore[index]

    def at(self, block: int) -> "Hooks":
        """Return the hooks of a block."""
        return _hooks(self.parts, [block])[0]

    def one_pass(self) -> "list[Hooks]":
        """Return the hooks of each block for one forward pass; a bias of times is computed once."""
        parts: Any = self.parts
        shared = [
            [SharedBias(copies)] if len(copies) == 1 and copies[0].bias_of_times else copies
            for copies in parts
        ]
        return _hooks(shared, range(self.n_layers))

    def embed(self, x: Tensor, t: Tensor, mask: Tensor | None = None) -> Tensor:
        """Apply the `embed` hooks to the tokens `x` ``[B, N, D]`` at times `t` ``[1 | B, N]``.

        Padding, where `mask` ``[B, N]`` is False, is zeroed after each part: no convolution carries
        it to valid tokens.
        """
        for copies in self.parts:
            x = copies[0].embed(x, t)  # type: ignore[index]
            if mask is not None:
                x = x * mask[..., None]
        return x


@dataclass(eq=False, repr=False)
class Chain:
    """Several encodings as one: hooks apply in the order of the parts; biases and mixes add up."""

    parts: Iterable[Any]

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        for encoding in self.parts:
            x = encoding.embed(x, t)
        return x

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        for encoding in self.parts:
            q, k = encoding.rotate(q, k, t)
        return q, k

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        return _add(encoding.bias(q, k, t) for encoding in self.parts)

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        return _add(encoding.mix(v, t) for encoding in self.parts)


class SharedBias(Chain):
    """A part for one forward pass, whose first block computes the bias for all."""

    _computed: Tensor | None = None

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        if self._computed is None:
            self._computed = super().bias(q, k, t)
        return self._computed


class Sum(Chain, PositionalEncoding):
    """A sum of encodings, as in ``"tape+erpe"``: the hooks of its parts, in order."""

    def __init__(self, parts: Sequence[PositionalEncoding]):
        PositionalEncoding.__init__(self)
        self.parts = nn.ModuleList(parts)
        self.kind = "+".join(encoding.kind for encoding in parts)
        self.symmetric = all(encoding.symmetric for encoding in parts)
        # Past the trained length a sum behaves as its first part that does not extend.
        self.extrapolation = min((p.extrapolation for p in parts), key="extends".__eq__)
        self.reference = "; ".join(dict.fromkeys(p.reference for p in parts if p.reference))


Hooks: TypeAlias = PositionalEncoding | Chain


def _hooks(parts: Iterable[Any], blocks: Iterable[int]) -> list[Hooks]:
    """Return the hooks of blocks, of parts with one instance or one per block."""
    chains = [[copies[min(block, len(copies) - 1)] for copies in parts] for block in blocks]
    return [chain[0] if len(chain) == 1 else Chain(chain) for chain in chains]


def _add(terms: Iterable[Tensor | None]) -> Tensor | None:
    present = [term for term in terms if term is not None]
    return reduce(torch.add, present) if present else None


def encoding_name(encoding: Any) -> str:
    """Return the name of an encoding, of a class or of a factory."""
    if isinstance(encoding, str):
        return "+".join(part_names(encoding))
    if isinstance(encoding, Chain):
        return "+".join(map(encoding_name, encoding.parts))
    label = getattr(encoding, "registered_name", "") or getattr(encoding, "__name__", "")
    return label or type(encoding).__name__


def at_least_float32(t: Tensor) -> Tensor:
    """Cast 16-bit times to float32: bfloat16 cannot represent every integer above 256."""
    return t if t.dtype == torch.float64 else t.float()


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """Compute in the dtypes of the inputs."""
    enabled = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if enabled else nullcontext()


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
    """Replace negligible biases by minus infinity: as denormals they slow a CPU down."""
    return bias.masked_fill(bias < NEGLIGIBLE, float("-inf"))


_SIZES = ("d_model", "n_heads", "max_len")
_parts = partial(terms_of, PositionalEncoding, sizes=_SIZES, sum_of="tape+erpe")


def _make(factory: Factory, params: Mapping[str, Any]) -> PositionalEncoding:
    """Make an encoding; raise TypeError if it cannot be used."""
    made = make(PositionalEncoding, factory, **params)
    if made.kind == "none" != made.name:
        raise TypeError(
            f"{type(made).__qualname__} implements none of the hooks {', '.join(HOOKS)}: define "
            'one, or use encoding="none"'
        )
    for module in made.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                raise TypeError(
                    f"{type(module).__qualname__} of an encoding keeps a tensor in self.{name}, "
                    "which is not saved: assign torch.nn.Parameter(...), or "
                    f"self.register_buffer({name!r}, ...)"
                )
    return made


def _checked(hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook of a user's class that checks its result."""

    @wraps(function)
    def checked(self: PositionalEncoding, *inputs: Tensor) -> Any:
        result, x = function(self, *inputs), inputs[0]
        if not _fits(hook, result, x):
            outs = result if isinstance(result, tuple) else (result,)
            kinds = [(tuple(getattr(t, "shape", ())), getattr(t, "dtype", type(t))) for t in outs]
            task = " ".join(getattr(PositionalEncoding, hook).__doc__.split())
            raise ValueError(
                f"the hook {hook} of {type(self).__qualname__} returned {kinds} for an input "
                f"{tuple(x.shape)} of {x.dtype}. Its task: {task}"
            )
        return result

    return checked


def _fits(hook: str, result: Any, x: Tensor) -> bool:
    """Whether a hook may return this result for `x`, its first input."""
    if result is None:
        return hook in ("bias", "mix")
    tensors = result if isinstance(result, tuple) else (result,)
    # Booleans would be a mask or numbers. Autocast mixes float32 and 16 bits.
    if len(tensors) != 1 + (hook == "rotate") or not all(
        isinstance(tensor, Tensor)
        and tensor.is_floating_point()
        and (tensor.dtype == torch.float64) == (x.dtype == torch.float64)
        for tensor in tensors
    ):
        return False
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    if torch.compiler.is_compiling() or capturing:
        return True  # sizes are symbols, and values unknown
    if hook == "rotate":
        q, k = tensors
        return q.dim() == 4 and q.shape[:3] == x.shape[:3] and q.shape == k.shape
    if hook == "bias":
        B, H, N, _ = x.shape
        fits = result.dim() == 4 and all(map(contains, ({1, B}, {1, H}, {N}, {N}), result.shape))
        return fits and not bool((result == float("-inf")).all(dim=-1).any())
    return bool(result.shape == x.shape)
