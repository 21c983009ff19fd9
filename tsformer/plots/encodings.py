"""Pictures of an encoding: its values by position, and its effect on pairs of positions."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tsformer._precision import plain_torch
from tsformer._random import seeded
from tsformer.encodings import resolve
from tsformer.encodings.base import encoding_name, overridden_hooks
from tsformer.plots.figures import HEAD_COLORS, LEGEND, is_estimator, new_figure, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_HEADS = 4
_WIDTH = 10
_MOST_TOKENS = 256  # of a fitted model
_PIXELS: Any = {"aspect": "auto", "interpolation": "nearest"}
_NOTHING = (
    "Nothing is encoded: tokens, queries, keys and scores stay as they are,\n"
    "and to attention all positions are alike."
)


@dataclass(frozen=True)
class View:
    """Effect of one hook of an encoding, or of "none", on `N` positions."""

    title: str
    hook: str
    maps: dict[str, np.ndarray]  # heat maps [N, F] or [N, N] by title
    matrix: np.ndarray | None  # similarity of two positions [N, N]
    curves: dict[str, np.ndarray]  # mean value, or score, at distances -(N - 1) .. N - 1, by head
    note: str = ""  # input of the hook, such as a signal


def encoding_views(
    encoding: Any, n_positions: int, /, *, d_model: int, n_heads: int, **encoding_params: Any
) -> list[View]:
    """Evaluate each hook that an encoding overrides."""
    if d_model % n_heads:
        raise ValueError(f"n_heads must divide d_model; got {n_heads} heads, d_model={d_model}")
    sizes: Any = {"d_model": d_model, "n_heads": n_heads}
    by_name = isinstance(encoding, str)
    if by_name:
        with plain_torch(), seeded(0, torch.device("cpu")):  # a name always gives the same figure
            encoding = resolve(encoding, max_len=n_positions, **sizes, **encoding_params)
    views = []
    for summand in getattr(encoding, "parts", [encoding]):
        # A copy without dropout, since the caller's must not change.
        summand = copy.deepcopy(summand).cpu().float().eval()
        effects, weights = _views_of(summand, n_positions, **sizes), list(summand.parameters())
        if by_name and weights and not any(m.any() for view in effects for m in view.maps.values()):
            for weight in weights:
                # Smooth along the last axis: the curves of a table of distances are unreadable.
                rows = weight.reshape(-1, weight.shape[-1] if weight.ndim else 1)
                weight.data = _smooth_curves(*rows.shape).view_as(weight)
            note = "random weights: it is initialised to zero"
            effects = _views_of(summand, n_positions, **sizes, note=note)
        views += effects
    return views


@torch.inference_mode()
def _views_of(summand: Any, n: int, *, d_model: int, n_heads: int, note: str = "") -> list[View]:
    hooks, name = overridden_hooks(type(summand)), encoding_name(summand)
    t = torch.arange(float(n))[None]
    heads = torch.ones(1, n_heads, n, d_model // n_heads)
    views = []

    def add(hook: str, says: str, remark: str, maps: Any, matrix: Any, curves: Any) -> None:
        remark = note or remark
        title = f"{name}: {says}{remark and f' ({remark})'}"
        views.append(View(title, hook, maps, matrix, curves, remark))

    if "embed" in hooks:
        remark, tokens = "", torch.zeros(1, n, d_model)
        added = summand.embed(tokens, t)
        if torch.equal(added, added[:, :1].expand_as(added)):
            # Tokens of zeros give the same everywhere: it may act on the signal.
            tokens = _smooth_curves(d_model, n).T[None]
            of_signal = summand.embed(tokens, t) - tokens
            if not torch.allclose(of_signal, added, atol=1e-6):
                added, remark = of_signal, "for a smooth random signal, on which it depends"
        unit = torch.nn.functional.normalize(added[0], dim=-1)
        maps, cosines = {"": added[0].numpy()}, (unit @ unit.T).numpy()
        add("embed", "added to the tokens", remark, maps, cosines, {})
    if "rotate" in hooks:
        q, k = summand.rotate(heads, heads, t)
        width, wide = heads.shape[-1], q.shape[-1]
        scores = (q @ k.mT / width)[0].numpy()
        curves = _by_distance(scores)
        maps = {f"queries, {next(iter(curves))}": q[0, 0].numpy()}
        remark = "" if wide == width else f"widened from {width} features to {wide}"
        add("rotate", "queries and keys of ones", remark, maps, scores[0], curves)
    if "bias" in hooks:
        bias = summand.bias(heads, heads, t)
        of_queries = not torch.equal(bias, summand.bias(0 * heads, heads, t).expand_as(bias))
        remark = "for queries of ones, on which it depends" if of_queries else ""
        add("bias", "added to the scores", remark, *_pairs(bias[0].numpy()))
    if "mix" in hooks:
        # Applied to the identity, a linear map of the values gives its own matrix.
        matrices = summand.mix(torch.eye(n).expand(1, n_heads, n, n), t)[0].numpy()
        add("mix", "added to the attention weights", "", *_pairs(matrices))
    if not hooks:
        nothing, alike = np.zeros((n, d_model)), np.ones((n, n))
        add("none", "nothing added, all positions are alike", "", {"": nothing}, alike, {})
    return views


def _pairs(matrices: np.ndarray) -> tuple[dict[str, np.ndarray], None, dict[str, np.ndarray]]:
    """Return maps, no matrix, and curves of the heads' ``[N, N]``."""
    return dict(zip(_heads(matrices), matrices, strict=False)), None, _by_distance(matrices)


