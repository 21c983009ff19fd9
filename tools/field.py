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
from tsformer.studies.analysis.published import marked, published_accuracies
from tsformer.studies.report.render import markdown_table

__all__ = ["RESULTS", "costs_and_scores", "picture", "table"]

RESULTS = COMMITTED / "default_against_the_field/results.csv"
PUBLISHED = COMMITTED / "published"
#: Published methods of the long table.
ANCHORS = ("HC2", "InceptionTime", "MR-Hydra", "ROCKET")
DEFAULT = "tsformer"
#: They show what accuracy means on these data sets; the picture leaves them out.
CONTROLS = ("majority", "summary-ridge")
#: Published methods of the README's table, beside four that were fitted in the study.
ROCKETS = ("ROCKET", "InceptionTime")
#: Our own methods.
OURS = (DEFAULT, "ensemble", "random-convolutions")
HYDRA = "multirocket-hydra"
#: The methods of the study, as the reader calls them.
LABELS = {
    DEFAULT: "`TSTransformerClassifier()`",
    "ensemble": "`TSEnsembleClassifier()`",
    "random-convolutions": "`RandomConvolutionClassifier()`",
    "minirocket": "MiniRocket (aeon)",
    "multirocket": "MultiRocket (sktime)",
    HYDRA: "MultiRocket-Hydra (aeon)",
    "resnet": "ResNet (sktime)",
    "1nn-dtw": "nearest neighbour by DTW (sktime)",
    "summary-ridge": "ridge on means, deviations and slopes",
    "majority": "the most frequent class",
}
#: Where names are in the picture, offset and alignment; above their points unless another is there.
ABOVE, BELOW, BESIDE = (
    ((0, 7), "center", "bottom"),
    ((0, -7), "center", "top"),
    ((7, 0), "left", "center"),
)
PLACES = {"multirocket": BELOW, DEFAULT: BELOW, "resnet": BELOW, HYDRA: BESIDE}


def untouched(results: Path) -> pd.DataFrame:
    """Return the fits on the problems on which nothing was chosen."""
    if not results.is_file():
        raise SystemExit(
            f"there is no {results}: run `tsformer compare --study "
            "experiments/studies/default_against_the_field.toml`, and name its results.csv with "
            "--results"
        )
    fits = pd.read_csv(results)
    return fits[~fits["dataset"].isin(DEVELOPMENT)]


def table(results: Path = RESULTS, published: Path = PUBLISHED) -> str:
    """One row per method, the most accurate first: how far it is from the default, and its cost.

    Accuracies are means over seeds, and then over the problems on which nothing was chosen. Seconds
    of a fit are of the processor, those of prediction, of the whole test split, by the clock, and
    memory is that of the whole process.
    """
    fits = untouched(results)
    scores = fits.pivot_table("accuracy", "dataset", "method")
    costs = {name: _median_and_most(fits, name) for name in ("fit_cpu_seconds", "predict_seconds")}
    memory = fits.groupby("method")["peak_memory_mb"].max() / 1000
    columns = {LABELS[name]: scores[name] for name in LABELS if name in scores}
    others = published_accuracies(published).reindex(scores.index)
    columns |= {marked(name): others[name] for name in ANCHORS if name in others}
    cost = {
        LABELS[name]: (*(each[name] for each in costs.values()), f"{memory[name]:.1f}")
        for name in memory.index
    }
    rows = []
    for name, own in columns.items():
        ahead = (own - scores[DEFAULT]).dropna().round(4)
        if ahead.empty:
            continue
        counts = (ahead > 0).sum(), (ahead == 0).sum(), (ahead < 0).sum()
        itself = name == LABELS[DEFAULT]
        row = (
            name,
            str(len(ahead)),
            f"{own[ahead.index].mean():.3f}",
            "–" if itself else f"{100 * ahead.mean():+.1f} ± {100 * ahead.sem():.1f}",
            "–" if itself else " / ".join(map(str, counts)),
            *cost.get(name, ("–", "–", "–")),
        )
        rows.append((ahead.mean(), row))
    rows.sort(key=lambda each: -each[0])
    header = (
        "method",
        " problems",
        " mean accuracy",
        " points ahead of the default",
        " better / equal / worse",
        " seconds of a fit, median / most",
        " of prediction",
        " GB at most",
    )
    return markdown_table(header, [row for _, row in rows])


def short_table(results: Path = RESULTS, published: Path = PUBLISHED) -> str:
    """Six methods on the same data sets: mean accuracy and median processor seconds of a fit."""
    fits = untouched(results)
    fitted = fits.pivot_table("accuracy", "dataset", "method")[[*OURS, HYDRA]]
    scores = fitted.join(published_accuracies(published)[list(ROCKETS)]).dropna()
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


def _median_and_most(fits: pd.DataFrame, column: str) -> dict[str, str]:
    """Return the median over problems of each method's seconds, and the most of them."""
    seconds = fits.groupby(["method", "dataset"])[column].mean().groupby("method")
    most = seconds.max()
    return {
        str(name): f"{value:.1f} / {most[name]:.0f}" for name, value in seconds.median().items()
    }


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
    print(table(options.results))
    write_figure(picture(options.results), options.out / "accuracy_and_seconds.png")


if __name__ == "__main__":
    main()
