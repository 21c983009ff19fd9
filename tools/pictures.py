"""Draw the pictures of all encodings and augmentations.

    python tools/pictures.py [--commit]

Writes encoding_gallery.png, encoding_habit.png (the similarity of positions under `fixed` and
`lspe`, and the sinusoid) and augmentation_gallery.png. Encodings are shown before training, under
seed 0. Augmentations change every series; other options have their defaults.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments`

from experiments.output import add_output_options
from tsformer import augmentation, encodings
from tsformer._random import seeded
from tsformer.augmentation import Batch
from tsformer.plots.encodings import View, curve_range, encoding_views, matrix_range
from tsformer.plots.figures import HEAD_COLORS

__all__ = ["augmentation_gallery", "encoding_gallery", "habit", "write_figure", "write_png"]


def write_figure(figure: Figure, path: Path) -> None:
    """Save a figure at its own resolution and print its path."""
    file = io.BytesIO()
    figure.savefig(file, dpi=figure.dpi)
    write_png(file.getvalue(), path)


def write_png(png: bytes, path: Path) -> None:
    """Save a PNG with 256 colours, a third of the size, and print its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(path, optimize=True)
    print(path)


# Encodings

POSITIONS, D_MODEL, N_HEADS = 128, 64, 4
#: The kinds in the order of the figure: title, and how to read their tiles.
KINDS = {
    "embed": (
        "embed: added to the tokens",
        "left, what is added, position (down) by feature, red above zero; "
        "right, cosine similarity of two positions",
    ),
    "none": ("none: the control", "there is nothing to draw"),
    "rotate": (
        "rotate: turns or widens queries and keys",
        "score of a query and a key of ones, 1 without the encoding; "
        "left, query (down) by key in the first head; right, mean by distance, one line per head",
    ),
    "bias": (
        "bias: added to the scores, before the softmax",
        "what is added, by distance from query to key, one line per head; cut 12 below the highest",
    ),
    "mix": (
        "mix: added to attention weights, after softmax",
        "what is added, by distance from query to key, one line per head",
    ),
}

# Pixels of the figure. A panel has one per position, so that nothing is resampled.
DPI = 150
PAGE, MARGIN, COLUMNS = 1500, 20, 5
PANEL, GAP = POSITIONS, 16
PITCH = (PAGE - 2 * MARGIN + 20) // COLUMNS
HEADER, TITLE, FOOT = 62, 46, 56
ROW = HEADER + TITLE + PANEL + FOOT


