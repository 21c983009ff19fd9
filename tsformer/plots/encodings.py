"""What an encoding looks like: its values by position, and what it makes of two positions."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tsformer.encodings import PositionalEncoding, resolve
from tsformer.plots.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["plot_encoding", "plot_encoding_change"]

_MOST_HEADS = 4
_HOOKS = ("embed", "rotate", "bias", "mix")


@dataclass(frozen=True)
class _View:
    """What one hook of an encoding does.

    `maps` are the heat maps at the left, ``[N, D]`` or one ``[N, N]`` a head. At the right goes
    `similarity` ``[N, N]`` or, if it is None, the mean of each map at each distance.
    """

    title: str
    maps: list[np.ndarray]
    similarity: np.ndarray | None


def plot_encoding(
    encoding: Any,
    n_positions: int,
    *,
    d_model: int = 64,
    n_heads: int = 4,
    name: str = "",
    **encoding_params: Any,
) -> Figure:
    """Draw an encoding, one row for each hook that it uses.

    Left is a heat map of its values, position x feature; for encodings of the distance (bias and
    mix) the matrix of each of the first heads. Right is the cosine similarity between positions,
    or the value by distance.

    Parameters
    ----------
    encoding : str, or object with the four hooks
        A name or sum, drawn as it is before any training, or a module: what
        `tsformer.encodings.resolve` returns, or ``classifier.model_.encoding.at(0)``.
    n_positions : int
        Number of tokens `N`.
    d_model, n_heads : int
        The sizes of the model it belongs to.
    name : str, optional
        For the title; known where `encoding` is a name.
    **encoding_params
        Options of an encoding given by name.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if isinstance(encoding, str):
        name = name or encoding
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)  # a name has one picture
            encoding = resolve(
                encoding, d_model=d_model, n_heads=n_heads, max_len=n_positions, **encoding_params
            )
    views = _views(encoding, n_positions, d_model, n_heads)
    return _draw(name or _name(encoding), [(view, view) for view in views])


