"""The default against the field: the README's table and picture, from rows of two studies.

    python tools/field.py [--results CSV ...] [--commit]

Prints the table, and writes accuracy_and_seconds.png.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.accuracy.recipe_study import DATASETS as DEVELOPMENT
from experiments.output import COMMITTED, add_output_options
from tools.pictures import write_figure
from tsformer import TSEnsembleClassifier
from tsformer._markdown import markdown_table

__all__ = ["RESULTS", "TUNED", "costs_and_scores", "picture", "seconds_table", "short_table"]

STUDY = COMMITTED / "default_against_the_field"
#: Rows of the study; of QUANT and RDST with two seeds, and of today's ensemble on `MANY`; and of
#: today's transformer on `MANY`; and of other networks.
RESULTS = (
    *(STUDY / "results.csv", STUDY / "rivals.csv", COMMITTED / "confirmation_5.csv"),
    COMMITTED / "deep_networks/results.csv",
)
#: Seconds of all methods, in one run on one machine: `experiments/cost/fit_seconds.py`.
SECONDS = COMMITTED / "fit_seconds.csv"
#: The share of the classes' entropy that the random convolutions leave unexplained, by problem and
#: seed: the gate of the ensemble compares it.
SHARES = COMMITTED / "gate.csv"
#: Problems with 1,000 training series and more, where an ensemble has no gate.
MANY = ("LSST", "MelbournePedestrian", "PenDigits")
#: Held-out problems whose scores were known when a setting that concerns them was chosen.
TUNED = ("PLAID", *MANY)
DEFAULT = "tsformer"
OURS = (DEFAULT, "ensemble", "random-convolutions", "tsformer-patch")
#: Display names of the methods.
LABELS = {
    DEFAULT: "`TSTransformerClassifier()`",
    "tsformer-patch": '`TSTransformerClassifier(stem="patch")`',
    "ensemble": "`TSEnsembleClassifier()`",
    "random-convolutions": "`RandomConvolutionClassifier()`",
    "minirocket": "MiniRocket (aeon)",
    "multirocket-hydra": "MultiRocket-Hydra (aeon)",
    "rdst": "RDST (aeon)",
    "quant": "QUANT (aeon)",
}
#: Networks beside the default, fitted or published.
NETWORKS = {
    "tsformer-patch": LABELS["tsformer-patch"],
    "convtran": "ConvTran (sktime)",
    "resnet": "ResNet (sktime)",
}
PUBLISHED = {
    "h-inceptiontime": "H-InceptionTime (published)",
    "inceptiontime": "InceptionTime (published)",
    "litetime": "LITETime (published)",
}
#: Offset and alignment of labels in the picture; by default above their points.
ABOVE, BELOW, BESIDE, BEFORE = (
    ((0, 7), "center", "bottom"),
    ((0, -7), "center", "top"),
    ((7, 0), "left", "center"),
    ((-7, 0), "right", "center"),
)
PLACES = {DEFAULT: BELOW, "random-convolutions": BEFORE}
PLACES |= dict.fromkeys(("quant", "multirocket-hydra"), BESIDE)


def untouched(results: Sequence[Path]) -> pd.DataFrame:
    """Return the fits on held-out problems.

    The study's ensemble has no gate: below it the ensemble is the random convolutions.
    """
    if missing := [path for path in results if not path.is_file()]:
        raise SystemExit(
            f"--results: there is no {missing[0]}; it is the results.csv of `tsformer compare "
            "--study experiments/studies/default_against_the_field.toml`"
        )
    keys = ["dataset", "seed"]
    fits = pd.concat(map(pd.read_csv, results)).drop_duplicates([*keys, "method"], keep="last")
    shares = pd.read_csv(SHARES)
    gated = (shares["unexplained"] < TSEnsembleClassifier().gate) & ~shares["dataset"].isin(MANY)
    below = shares.loc[gated, keys]
    short = fits[fits["method"] == "random-convolutions"].merge(below, on=keys)
    replaced = pd.MultiIndex.from_frame(fits[keys]).isin(pd.MultiIndex.from_frame(below))
    kept = fits[~(replaced & (fits["method"] == "ensemble"))]
    fits = pd.concat([kept, short.assign(method="ensemble")])
    return fits[~fits["dataset"].isin(DEVELOPMENT)]


def short_table(results: Sequence[Path] = RESULTS, leave_out: Sequence[str] = ()) -> str:
    """Methods on the same data sets: mean accuracy, and median processor seconds of a fit."""
    methods = costs_and_scores(results, leave_out).sort_values("accuracy", ascending=False)
    rows = [
        (LABELS[str(name)], f"{row['accuracy']:.3f}", f"{row['seconds']:.2g}")
        for name, row in methods.iterrows()
    ]
    head = f"method, {methods['problems'].iloc[0]:.0f} data sets", " mean accuracy", " seconds"
    return markdown_table(head, rows)


def networks_table(results: Sequence[Path] = RESULTS) -> str:
    """Networks beside the default, each on the problems that both were fitted to."""
    fits = untouched(results)
    scores, seconds = (
        fits.pivot_table(column, "dataset", "method") for column in ("accuracy", "fit_cpu_seconds")
    )
    for name in PUBLISHED:
        published = pd.read_csv(COMMITTED / f"published/{name}.csv", index_col="dataset")
        scores[name] = published["accuracy"]
    rows = []
    for name, label in (NETWORKS | PUBLISHED).items():
        pair = scores[[name, DEFAULT]].dropna()
        gain = (pair[name] - pair[DEFAULT]).round(9)
        rows.append(
            (
                *(label, str(len(pair)), f"{pair[name].mean():.3f}", f"{pair[DEFAULT].mean():.3f}"),
                f"{100 * gain.mean():+.1f} ± {100 * gain.sem():.1f}",
                " / ".join(str((np.sign(gain) == sign).sum()) for sign in (1, 0, -1)),
                f"{seconds.loc[pair.index, name].median():.0f}" if name in seconds else "–",
            )
        )
    head = (
        *("network", " problems", " mean accuracy", " of the default", " points ahead of it"),
        *(" better / equal / worse", " seconds of a fit"),
    )
    return markdown_table(head, rows)


def seconds_table() -> str:
    """Processor seconds of a fit of each method on each timed problem."""
    seconds = _seconds()[list(LABELS)]
    rows = [(name, *(f"{value:.2g}" for value in row)) for name, *row in seconds.itertuples()]
    return markdown_table(("problem", *(f" {label}" for label in LABELS.values())), rows)


def _seconds() -> pd.DataFrame:
    return pd.read_csv(SECONDS).pivot_table("cpu_seconds", "dataset", "method", sort=False)


def costs_and_scores(
    results: Sequence[Path] = RESULTS, leave_out: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the median seconds and the mean accuracy of each method, where all were fitted."""
    fits = untouched(results)
    fits = fits[fits["method"].isin(LABELS) & ~fits["dataset"].isin(leave_out)]
    scores = fits.pivot_table("accuracy", "dataset", "method").dropna()
    return pd.DataFrame(
        {"seconds": _seconds().median(), "accuracy": scores.mean(), "problems": len(scores)}
    ).dropna()


def picture(results: Sequence[Path] = RESULTS) -> Figure:
    """Draw accuracy against the seconds of a fit, a point per method."""
    points = costs_and_scores(results)
    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
    ax = figure.subplots()
    for name, row in points.iterrows():
        ours = name in OURS
        color = "#0072B2" if ours else "#555555"
        ax.scatter(row["seconds"], row["accuracy"], color=color, s=45, zorder=3)
        offset, horizontal, vertical = PLACES.get(str(name), ABOVE)
        ax.annotate(
            re.sub(r"`| \((sktime|aeon)\)$", "", LABELS[str(name)]),
            (row["seconds"], row["accuracy"]),
            xytext=offset,
            textcoords="offset points",
            ha=horizontal,
            va=vertical,
            fontsize=9,
            color=color,
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.margins(x=0.25, y=0.2)
    ax.grid(alpha=0.3)
    ax.set_xlabel("processor seconds of a fit on one core, median of a sample (log scale)")
    ax.set_ylabel("mean accuracy")
    ax.set_title(f"{points['problems'].iloc[0]} held-out data sets", fontsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--results", type=Path, nargs="+", default=RESULTS, help="the rows of the study"
    )
    add_output_options(parser, "field")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    print(short_table(options.results))
    write_figure(picture(options.results), options.out / "accuracy_and_seconds.png")


if __name__ == "__main__":
    main()
