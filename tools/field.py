"""The default against the field: the README's table and picture, from the rows of that study.

    python tools/field.py [--results CSV] [--commit]

Prints the table, and writes accuracy_and_seconds.png.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.accuracy.recipe_study import DATASETS as DEVELOPMENT
from experiments.output import COMMITTED, add_output_options
from tools.pictures import write_figure
from tsformer import TSEnsembleClassifier
from tsformer._markdown import markdown_table
from tsformer.studies.analysis.published import PROTOCOL, marked, read_published

__all__ = ["RESULTS", "costs_and_scores", "picture", "short_table"]

RESULTS = COMMITTED / "default_against_the_field/results.csv"
#: The share of the classes' entropy that the random convolutions leave unexplained, by problem and
#: seed: the gate of the ensemble compares it.
SHARES = COMMITTED / "gate.csv"
PUBLISHED = COMMITTED / "published"
DEFAULT = "tsformer"
#: Left out of the picture.
CONTROLS = ("majority", "summary-ridge")
#: Published methods of the README's table, beside four of the study.
ROCKETS = ("ROCKET", "InceptionTime")
#: Our own methods.
OURS = (DEFAULT, "ensemble", "random-convolutions")
HYDRA = "multirocket-hydra"
#: Display names of the study's methods.
LABELS = {
    DEFAULT: "`TSTransformerClassifier()`",
    "ensemble": "`TSEnsembleClassifier()`",
    "random-convolutions": "`RandomConvolutionClassifier()`",
    "minirocket": "MiniRocket (aeon)",
    "multirocket": "MultiRocket (sktime)",
    HYDRA: "MultiRocket-Hydra (aeon)",
    "resnet": "ResNet (sktime)",
    "1nn-dtw": "nearest neighbour by DTW (sktime)",
}
#: Offset and alignment of labels in the picture; by default above their points.
ABOVE, BELOW, BESIDE = (
    ((0, 7), "center", "bottom"),
    ((0, -7), "center", "top"),
    ((7, 0), "left", "center"),
)
PLACES = {"multirocket": BELOW, DEFAULT: BELOW, "resnet": BELOW, HYDRA: BESIDE}


def untouched(results: Path) -> pd.DataFrame:
    """Return the fits on held-out problems.

    The study's ensemble has no gate: below it the ensemble is the random convolutions.
    """
    if not results.is_file():
        raise SystemExit(
            f"--results: there is no {results}; it is the results.csv of `tsformer compare --study "
            "experiments/studies/default_against_the_field.toml`"
        )
    fits, shares = pd.read_csv(results), pd.read_csv(SHARES)
    keys = ["dataset", "seed"]
    below = shares.loc[shares["unexplained"] < TSEnsembleClassifier().gate, keys]
    short = fits[fits["method"] == "random-convolutions"].merge(below, on=keys)
    replaced = pd.MultiIndex.from_frame(fits[keys]).isin(pd.MultiIndex.from_frame(below))
    kept = fits[~(replaced & (fits["method"] == "ensemble"))]
    gated = pd.concat([kept, short.assign(method="ensemble")])
    return gated[~gated["dataset"].isin(DEVELOPMENT)]


def short_table(results: Path = RESULTS, published: Path = PUBLISHED) -> str:
    """Six methods on the same data sets: mean accuracy and median processor seconds of a fit."""
    fits = untouched(results)
    fitted = fits.pivot_table("accuracy", "dataset", "method")[[*OURS, HYDRA]]
    known = read_published(published)
    known = known[known["protocol"] == PROTOCOL]
    known = known.pivot(index="dataset", columns="method", values="accuracy")
    scores = fitted.join(known[list(ROCKETS)]).dropna()
    shared = fits[fits["dataset"].isin(scores.index)]
    seconds = shared.groupby(["method", "dataset"])["fit_cpu_seconds"].mean()
    medians = seconds.groupby("method").median()
    rows = [
        (
            LABELS.get(name) or marked(name),
            f"{accuracy:.3f}",
            f"{medians[name]:.2g}" if name in medians else "–",
        )
        for name, accuracy in scores.mean().sort_values(ascending=False).items()
    ]
    return markdown_table((f"method, {len(scores)} data sets", " mean accuracy", " seconds"), rows)


def costs_and_scores(results: Path = RESULTS) -> pd.DataFrame:
    """Return the median seconds and mean accuracy of each method, where all have been fitted."""
    fits = untouched(results)
    fits = fits[~fits["method"].isin(CONTROLS)]
    values = ["accuracy", "fit_cpu_seconds"]
    each = fits.pivot_table(values, "dataset", "method").dropna()
    return pd.DataFrame(
        {
            "seconds": each["fit_cpu_seconds"].median(),
            "accuracy": each["accuracy"].mean(),
            "problems": len(each),
        }
    )


def picture(results: Path = RESULTS) -> Figure:
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
    ax.set_xlabel("processor seconds of a fit on one core, median over data sets (log scale)")
    ax.set_ylabel("mean accuracy")
    ax.set_title(f"{points['problems'].iloc[0]} held-out data sets", fontsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="the rows of the study")
    add_output_options(parser, "field")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    print(short_table(options.results))
    write_figure(picture(options.results), options.out / "accuracy_and_seconds.png")


if __name__ == "__main__":
    main()