def plot_encoding_change(
    before: Any,
    after: Any,
    n_positions: int,
    *,
    d_model: int = 64,
    n_heads: int = 4,
    name: str = "",
) -> Figure:
    """Draw an encoding before and after training, one row each, in the same colours.

    What training left as it was, as in an encoding without parameters, has one row.

    Parameters
    ----------
    before, after : object with the four hooks
        As in `plot_encoding`.
    n_positions, d_model, n_heads, name
        As in `plot_encoding`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = []
    sizes = (n_positions, d_model, n_heads)
    for first, then in zip(_views(before, *sizes), _views(after, *sizes), strict=True):
        if all(map(np.array_equal, first.maps, then.maps)):
            rows.append((replace(then, title=f"{then.title}, untouched by training"), then))
            continue
        rows.append((replace(first, title=f"{first.title}, before training"), then))
        rows.append((replace(then, title=f"{then.title}, after training"), first))
    return _draw(name or _name(after), rows)


def _views(encoding: Any, n: int, d_model: int, n_heads: int) -> list[_View]:
    """Ask each hook that is overridden what it does to n positions."""
    views = []
    width = d_model // n_heads
    t = torch.arange(float(n))[None]
    for part in getattr(encoding, "parts", [encoding]):
        part = (
            copy.deepcopy(part).cpu().float().eval()
        )  # without dropout; the caller's stays as it is
        own = [h for h in _HOOKS if getattr(type(part), h) is not getattr(PositionalEncoding, h)]
        label = _name(part)
        with torch.inference_mode():
            if "embed" in own:
                rows = part.embed(torch.zeros(1, n, d_model), t)[0]
                views.append(_rows(f"{label}: added to the tokens", rows))
            if "rotate" in own:
                ones = torch.ones(1, n_heads, n, width)
                rows = part.rotate(ones, ones, t)[0][0, 0]
                views.append(_rows(f"{label}: a query of ones, rotated", rows))
            if "bias" in own:
                ones = torch.ones(1, n_heads, n, width)
                views.append(_pairs(f"{label}: added to the scores", part.bias(ones, ones, t)))
            if "mix" in own:
                # Applied to the identity, a linear map of the values shows its own matrix.
                identity = torch.eye(n).expand(1, n_heads, n, n)
                views.append(
                    _pairs(f"{label}: added to the attention weights", part.mix(identity, t))
                )
        if not own:
            label += ": nothing added, all positions are alike"
            views.append(_View(label, [np.zeros((n, d_model))], np.ones((n, n))))
    return views


def _rows(title: str, rows: torch.Tensor) -> _View:
    unit = torch.nn.functional.normalize(rows, dim=-1)
    return _View(title, [rows.numpy()], (unit @ unit.T).numpy())


def _pairs(title: str, matrices: torch.Tensor) -> _View:
    return _View(title, [matrix.numpy() for matrix in matrices[0, :_MOST_HEADS]], None)


def _name(encoding: Any) -> str:
    parts = getattr(encoding, "parts", None)
    if parts is not None:
        return "+".join(map(_name, parts))
    return getattr(encoding, "name", "") or type(encoding).__name__


def _draw(name: str, rows: list[tuple[_View, _View]]) -> Figure:
    """One row for each view; its companion is what shares the colours."""
    figure = new_figure(10, 3.6 * len(rows) + 0.4)
    figure.suptitle(f"Positional encoding {name}", fontsize=14)
    bands = np.ravel(figure.subfigures(len(rows), 1, squeeze=False))
    for band, (view, companion) in zip(bands, rows, strict=True):
        band.suptitle(view.title, fontsize=11)
        left, right = band.subfigures(1, 2, width_ratios=[1.25, 1])
        _draw_maps(left, view, _largest(view, companion))
        axes = right.subplots()
        if view.similarity is None or companion.similarity is None:
            _draw_by_distance(axes, view, _extent(view, companion))
        else:
            low = min(view.similarity.min(), companion.similarity.min())
            _draw_similarity(axes, view.similarity, low)
    return figure


def _draw_maps(figure: SubFigure, view: _View, limit: float) -> None:
    several = view.similarity is None
    n_rows = 2 if len(view.maps) > 2 else 1
    n_columns = -(-len(view.maps) // n_rows)
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for head, (ax, values) in enumerate(zip(axes.flat, view.maps, strict=False)):
        image = ax.imshow(
            values, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        if several:
            ax.set_title(f"head {head}", fontsize=9)
    for ax in axes.flat[len(view.maps) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("key position" if several else "feature")
    for ax in axes[:, 0]:
        ax.set_ylabel("query position" if several else "position")
    figure.colorbar(image, ax=axes, label="value", shrink=0.9)


def _draw_similarity(ax: Axes, similarity: np.ndarray, low: float) -> None:
    image = ax.imshow(
        similarity, cmap="viridis", vmin=min(low, 0.99), vmax=1, interpolation="nearest"
    )
    ax.set_xlabel("position")
    ax.set_ylabel("position")
    ax.figure.colorbar(image, ax=ax, label="cosine similarity", shrink=0.9)


def _draw_by_distance(ax: Axes, view: _View, extent: tuple[float, float]) -> None:
    n = len(view.maps[0])
    distance = np.arange(1 - n, n)
    for head, values in enumerate(view.maps):
        curve = [values.diagonal(offset).mean() for offset in distance]
        color = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")[head]
        ax.plot(distance, curve, color=color, label=f"head {head}", linewidth=1.6)
    ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set_ylim(*extent)
    ax.set_xlabel("distance: key position \u2212 query position")
    ax.set_ylabel("value")
    ax.legend(fontsize=8, frameon=False)


def _largest(*views: _View) -> float:
    return max(float(np.abs(values).max()) for view in views for values in view.maps) or 1.0


def _extent(*views: _View) -> tuple[float, float]:
    everything = np.concatenate([values.ravel() for view in views for values in view.maps])
    low, high = float(everything.min()), float(everything.max())
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin
