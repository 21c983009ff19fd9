"""Pictures of an encoding: its values by position, and its effect on pairs of positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tsformer.plots.figures import HEAD_COLORS, new_figure
from tsformer.plots.views import View, encoding_name, encoding_views

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = [
    "curve_range",
    "matrix_range",
    "plot_encoding",
    "plot_encoding_change",
    "with_margin",
]


def plot_encoding(
    encoding: Any,
    n_positions: int,
    /,
    *,
    d_model: int = 64,
    n_heads: int = 4,
    name: str = "",
    **encoding_params: Any,
) -> Figure:
    """Draw an encoding, one row for each hook that it overrides.

    On the left are heat maps of its values: position x feature or, for what is added to pairs
    (bias and mix), the matrix of each of the first heads. Beside them is its effect on pairs of
    positions: the cosine similarity of the codes added to them (embed), the score of a query and a
    key of ones (rotate), and the value by distance (rotate, bias and mix). A hook that depends on
    the tokens is shown for a fixed smooth random signal, or for queries of ones, as its title says.

    Parameters
    ----------
    encoding : str, or object with the four hooks
        A name or sum, drawn with its initial weights (or random ones if the encoding is initially
        zero), or a module: what `tsformer.encodings.resolve` returns, or
        ``classifier.model_.encoding.at(0)``.
    n_positions : int
        Number of tokens `N`.
    d_model, n_heads : int
        Sizes of the model it belongs to.
    name : str, optional
        Name in the title; by default that of `encoding`.
    **encoding_params
        Options of an encoding given by name.

    Returns
    -------
    matplotlib.figure.Figure
    """
    name = name or encoding_name(encoding)
    views = encoding_views(
        encoding, n_positions, d_model=d_model, n_heads=n_heads, **encoding_params
    )
    return _draw(name, [(view.title, view, view) for view in views])


def plot_encoding_change(
    before: Any,
    after: Any,
    n_positions: int,
    *,
    d_model: int = 64,
    n_heads: int = 4,
    name: str = "",
) -> Figure:
    """Draw an encoding before and after training, one row each, on the same colour scale.

    A hook that training did not change, as in an encoding without parameters, has one row.

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
    both = (
        encoding_views(encoding, n_positions, d_model=d_model, n_heads=n_heads)
        for encoding in (before, after)
    )
    for first, then in zip(*both, strict=True):
        if _same(first, then):
            rows.append((f"{then.title}, untouched by training", then, then))
            continue
        rows.append((f"{first.title}, before training", first, then))
        rows.append((f"{then.title}, after training", then, first))
    return _draw(name or encoding_name(after), rows)


def _same(first: View, then: View) -> bool:
    if first.maps.keys() != then.maps.keys():
        return False
    pairs = [(first.maps[title], then.maps[title]) for title in then.maps]
    pairs += [(first.curves[head], then.curves[head]) for head in then.curves]
    return all(np.array_equal(before, after) for before, after in pairs)


def _draw(name: str, rows: list[tuple[str, View, View]]) -> Figure:
    """Draw one row for each view, on a colour scale shared with its companion."""
    figure = new_figure(10, 3.6 * len(rows) + 0.4)
    figure.suptitle(f"Positional encoding {name}", fontsize=14)
    bands = np.ravel(figure.subfigures(len(rows), 1, squeeze=False))
    for band, (title, view, companion) in zip(bands, rows, strict=True):
        band.suptitle(title, fontsize=11)
        panels = ["maps", *["matrix"] * (view.matrix is not None), *["curves"] * bool(view.curves)]
        widths = [1.25, 1] if len(panels) == 2 else [1, 1.1, 1]
        places = dict(
            zip(panels, band.subfigures(1, len(panels), width_ratios=widths), strict=True)
        )
        _draw_maps(places["maps"], view, companion)
        if view.matrix is not None:
            _draw_matrix(places["matrix"].subplots(), view, companion)
        if view.curves:
            _draw_curves(places["curves"].subplots(), view, companion)
    return figure


def _draw_maps(figure: SubFigure, view: View, companion: View) -> None:
    everything = [values for each in (view, companion) for values in each.maps.values()]
    low, high = min(map(np.min, everything)), max(map(np.max, everything))
    seen = _lowest_seen(view.hook, low, high)
    limit = max(-seen, high) or 1.0
    of_pairs = view.matrix is None
    n_rows = 2 if len(view.maps) > 2 else 1
    n_columns = -(-len(view.maps) // n_rows)
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for ax, (title, shown) in zip(axes.flat, view.maps.items(), strict=False):
        image = ax.imshow(
            shown, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        ax.set_title(title, fontsize=9)
    for ax in axes.flat[len(view.maps) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("key position" if of_pairs else "feature")
    for ax in axes[:, 0]:
        ax.set_ylabel("query position" if of_pairs else "position")
    extend = "min" if seen > low else "neither"
    figure.colorbar(image, ax=axes, label="value", shrink=0.9, extend=extend)


def _draw_matrix(ax: Axes, view: View, companion: View) -> None:
    low, high = matrix_range(view, companion)
    image = ax.imshow(
        np.asarray(view.matrix), cmap="viridis", vmin=low, vmax=high, interpolation="nearest"
    )
    of_scores = view.hook == "rotate"
    ax.set_xlabel("key position" if of_scores else "position")
    ax.set_ylabel("query position" if of_scores else "position")
    if of_scores:
        ax.set_title(f"scores, {next(iter(view.curves))}", fontsize=9)
    label = "score (1 without the encoding)" if of_scores else "cosine similarity"
    where = "bottom" if of_scores else "right"  # beside it are three panels, or two
    ax.figure.colorbar(image, ax=ax, label=label, location=where, shrink=0.9)


def _draw_curves(ax: Axes, view: View, companion: View) -> None:
    for color, (head, curve) in zip(HEAD_COLORS, view.curves.items(), strict=False):
        reach = len(curve) // 2
        marker = None if reach else "o"  # a line through a single point is invisible
        x = np.arange(-reach, reach + 1)
        ax.plot(x, curve, color=color, label=head, linewidth=1.6, marker=marker)
    ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set_ylim(*with_margin(*curve_range(view, companion)))
    ax.set_xlabel("distance from query to key")
    ax.set_ylabel("mean score" if view.hook == "rotate" else "mean value")
    if len(view.curves) > 1:
        ax.legend(fontsize=8, framealpha=0.8, edgecolor="none")


def matrix_range(*views: View) -> tuple[float, float]:
    """Return the range of the values of the matrices of `views`."""
    matrices = [view.matrix for view in views if view.matrix is not None]
    low, high = float(min(map(np.min, matrices))), float(max(map(np.max, matrices)))
    # A colour scale of rounding errors would show a meaningless pattern.
    return (low, high) if high - low > 1e-3 else (high - 1.0, high)


def curve_range(*views: View) -> tuple[float, float]:
    """Return the range that the curves of `views`, all of one hook, are shown in."""
    curves = np.concatenate([curve for view in views for curve in view.curves.values()])
    low, high = float(curves.min()), float(curves.max())
    return _lowest_seen(views[0].hook, low, high), high


def with_margin(low: float, high: float) -> tuple[float, float]:
    """Return the limits of an axis that shows the values from `low` to `high`."""
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin


def _lowest_seen(hook: str, low: float, high: float) -> float:
    """Return `low`, for a bias at least `high` - 12, a factor of e^-12 after the softmax."""
    return max(low, high - 12.0) if hook == "bias" else low