def encoding_gallery(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw the encodings, rows of `available()`, one tile each, by kind."""
    tiles = list(placed(rows))
    height = (1 + max(row for row, *_ in tiles)) * ROW
    figure = Figure(figsize=(PAGE / DPI, height / DPI), dpi=DPI)
    for row, column, encoding, first_of_kind in tiles:
        x, y = MARGIN + column * PITCH, height - row * ROW
        if first_of_kind:
            title, how = KINDS[encoding["kind"]]
            _text(figure, x, y - 34, title, size=10, weight="bold", color="#0072B2")
            _text(figure, x, y - 54, how, size=7, color="0.35")
        _text(figure, x, y - HEADER - 22, encoding["name"], size=10, weight="bold")
        _text(figure, x, y - HEADER - 40, encoding["reference"], size=7, color="0.35")
        view = encoding_views(encoding["name"], POSITIONS, d_model=D_MODEL, n_heads=N_HEADS)[0]
        _tile(figure, x, y - HEADER - TITLE - PANEL, view)
    return figure


def placed(
    rows: Sequence[dict[str, Any]],
) -> Iterator[tuple[int, int, dict[str, Any], bool]]:
    """Yield row, column and encoding of each tile, and whether it is the first of its kind.

    A kind continues the row in which the previous one ends if all of it fits there.
    """
    tile = 0
    for kind in KINDS:
        encodings = [encoding for encoding in rows if encoding["kind"] == kind]
        if tile % COLUMNS + len(encodings) > COLUMNS:
            tile = -(-tile // COLUMNS) * COLUMNS
        for number, encoding in enumerate(encodings):
            yield *divmod(tile, COLUMNS), encoding, number == 0
            tile += 1


def _tile(figure: Figure, x: float, y: float, view: View) -> None:
    """Draw one or two panels with the lower left corner at `x`, `y`, and their ranges below."""
    right = x + PANEL + GAP
    if view.hook == "none":
        for line, words in enumerate(
            ("Nothing is encoded:", "to attention, all", "positions are alike.")
        ):
            _text(figure, x, y + PANEL - 20 - 22 * line, words, size=8)
    elif view.matrix is None:
        _curves(figure, x, y, right + PANEL - x, view)
    elif view.curves:
        _image(figure, x, y, view.matrix, *matrix_range(view), "viridis")
        _curves(figure, right, y, PANEL, view)
    else:
        (values,) = view.maps.values()
        limit = float(np.abs(values).max()) or 1.0
        _image(figure, x, y, values, -limit, limit, "RdBu_r")
        _image(figure, right, y, view.matrix, *matrix_range(view), "viridis")
    _text(figure, x, y - 40, view.note.partition(",")[0], size=7, color="#D55E00")


def _image(
    figure: Figure, x: float, y: float, values: Any, low: float, high: float, colors: str
) -> None:
    ax = _axes(figure, x, y, PANEL, low, high)
    ax.imshow(values, aspect="auto", cmap=colors, vmin=low, vmax=high, interpolation="nearest")


def _curves(figure: Figure, x: float, y: float, width: float, view: View) -> None:
    low, high = curve_range(view)
    ax = _axes(figure, x, y, width, low, high)
    for color, curve in zip(HEAD_COLORS, view.curves.values(), strict=False):
        ax.plot(np.arange(1 - POSITIONS, POSITIONS), curve, color=color, linewidth=0.9)
    ax.axvline(0, color="0.8", linewidth=0.6, zorder=0)
    ax.axhline(0, color="0.8", linewidth=0.6, zorder=0)
    margin = 0.05 * (high - low) or 0.05
    ax.set(xlim=(1 - POSITIONS, POSITIONS - 1), ylim=(low - margin, high + margin))


def _axes(figure: Figure, x: float, y: float, width: float, low: float, high: float) -> Any:
    page, height = figure.get_size_inches() * DPI
    ax = figure.add_axes((x / page, y / height, width / page, PANEL / height))
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set(color="0.6", linewidth=0.5)
    _text(figure, x, y - 20, f"{_short(low)} to {_short(high)}", size=7)
    return ax


def _short(value: float) -> str:
    text = f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"
    return text.replace("-", "\u2212")


def _text(figure: Figure, x: float, y: float, text: str, **style: Any) -> None:
    page, height = figure.get_size_inches() * DPI
    figure.text(x / page, y / height, text, **style)


def habit() -> Figure:
    """Draw the similarity of positions, and the sinusoid itself, at the customary sizes."""
    figure = Figure(figsize=(10, 3.6), dpi=DPI, layout="constrained")
    *similarities, heat_map = figure.subplots(1, 3)
    for ax, name in zip(similarities, ("fixed", "lspe"), strict=True):
        (view,) = encoding_views(name, 512, d_model=200, n_heads=N_HEADS)
        image = ax.imshow(view.matrix, cmap="viridis", vmax=1)
        ax.set(xlabel="position", ylabel="position")
        ax.set_title(f"{name}: 512 positions, 200 features", fontsize=10)
        figure.colorbar(image, ax=ax, location="bottom", label="cosine similarity", shrink=0.8)
    (view,) = encoding_views("fixed", 96, d_model=48, n_heads=N_HEADS)
    image = heat_map.imshow(view.maps[""], cmap="RdBu_r", aspect="auto", interpolation="nearest")
    heat_map.set(xlabel="feature (hidden dimension)", ylabel="position")
    heat_map.set_title("fixed: 96 positions, 48 features", fontsize=10)
    figure.colorbar(image, ax=heat_map, location="bottom", label="value", shrink=0.8)
    return figure


# Augmentations

COLORS = ("#0072B2", "#D55E00")
SEED = 53
#: The columns: a kind of series, and its line style.
KINDS_OF_SERIES = {
    "a regular series": {"linewidth": 1.2},
    "irregular times and a gap": {"linewidth": 0.9, "marker": "o", "markersize": 3},
    "codes": {"linewidth": 1.2, "drawstyle": "steps-mid"},
}


def batches() -> dict[str, Batch]:
    """Return for each column the series to augment, and one to mix it with."""
    with seeded(SEED, torch.device("cpu")):
        jumps = 0.3 + 2.5 * torch.rand(46)
        codes = torch.randint(1, 5, (2, 12)).repeat_interleave(5, dim=1)[..., None]
    regular = torch.linspace(0, 1, 200)
    irregular = jumps.cumsum(0) - jumps[:1]
    mask = ~((irregular > 28) & (irregular < 38))[None]
    return {
        "a regular series": _batch(_two_curves(regular)),
        "irregular times and a gap": _batch(
            _two_curves(irregular / irregular[-1]), mask, irregular[None]
        ),
        "codes": _batch(codes.float(), symbolic=True),
    }


def _two_curves(u: torch.Tensor) -> torch.Tensor:
    """Return two series ``[2, L, 1]`` at the relative times `u`: three bumps, and a triangle."""
    bumps = [
        height * torch.exp(-(((u - at) / width) ** 2))
        for at, width, height in ((0.2, 0.05, 1.0), (0.45, 0.08, -0.8), (0.75, 0.12, 1.5))
    ]
    return torch.stack([torch.stack(bumps).sum(0), 2.4 * (u - 0.5).abs() - 1.2])[..., None]


def _batch(
    pair: torch.Tensor,
    mask: torch.Tensor | None = None,
    times: torch.Tensor | None = None,
    *,
    symbolic: bool = False,
) -> Batch:
    if mask is None:
        return Batch(pair, None, times, symbolic)
    return Batch(pair * mask[..., None], mask.expand(len(pair), -1), times, symbolic)


def augmentation_gallery() -> Figure:
    """Draw the augmentations of the package, a row each."""
    rows = augmentation.available()
    figure = Figure(figsize=(10, 1.9 * len(rows) + 0.4), dpi=100, layout="constrained")
    panels = figure.subplots(
        len(rows), len(KINDS_OF_SERIES), sharex="col", sharey="col", squeeze=False
    )
    for row, line in zip(rows, panels, strict=True):
        line[0].set_ylabel(row["name"], fontsize=12, weight="bold")
        for ax, (kind, batch) in zip(line, batches().items(), strict=True):
            _draw_augmentation(ax, row, batch, KINDS_OF_SERIES[kind])
    for ax, kind in zip(panels[0], KINDS_OF_SERIES, strict=True):
        ax.set_title(kind, fontsize=11)
    for ax in panels[-1]:
        ax.set_xlabel("time")
    legend = {
        label: handle
        for ax in panels[:, 0]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def _draw_augmentation(ax: Any, row: dict[str, Any], batch: Batch, style: dict[str, Any]) -> None:
    """Draw the series and two draws of the augmentation."""
    if batch.symbolic and not row["symbolic"]:
        ax.text(0.5, 0.5, "not for codes", transform=ax.transAxes, ha="center", color="0.4")
        return
    change = augmentation.resolve(row["name"], p=1.0)
    values, partner = batch.values
    _line(ax, batch, values, color="0.6", label="before", **style | {"linewidth": 2.5})
    if row["mixes"]:
        dotted = {"color": "0.6", "linestyle": ":", "label": "the other series"}
        _line(ax, batch, partner, **style | dotted | {"marker": None})
    for number, color in enumerate(COLORS):
        with seeded(SEED + number, torch.device("cpu")):
            after = change(batch).values[0]
        _line(ax, batch, after, color=color, label=f"draw {number + 1}", **style)
    ax.set_yticks([])


def _line(ax: Any, batch: Batch, values: torch.Tensor, **style: Any) -> None:
    """Draw one series, with masked steps left out."""
    L = len(values)
    t = torch.arange(float(L)) if batch.times is None else batch.times[0]
    x = values[:, 0].clone()
    if batch.mask is not None:
        x[~batch.mask[0]] = torch.nan
    ax.plot(t.numpy(), x.numpy(), **style)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_output_options(parser, "pictures")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    out = arguments(argv).out
    write_figure(encoding_gallery(encodings.available()), out / "encoding_gallery.png")
    write_figure(habit(), out / "encoding_habit.png")
    write_figure(augmentation_gallery(), out / "augmentation_gallery.png")


if __name__ == "__main__":
    main()