def _by_distance(matrices: np.ndarray) -> dict[str, np.ndarray]:
    n = matrices.shape[-1]
    return {
        head: np.array([matrix.diagonal(gap).mean() for gap in range(1 - n, n)])
        for head, matrix in zip(_heads(matrices), matrices, strict=False)
    }


def _heads(matrices: np.ndarray) -> list[str]:
    """Return titles of the first heads, or one if all are alike."""
    if (matrices == matrices[:1]).all():
        return ["every head"]
    return [f"head {head}" for head in range(len(matrices[:_MOST_HEADS]))]


def _smooth_curves(n_curves: int, length: int) -> Tensor:
    """Return fixed random curves ``[n_curves, length]`` of unit scale."""
    window = 2 * max(length // 16, 1) + 1
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1, n_curves, length + window - 1, generator=generator)
    return torch.nn.functional.avg_pool1d(noise, window, stride=1)[0] * window**0.5


def plot_encoding(
    encoding: Any,
    n_positions: int | None = None,
    /,
    *,
    d_model: int = 64,
    n_heads: int = 4,
    name: str = "",
    **encoding_params: Any,
) -> Figure:
    """Draw an encoding, one row for each hook that it overrides.

    Left: the values by position (embed, rotate), or by query and key of the first heads (bias,
    mix). Right: cosine similarity of the codes (embed), scores where all queries and keys are 1
    (rotate), and value by distance. The title names the input of hooks that depend on the tokens:
    a fixed smooth random signal, or queries that are 1.

    Parameters
    ----------
    encoding : str, or object with the four hooks
        A name or sum, drawn with initial weights, or random ones if these are zero; a module, as
        from `tsformer.encodings.resolve`; or a fitted transformer, whose first block is drawn.
    n_positions : int
        Number of tokens `N`. For a fitted transformer, by default its maximum, up to 256.
    d_model, n_heads : int
        Sizes of the model it belongs to.
    name : str, optional
        Name in the title; by default that of `encoding`.
    **encoding_params
        Options of an encoding given by name.

    Examples
    --------
    >>> plot_encoding("rope", 32, d_model=16, n_heads=2).get_suptitle()
    'Positional encoding rope'
    """
    if is_estimator(encoding, "encoding"):
        n_positions = n_positions or min(encoding.model_.max_tokens, _MOST_TOKENS)
        config = encoding.model_.config
        d_model, n_heads = config.d_model, config.n_heads
        name = name or encoding_name(config.encoding)
        encoding = encoding.model_.encoding.at(0)
    if n_positions is None:
        raise TypeError("n_positions is missing: pass plot_encoding(encoding, n_positions)")
    name = name or encoding_name(encoding)
    sizes = {"d_model": d_model, "n_heads": n_heads}
    views = encoding_views(encoding, n_positions, **sizes, **encoding_params)
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

    A hook that training did not change has one row. The arguments are as in `plot_encoding`.

    Examples
    --------
    >>> from tsformer.encodings import resolve
    >>> before, after = (resolve("erpe", d_model=8, n_heads=2, max_len=16) for _ in range(2))
    >>> after.table.data.normal_()
    tensor(...)
    >>> figure = plot_encoding_change(before, after, 16, d_model=8, n_heads=2)
    >>> [band.get_suptitle().rpartition(", ")[2] for band in figure.subfigs]
    ['before training', 'after training']
    """
    rows, sizes = [], {"d_model": d_model, "n_heads": n_heads}
    both = (encoding_views(encoding, n_positions, **sizes) for encoding in (before, after))
    for first, then in zip(*both, strict=True):
        old, new = ({**view.curves, **view.maps} for view in (first, then))
        if old.keys() == new.keys() and all((old[key] == new[key]).all() for key in old):
            rows.append((f"{then.title}, untouched by training", then, then))
            continue
        rows += [(f"{first.title}, before training", first, then)]
        rows += [(f"{then.title}, after training", then, first)]
    return _draw(name or encoding_name(after), rows)


def _draw(name: str, rows: list[tuple[str, View, View]]) -> Figure:
    """Draw a row per view, on the colour scale of its companion."""
    figure = new_figure(_WIDTH, 3.6 * len(rows) + 0.4)
    figure.get_layout_engine().set(wspace=0.05)  # type: ignore[union-attr, call-arg]
    figure.suptitle(wrapped(f"Positional encoding {name}", 0.96 * _WIDTH, 14), fontsize=14)
    bands = np.ravel(figure.subfigures(len(rows), 1, squeeze=False))
    for band, (title, view, companion) in zip(bands, rows, strict=True):
        band.suptitle(wrapped(title, 0.96 * _WIDTH, 11), fontsize=11)
        if view.hook == "none":
            ax = band.subplots()
            ax.axis("off")
            ax.text(0.5, 0.5, _NOTHING, ha="center", va="center", fontsize=15)
            continue
        # One grid for all panels of a row, so that they begin and end at the same height.
        maps, n_columns = [*view.maps, "."], 2 if len(view.maps) > 1 else 1
        ends = ["matrix"] * (view.matrix is not None) + ["curves"] * bool(view.curves)
        n_rows = -(-len(view.maps) // n_columns)
        cells = [[*maps[i : i + n_columns], *ends] for i in range(0, n_rows * n_columns, n_columns)]
        widths = [(1.25 if len(ends) == 1 else 1.0) / n_columns] * n_columns
        widths += [1.15 if len(ends) == 2 else 1.0, 1.0][: len(ends)]
        axes = band.subplot_mosaic(cells, width_ratios=widths)
        _draw_maps([axes[title] for title in view.maps], view, companion)
        if view.matrix is not None:
            _draw_matrix(axes["matrix"], view, companion)
        if view.curves:
            _draw_curves(axes["curves"], view, companion)
    return figure


def _draw_maps(panels: list[Axes], view: View, companion: View) -> None:
    everything = [*view.maps.values(), *companion.maps.values()]
    low, high = min(map(np.min, everything)), max(map(np.max, everything))
    seen = _lowest_seen(view.hook, low, high)
    limit = max(-seen, high) or 1.0
    pairs = view.matrix is None
    for ax, (title, shown) in zip(panels, view.maps.items(), strict=True):
        image = ax.imshow(shown, vmin=-limit, vmax=limit, cmap="RdBu_r", **_PIXELS)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("key position" if pairs else "feature")
        ax.set_ylabel("query position" if pairs else "position")
        ax.label_outer()
    extend = "min" if seen > low else "neither"
    panels[0].figure.colorbar(image, ax=panels, label="value", extend=extend)


def _draw_matrix(ax: Axes, view: View, companion: View) -> None:
    low, high = matrix_range(view, companion)
    image = ax.imshow(np.asarray(view.matrix), vmin=low, vmax=high, cmap="viridis", **_PIXELS)
    label, of = "cosine similarity", ("", "")
    if view.hook == "rotate":
        label, of = "score (1 without the encoding)", ("key ", "query ")
        ax.set_title(f"scores, {next(iter(view.curves))}", fontsize=9)
    ax.set(xlabel=f"{of[0]}position", ylabel=f"{of[1]}position")
    ax.figure.colorbar(image, ax=ax, label=label)


def _draw_curves(ax: Axes, view: View, companion: View) -> None:
    for color, (head, curve) in zip(HEAD_COLORS, view.curves.items(), strict=False):
        reach = len(curve) // 2
        marker = None if reach else "o"  # a line through a single point is invisible
        ax.plot(range(-reach, reach + 1), curve, color=color, label=head, lw=1.6, marker=marker)
    ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    low, high = curve_range(view, companion)
    margin = 0.05 * (high - low) or 0.05
    ax.set(xlabel="distance from query to key", ylim=(low - margin, high + margin))
    ax.set_ylabel("mean score" if view.hook == "rotate" else "mean value")
    ax.set_title("by distance", fontsize=9)
    if len(view.curves) > 1:
        ax.legend(**LEGEND)


def matrix_range(*views: View) -> tuple[float, float]:
    """Return the range of the values of the matrices of `views`."""
    matrices = np.stack([view.matrix for view in views if view.matrix is not None])
    low, high = float(matrices.min()), float(matrices.max())
    # A colour scale of rounding errors would show a meaningless pattern.
    return (low, high) if high - low > 1e-3 else (high - 1.0, high)


def curve_range(*views: View) -> tuple[float, float]:
    """Return the range that the curves of `views`, all of one hook, are shown in."""
    curves = np.concatenate([curve for view in views for curve in view.curves.values()])
    low, high = float(curves.min()), float(curves.max())
    return _lowest_seen(views[0].hook, low, high), high


def _lowest_seen(hook: str, low: float, high: float) -> float:
    """Cut a bias 12 below `high`: e^-12 after the softmax."""
    return max(low, high - 12.0) if hook == "bias" else low
