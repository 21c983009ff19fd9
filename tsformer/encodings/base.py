"""The extension point: what a positional encoding is, and how encodings are added up.

Shape letters, here and in every encoding: `B` series, `N` tokens, `D` model width, `H` heads,
`E` width of one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor, nn

from tsformer.encodings.registry import register

__all__ = ["Chain", "Hooks", "PositionalEncoding", "SharedBias", "Sum"]

Beyond = Literal["extends", "clamps", "interpolates"]


class Hooks(Protocol):
    """The four places where an encoding can tell attention where a token is."""

    def embed(self, x: Tensor, t: Tensor) -> Tensor: ...
    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]: ...
    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None: ...
    def mix(self, v: Tensor, t: Tensor) -> Tensor | None: ...


class PositionalEncoding(nn.Module):
    """Base of all positional encodings: four hooks, each the identity until overridden.

    Subclassing with a name registers the class, and the name then works wherever an
    encoding is asked for: ``class Ramp(PositionalEncoding, name="ramp")``. The signature of
    the class is its configuration: ``__init__`` takes ``d_model``, ``n_heads`` and ``max_len`` (the
    number of tokens of the longest training series) as keywords, then the encoding's own options
    with their defaults.

    Positions `t`, of shape ``[1 | B, N]``, are points in time and not indices: floats, one apart
    from token to token of a regular series, anything that does not decrease otherwise. Padded
    tokens come as zeros in `x` and `v` and repeat the last real time of their series. Compute from
    `t` in float32 even under autocast: 16 bits know only 769 of the integers up to 4095.

    Attributes
    ----------
    kind : str
        The hook that it overrides: "embed", "rotate", "bias" or "mix"; "none" for none.
    beyond : str
        Past the trained length it "extends" (the formula goes on), "clamps" (the last trained
        value is repeated) or "interpolates" (trained values are stretched).
    symmetric : bool
        Whether swapping past and future changes nothing, as for ``abs(j - i)``. With a
        pointwise stem and mean pooling such an encoding cannot tell a rising series from a falling
        one.
    per_block : bool
        Whether each block owns its weights. Otherwise one instance serves the whole stack.
    bias_of_times : bool
        Whether `bias` reads the times alone, and of `q` and `k` no more than their type. The blocks
        that share an instance then share its bias, made once in a pass.
    reference : str
        The paper.
    """

    name: ClassVar[str] = ""
    kind: str = "none"
    beyond: Beyond = "extends"
    symmetric: bool = False
    per_block: ClassVar[bool] = False
    bias_of_times: ClassVar[bool] = False
    reference: str = ""

    def __init_subclass__(cls, *, name: str | None = None, replace: bool = False, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.name = name or ""  # never the parent's, whose name would then stand for this class
        if name is not None:
            register(name, cls, replace=replace)

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        """Map tokens `x` ``[B, N, D]`` at times `t` to tokens that know where they are."""
        return x

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries and keys ``[B, H, N, E]`` to ``[B, H, N, E']``; `E'` may be wider."""
        return q, k

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        """Return ``[1 | B, 1 | H, N, N]`` to add to the scaled scores, or None.

        `q` and `k` ``[B, H, N, E]`` are as projected, before any rotation.
        """
        return None

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        """Return ``[B, H, N, E]`` to add to the output of attention over `v`, or None."""
        return None


class Chain:
    """Several encodings as one: each hook applies its parts in order; biases and mixes add up."""

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
    """A part's hooks in one pass through the blocks, with its bias made by the first of them."""

    def __init__(self, part: Hooks):
        self.embed = part.embed
        self.rotate = part.rotate
        self.mix = part.mix
        self._part = part
        self._made: Tensor | None = None

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        if self._made is None:
            self._made = self._part.bias(q, k, t)
        return self._made


class Sum(PositionalEncoding):
    """A sum of encodings, as in ``"tape+erpe"``: the hooks of its parts in order."""

    parts: nn.ModuleList

    def __init__(self, parts: Sequence[PositionalEncoding]):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.kind = "+".join(part.kind for part in parts)
        self.symmetric = all(part.symmetric for part in parts)
        # Past the trained length a sum is limited as its first limited part.
        self.beyond = next((p.beyond for p in parts if p.beyond != "extends"), "extends")
        references = [part.reference for part in parts if part.reference]
        self.reference = "; ".join(dict.fromkeys(references))

    # The composition is written once, in Chain, which needs only `self.parts`.
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
