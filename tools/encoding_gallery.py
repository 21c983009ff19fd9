"""Draw every encoding side by side, and the two figures that papers in this field open with.

    python tools/encoding_gallery.py [--commit]

Writes encoding_gallery.png, one tile per encoding, and encoding_habit.png: the similarity of
positions under `fixed` and `lspe`, and the sinusoid. All encodings are shown before training, under
seed 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.output import add_output_options
from tools.png import write_figure
from tsformer.encodings import available
from tsformer.plots.encodings import curve_range, matrix_range, with_margin
from tsformer.plots.figures import HEAD_COLORS
from tsformer.plots.views import View, encoding_views

POSITIONS, D_MODEL, N_HEADS = 128, 64, 4
#: The kinds in the order of the figure: what they do, and how to read their tiles.
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
        "mix: added to the attention weights, after the softmax",
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


def gallery(encodings: Sequence[dict[str, Any]]) -> Figure:
    """Draw the encodings, rows of `available()`, one tile each, by kind."""
    tiles = list(placed(encodings))
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
    encodings: Sequence[dict[str, Any]],
) -> Iterator[tuple[int, int, dict[str, Any], bool]]:
    """Yield row, column and encoding of each tile, and whether it is the first of its kind.

    A kind continues the row in which the previous one ends if all of it fits there.
    """
    place = 0
    for kind in KINDS:
        own = [encoding for encoding in encodings if encoding["kind"] == kind]
        if place % COLUMNS + len(own) > COLUMNS:
            place = -(-place // COLUMNS) * COLUMNS
        for number, encoding in enumerate(own):
            yield *divmod(place, COLUMNS), encoding, number == 0
            place += 1


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
    ax.set(xlim=(1 - POSITIONS, POSITIONS - 1), ylim=with_margin(low, high))


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


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_output_options(parser, "encoding_gallery")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    folder = arguments(argv).out
    for name, figure in {"gallery": gallery(available()), "habit": habit()}.items():
        write_figure(figure, folder / f"encoding_{name}.png")


if __name__ == "__main__":
    main()
