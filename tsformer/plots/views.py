"""Effects of an encoding's hooks on a few positions, as arrays."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsformer.encodings import resolve
from tsformer.encodings.base import overridden_hooks
from tsformer.training.seeds import seeded

_MOST_HEADS = 4


@dataclass(frozen=True)
class View:
    """Effect of one hook of an encoding on `N` positions."""

    name: str
    says: str
    #: "embed", "rotate", "bias" or "mix"; "none" if no hook is overridden.
    hook: str
    #: Heat maps ``[N, F]`` or ``[N, N]`` by title.
    maps: dict[str, np.ndarray]
    #: Similarity of two positions ``[N, N]``.
    matrix: np.ndarray | None
    #: Mean value, or score, at the distances ``-(N - 1) .. N - 1``, by head.
    curves: dict[str, np.ndarray]
    #: Input of the hook, such as a signal; mostly empty.
    note: str = ""

    @property
    def title(self) -> str:
        """Return name, description and note."""
        return f"{self.name}: {self.says}{self.note and f' ({self.note})'}"


def encoding_views(
    encoding: Any, n_positions: int, /, *, d_model: int, n_heads: int, **encoding_params: Any
) -> list[View]:
    """Evaluate each hook that an encoding overrides."""
    if d_model % n_heads:
        raise ValueError(
            f"the number of heads must divide d_model; got {n_heads} heads, d_model={d_model}"
        )
    by_name = isinstance(encoding, str)
    if by_name:
        with seeded(0, torch.device("cpu")):  # a name always gives the same figure
            encoding = resolve(
                encoding, d_model=d_model, n_heads=n_heads, max_len=n_positions, **encoding_params
            )
    sizes = (n_positions, d_model, n_heads)
    views = []
    for part in getattr(encoding, "parts", [encoding]):
        # A copy without dropout, since the caller's must not change.
        part = copy.deepcopy(part).cpu().float().eval()
        found = _part_views(part, *sizes)
        if by_name and not any(values.any() for view in found for values in view.maps.values()):
            found = _with_random_weights(part, *sizes) or found
        views += found
    return views


def encoding_name(encoding: Any) -> str:
    """Return the name of an encoding, or of its class."""
    if isinstance(encoding, str):
        return encoding
    parts = getattr(encoding, "parts", None)
    if parts is not None:
        return "+".join(map(encoding_name, parts))
    return getattr(encoding, "name", "") or type(encoding).__name__


def _with_random_weights(part: Any, n: int, d_model: int, n_heads: int) -> list[View]:
    """Evaluate a part initialised to zero with random weights."""
    weights = list(part.parameters())
    for weight in weights:
        # Smooth along the last axis: the curves of a table of distances would be unreadable.
        rows = weight.reshape(-1, weight.shape[-1] if weight.ndim else 1)
        weight.data = _smooth_curves(*rows.shape).view_as(weight)
    views = _part_views(part, n, d_model, n_heads) if weights else []
    return [replace(view, note="random weights: it is initialised to zero") for view in views]


@torch.inference_mode()
def _part_views(part: Any, n: int, d_model: int, n_heads: int) -> list[View]:
    own = overridden_hooks(type(part))
    name = encoding_name(part)
    t = torch.arange(float(n))[None]
    heads = torch.ones(1, n_heads, n, d_model // n_heads)
    views = []
    if "embed" in own:
        views.append(_embedded(name, part, t, d_model))
    if "rotate" in own:
        q, k = part.rotate(heads, heads, t)
        views.append(_rotated(name, q, k, width=heads.shape[-1]))
    if "bias" in own:
        bias = part.bias(heads, heads, t)
        of_queries = not torch.equal(bias, part.bias(0 * heads, heads, t).expand_as(bias))
        note = "for queries of ones, on which it depends" if of_queries else ""
        views.append(_paired(name, "added to the scores", "bias", bias[0], note))
    if "mix" in own:
        # Applied to the identity, a linear map of the values gives its own matrix.
        weights = part.mix(torch.eye(n).expand(1, n_heads, n, n), t)
        views.append(_paired(name, "added to the attention weights", "mix", weights[0]))
    if not own:
        nothing, alike = np.zeros((n, d_model)), np.ones((n, n))
        says = "nothing added, all positions are alike"
        views.append(View(name, says, "none", {"": nothing}, alike, {}))
    return views


def _embedded(name: str, part: Any, t: Tensor, d_model: int) -> View:
    tokens = torch.zeros(1, t.shape[1], d_model)
    added = part.embed(tokens, t)
    note = ""
    if torch.equal(added, added[:, :1].expand_as(added)):
        # Tokens of zeros give the same everywhere: it may act on the signal.
        tokens = _smooth_curves(d_model, t.shape[1]).T[None]
        of_signal = part.embed(tokens, t) - tokens
        if not torch.allclose(of_signal, added, atol=1e-6):
            added = of_signal
            note = "for a smooth random signal, on which it depends"
    unit = torch.nn.functional.normalize(added[0], dim=-1)
    cosines = (unit @ unit.T).numpy()
    return View(name, "added to the tokens", "embed", {"": added[0].numpy()}, cosines, {}, note)


def _rotated(name: str, q: Tensor, k: Tensor, width: int) -> View:
    scores = (q @ k.transpose(-1, -2) / width)[0].numpy()
    note = "" if q.shape[-1] == width else f"widened from {width} features to {q.shape[-1]}"
    curves = _by_distance(scores)
    maps = {f"queries, {next(iter(curves))}": q[0, 0].numpy()}
    return View(name, "queries and keys of ones", "rotate", maps, scores[0], curves, note)


def _paired(name: str, says: str, hook: str, values: Tensor, note: str = "") -> View:
    matrices = values.numpy()
    maps = dict(zip(_heads(matrices), matrices, strict=False))
    return View(name, says, hook, maps, None, _by_distance(matrices), note)


def _by_distance(matrices: np.ndarray) -> dict[str, np.ndarray]:
    n = matrices.shape[-1]
    return {
        head: np.array([matrix.diagonal(gap).mean() for gap in range(1 - n, n)])
        for head, matrix in zip(_heads(matrices), matrices, strict=False)
    }


def _heads(matrices: np.ndarray) -> list[str]:
    """Return titles of the first heads, or one if all are alike."""
    if len(matrices) == 1 or np.array_equal(matrices, matrices[:1].repeat(len(matrices), axis=0)):
        return ["every head"]
    return [f"head {head}" for head in range(len(matrices[:_MOST_HEADS]))]


def _smooth_curves(n_curves: int, length: int) -> Tensor:
    """Return fixed random curves ``[n_curves, length]`` of unit scale."""
    window = 2 * max(length // 16, 1) + 1
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1, n_curves, length + window - 1, generator=generator)
    return torch.nn.functional.avg_pool1d(noise, window, stride=1)[0] * window**0.5
