"""Draw every augmentation on three series: a regular one, one with a gap at irregular times, codes.

    python tools/augmentation_gallery.py [--commit]

Writes augmentation_gallery.png. Every series is chosen, all other options are at their defaults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.output import add_output_options
from tools.catalogue_pages import augmentations
from tools.png import write_figure
from tsformer.augmentation import Batch, resolve
from tsformer.training.seeds import seeded

COLORS = ("#0072B2", "#D55E00")
SEED = 53
#: The columns: what a series is, and how it is drawn.
COLUMNS = {
    "a regular series": {"linewidth": 1.2},
    "irregular times and a gap": {"linewidth": 0.9, "marker": "o", "markersize": 3},
    "codes": {"linewidth": 1.2, "drawstyle": "steps-mid"},
}


def batches() -> dict[str, Batch]:
    """Return, for each column, the series to be augmented and one that it can be mixed with."""
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


def gallery() -> Figure:
    """Draw the augmentations of the package, a row each."""
    rows = augmentations()
    figure = Figure(figsize=(10, 1.9 * len(rows) + 0.4), dpi=100, layout="constrained")
    panels = figure.subplots(len(rows), len(COLUMNS), sharex="col", sharey="col", squeeze=False)
    for row, line in zip(rows, panels, strict=True):
        line[0].set_ylabel(row["name"], fontsize=12, weight="bold")
        for ax, (kind, batch) in zip(line, batches().items(), strict=True):
            _draw(ax, row, batch, COLUMNS[kind])
    for ax, kind in zip(panels[0], COLUMNS, strict=True):
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


def _draw(ax: Any, row: dict[str, Any], batch: Batch, style: dict[str, Any]) -> None:
    """Draw the series and two draws of the augmentation."""
    if batch.symbolic and not row["symbolic"]:
        ax.text(0.5, 0.5, "not for codes", transform=ax.transAxes, ha="center", color="0.4")
        return
    augmentation = resolve(row["name"], p=1.0)
    own, other = batch.values
    _line(ax, batch, own, color="0.6", label="before", **style | {"linewidth": 2.5})
    if row["mixes"]:
        dotted = {"color": "0.6", "linestyle": ":", "label": "the other series"}
        _line(ax, batch, other, **style | dotted | {"marker": None})
    for number, color in enumerate(COLORS):
        with seeded(SEED + number, torch.device("cpu")):
            after = augmentation(batch).values[0]
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
    add_output_options(parser, "augmentation_gallery")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    write_figure(gallery(), arguments(argv).out / "augmentation_gallery.png")


if __name__ == "__main__":
    main()
