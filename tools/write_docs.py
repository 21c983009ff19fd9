"""Write the generated parts of the documentation from the committed results.

    python tools/write_docs.py

These are the tables of README.md, docs/accuracy.md, docs/explanations.md, pages of docs/guide/,
experiments/results/README.md and speed_notes.md, and the recommendation, each between the comments
``<!-- table: name -->`` and ``<!-- end of table -->``, and the whole of docs/encodings.md,
docs/augmentation.md and docs/gpu_measurements.md, which `encodings_page.py`, `augmentation_page.py`
and `gpu_page.py` compose.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.accuracy import (
    calibration,
    confirmation,
    cut_problems,
    far_sizes,
    large_data,
    long_series,
    recipe_study,
    regression,
)
from experiments.language import language_model
from experiments.output import COMMITTED
from experiments.pretraining import few_labels
from experiments.published import ANCHORS, PUBLISHED
from tools import augmentation_page, encodings_page, field, gpu_page, speed_tables
from tools import markdown_text as md
from tools.recommendation import STUDY, TODAY, recommendation
from tsformer.explain import METHODS
from tsformer.studies.analysis.analyse import analyse
from tsformer.studies.analysis.published import marked, published_accuracies
from tsformer.studies.analysis.scores import read_study
from tsformer.studies.report.render import markdown_table
from tsformer.studies.report.sections import side_by_side

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
ACCURACY = ROOT / "docs/accuracy.md"
CHOOSING = ROOT / "docs/guide/choosing.md"
TIME = ROOT / "docs/guide/accuracy_and_time.md"
LARGE = ROOT / "docs/guide/large_data.md"
PAGES = {
    "encodings.md": encodings_page.page,
    "augmentation.md": augmentation_page.page,
    "gpu_measurements.md": gpu_page.page,
}
RESULTS_README = COMMITTED / "README.md"
MISSING = COMMITTED / "missing_values.csv"
LANGUAGE = COMMITTED / "language_model.csv"
MEMORY = COMMITTED / "memory.csv"
#: How experiments/memory/peak.py keeps series -> what the reader calls it.
KEPT = {
    "sample": "4,096 of them in memory",
    "array": "memory",
    "memmap": "`numpy.memmap`",
    "path": "a `.npy` file",
    "folder": "four `.npy` files",
    "parquet": "four Parquet files",
}
RECIPES = COMMITTED / "recipe_study.csv"
CONVOLUTIONS = COMMITTED / "random_convolutions.csv"
AVERAGES = COMMITTED / "averages.csv"
CALIBRATION = COMMITTED / "calibration.csv"
EXPLANATIONS = ROOT / "docs/explanations.md"
KNOWN_WINDOWS = COMMITTED / "explanations_known.csv"
CONFIRMATION = COMMITTED / "confirmation_averages.csv"
SECOND_SCORING = COMMITTED / "confirmation_2_averages.csv"
THIRD_SCORING = COMMITTED / "confirmation_3_averages.csv"
LONG = COMMITTED / "long_series.csv"
FEW_LABELS = COMMITTED / "pretraining.csv"
PRETRAINING_RATE = COMMITTED / "pretraining_learning_rate.csv"
FEW_LABELS_PAGE = ROOT / "docs/guide/few_labels.md"
REGRESSION = COMMITTED / "regression.csv"
CUT_PROBLEMS = COMMITTED / "cut_problems.csv"
FAR_SIZES = COMMITTED / "far_sizes.csv"
CATALOGUE_STUDY = COMMITTED / "whole_catalogue/results.csv"
#: Page -> where it finds experiments/results, for the recommendation.
RESULTS_FROM = {
    "docs/guide/choosing.md": "../../experiments/results/",
    "experiments/results/README.md": "",
}
SPEED = COMMITTED / "speed.csv"
SPEED_TRIALS = COMMITTED / "speed_trials.csv"
SPEED_PROFILE = COMMITTED / "speed_profile.csv"
DELETION = COMMITTED / "explanations_deletion.csv"
BUDGETS = COMMITTED / "large_data.csv"
SPEED_SHORT = COMMITTED / "short_series.csv"
SPEED_NOTES = COMMITTED / "speed_notes.md"


def encodings_table() -> str:
    """One row per encoding, from the attributes of the classes."""
    rows = (
        (
            encodings_page.link(row["name"], page="../encodings.md"),
            row["kind"],
            "each block" if row["per_block"] else "the stack",
            row["extrapolation"],
            "yes" if row["symmetric"] else "no",
            row["summary"],
            row["reference"],
        )
        for row in encodings_page.packaged()
    )
    header = ("name", "hook", "owned by", "past trained length", "symmetric", "what", "source")
    return markdown_table(header, rows)


def accuracy_table(
    results: Path = RECIPES,
    convolutions: Path = CONVOLUTIONS,
    averages: Path = AVERAGES,
    published: Path = PUBLISHED,
) -> str:
    """One row per method: mean accuracy, and how often the default is better, equal and worse."""
    ours = pd.read_csv(results).pivot_table("accuracy", "dataset", "variant")
    others = published_accuracies(published)
    columns = {
        "`TSTransformerClassifier()`": ours["default"],
        "`TSTransformerClassifier()` of version 0.1.0": ours["0.1.0"],
        "`RandomConvolutionClassifier()`": pd.read_csv(convolutions)
        .groupby("dataset")
        .accuracy.mean(),
        "the average of the two": pd.read_csv(averages).groupby("dataset").average.mean(),
        **{marked(name): others[name] for name in ANCHORS if name in others},
    }
    rows = []
    for name, scores in columns.items():
        apart = (ours["default"] - scores).dropna().round(4)
        counts = (apart > 0).sum(), (apart == 0).sum(), (apart < 0).sum()
        itself = not apart.any()
        rows.append(
            (
                name,
                str(len(apart)),
                f"{scores[apart.index].mean():.3f}",
                "–" if itself else f"{100 * apart.mean():+.1f} ± {100 * apart.sem():.1f}",
                "–" if itself else " / ".join(map(str, counts)),
            )
        )
    header = (
        "method",
        " problems",
        " mean accuracy",
        " points the default is ahead",
        " better / equal / worse",
    )
    return markdown_table(header, rows)


def explanations_table(results: Path = KNOWN_WINDOWS) -> str:
    """One row per problem and method: means over models of where relevance is."""
    measured = pd.read_csv(results)
    columns = ("hit", "hit_time", "inside", "change", "missed", "uneven")
    means = measured.groupby(["problem", "method"], sort=False)[list(columns)].mean()
    rows = [
        (
            problem,
            f"`{method}`",
            *(
                "–" if problem == "absent" and name in columns[:3] else f"{row[name]:.2f}"
                for name in columns
            ),
        )
        for (problem, method), row in means.iterrows()
    ]
    header = ("problem", "method", " hit", " hit in time", " inside", " change", " missed", " even")
    return markdown_table(header, rows)


#: Column of confirmation_averages.csv -> what the method is called.
_CONFIRMED = {
    "one transformer": "`TSTransformerClassifier()`, mean of three seeds",
    "four transformers": "`TSTransformerClassifier(n_estimators=4)`",
    "random convolutions": "`RandomConvolutionClassifier()`",
    "ensemble of one": '`TSEnsembleClassifier(quality="fast")`',
    "ensemble of four": '`TSEnsembleClassifier(quality="best")`',
    "0.1.0": "`TSTransformerClassifier()` of version 0.1.0",
}


def deletion_table(results: Path = DELETION) -> str:
    """One row per order: the area under its curve on each whole problem, and their mean."""
    rows = pd.read_csv(results)
    areas = rows.pivot_table("area", "order", "dataset", sort=False)
    areas = areas.dropna(axis="columns")  # what is being measured
    areas["mean"] = areas.mean(axis=1)
    table = [
        (f"`{order}`" if order in METHODS else order, *(f"{area:.2f}" for area in row))
        for order, row in zip(areas.index, areas.to_numpy(), strict=True)
    ]
    return markdown_table(("deleted first", *(f" {name}" for name in areas.columns)), table)


def confirmation_table(
    averages: Path = CONFIRMATION, published: Path = PUBLISHED, first: Path = CONFIRMATION
) -> str:
    """One row per method of ours: mean accuracy, and how far it is ahead of each other method."""
    ours = confirmation.with_version_0_1_0(pd.read_csv(averages, index_col="dataset"), first)
    ours = ours[[name for name in _CONFIRMED if name in ours]]
    table = confirmation.beside(ours, published_accuracies(published))
    problems = table.groupby("other", sort=False)["problems"].first()
    cells = {
        (row["ours"], row["other"]): (
            f"{row['points ahead']:+.1f} ± {row['standard error']:.1f} "
            f"({row['better']} / {row['equal']} / {row['worse']})"
        )
        for row in table.to_dict("records")
    }
    rows = (
        (
            _CONFIRMED[str(name)],
            f"{scores.mean():.3f}",
            *(cells.get((str(name), other), "–") for other in problems.index),
        )
        for name, scores in ours.items()
    )
    columns = (f" {other} ({n})" for other, n in problems.items())
    return markdown_table(("method", " mean accuracy", *columns), rows)


def second_scoring_table() -> str:
    """The same for the recipe that was scored after the first."""
    return confirmation_table(SECOND_SCORING)


def third_scoring_table() -> str:
    """The same for the recipe of today."""
    return confirmation_table(THIRD_SCORING)


def far_sizes_table(results: Path = FAR_SIZES) -> str:
    """One row per method: its accuracy on the held-out series of each problem, over the seeds."""
    fits = pd.read_csv(results)
    scores = fits.pivot_table("accuracy", "method", "dataset").loc[list(far_sizes.METHODS)]
    rows = (
        (f"`{name}`" if "=" in str(name) else str(name), *(f"{score:.3f}" for score in own))
        for name, own in zip(scores.index, scores.to_numpy(), strict=True)
    )
    return markdown_table(("", *(f" {dataset}" for dataset in scores)), rows)


def cut_table(results: Path = CUT_PROBLEMS) -> str:
    """One row per way to change the series and problem: the accuracy of each method."""
    fits = pd.read_csv(results)
    scores = fits.pivot_table("accuracy", ["change", "dataset"], "method")[
        list(cut_problems.METHODS)
    ]
    rows = []
    for change in cut_problems.CHANGES:
        own = scores.loc[change]
        own = pd.concat([own, own.mean().to_frame("mean").T])
        rows += [
            (change, str(dataset), *("–" if pd.isna(score) else f"{score:.3f}" for score in each))
            for dataset, each in zip(own.index, own.to_numpy(), strict=True)
        ]
    header = ("change", "problem", *(f" {method}" for method in cut_problems.METHODS))
    return markdown_table(header, rows)


def recipe_table(results: Path = RECIPES) -> str:
    """One row per variant of the recipe: its paired difference from the default."""
    table = recipe_study.summary(pd.read_csv(results), "default", recipe_study.BASELINES)
    rows = (
        (
            str(row.Index),
            str(int(row.fits)),
            f"{100 * row.gain:+.1f} ± {100 * row.standard_error:.1f}",
            f"{int(row.better)} / {int(row.worse)}",
            f"{100 * row.worst:+.1f}",
        )
        for row in table.drop("default").itertuples()
    )
    header = (
        "variant",
        " fits",
        " points ahead of the default",
        " problems better / worse",
        " worst",
    )
    return markdown_table(header, rows)


#: Development problems that are small or odd, and how: training series, or those of a class.
SMALL_OR_ODD = {
    "FaceFour": "24 series",
    "ArrowHead": "36 series",
    "Car": "60 series",
    "Lightning2": "60 series",
    "Herring": "64 series",
    "Handwriting": "26 classes, the rarest of 2 series",
    "Adiac": "37 classes, the rarest of 4 series",
    "ProximalPhalanxTW": "classes of 16 to 180 series",
    "Worms": "classes of 17 to 76 series",
}


def small_table(results: Path = RECIPES, convolutions: Path = CONVOLUTIONS) -> str:
    """One row per small or odd problem: the default, version 0.1.0 and the random convolutions."""
    scores = pd.read_csv(results).pivot_table("accuracy", "dataset", "variant")
    scores["ridge"] = pd.read_csv(convolutions).groupby("dataset").accuracy.mean()
    scores = scores.loc[scores.index.isin(SMALL_OR_ODD), ["default", "0.1.0", "ridge"]]
    rows = [
        (name, kind, *(f"{score:.3f}" for score in scores.loc[name]))
        for name, kind in SMALL_OR_ODD.items()
        if name in scores.index
    ]
    header = ("problem", "for training", " default", " 0.1.0", " random convolutions")
    return markdown_table(header, rows)


def large_table(results: Path = BUDGETS) -> str:
    """One row per problem and budget: accuracy and seconds, as means over seeds."""
    table = large_data.table_of(pd.read_csv(results)).reset_index()
    rows = (
        (
            row.problem,
            f"{row.seen:,} series, batches of {row.batch}"
            if row.method == "budget"
            else {"auto": "the default"}.get(row.method, row.method),
            f"{row.passes:.0f}" if row.passes else "–",
            str(row.seeds),
            f"{row.accuracy:.3f}",
            f"{row.cpu_seconds:.0f}",
        )
        for row in table.sort_values("problem", kind="stable", key=_order_of_problems).itertuples()
    )
    header = ("problem", "trained on", " passes", " seeds", " accuracy", " CPU seconds")
    return markdown_table(header, rows)


def _order_of_problems(names: pd.Series) -> pd.Series:
    return names.map(large_data.PROBLEMS.index)


def long_table(results: Path = LONG) -> str:
    """One row per method: its accuracy on each problem, their mean, and its seconds."""
    table = long_series.summary(pd.read_csv(results))
    rows = (
        (method, *(f"{score:.3f}" for score in scores[:-1]), f"{scores[-1]:.2f}")
        for method, scores in zip(table.index, table.to_numpy(), strict=True)
    )
    return markdown_table(("method", *(f" {name}" for name in table)), rows)


def beside_table(results: Path = LONG, recipes: Path = RECIPES) -> str:
    """One row per problem: the default without and with statistics of kernels beside the values."""
    table = long_series.beside_values(pd.read_csv(results), pd.read_csv(recipes))
    table["points"] = 100 * (table["both"] - table["default"])
    rows = [
        (
            str(row.Index),
            str(int(row.seeds)),
            f"{row.default:.3f}",
            f"{row.both:.3f}",
            f"{row.points:+.1f}",
        )
        for row in table.sort_values("points", ascending=False).itertuples()
    ]
    means = table[["default", "both", "points"]].mean()
    rows.append(("mean", "", f"{means.default:.3f}", f"{means.both:.3f}", f"{means.points:+.1f}"))
    return markdown_table(("problem", " seeds", " default", " both", " points"), rows)


def regression_table(results: Path = REGRESSION) -> str:
    """One row per method: its mean error, and how far it is from the default's."""
    rows = (
        (
            str(row.Index),
            str(int(row.problems)),
            f"{row.error:.3f}",
            "–"
            if row.Index == regression.DEFAULT
            else f"{100 * row.change:+.1f} % ± {100 * row.standard_error:.1f}",
            "–" if row.Index == regression.DEFAULT else f"{int(row.better)} / {int(row.worse)}",
            "–" if row.Index == regression.DEFAULT else f"{100 * row.worst:+.0f} %",
        )
        for row in regression.summary(pd.read_csv(results)).itertuples()
    )
    header = (
        "part",
        " problems",
        " mean error",
        " change of the error",
        " better / worse",
        " worst",
    )
    return markdown_table(header, rows)


def few_labels_table(results: Path = FEW_LABELS) -> str:
    """One row per share of labels: mean accuracies, and what pretraining gains."""
    measured = pd.read_csv(results)
    means = few_labels.means(measured)
    gains = few_labels.gains(measured).set_index(["method", "train_size"])
    rows = []
    for size, row in means.iterrows():
        cells = [f"{row[method]:.3f}" for method in few_labels.METHODS]
        for method in few_labels.OBJECTIVES:
            gain = gains.loc[(method, size)]
            points, error = 100 * gain["gain"], 100 * gain["standard_error"]
            won, lost = int(gain["won"]), int(gain["lost"])
            cells.append(f"{points:+.1f} ± {error:.1f}, {won} / {lost}")
        rows.append((str(size), *cells))
    header = (
        " labels",
        *(f" {method}" for method in few_labels.METHODS),
        *(f" gain of {method}, won / lost" for method in few_labels.OBJECTIVES),
    )
    return markdown_table(header, rows)


def learning_rate_table(results: Path = PRETRAINING_RATE) -> str:
    """One row per objective and problem, and means: accuracies by factor of the learning rate."""
    measured = pd.read_csv(results)
    each = measured.pivot_table("accuracy", ["objective", "dataset"], "scale", sort=False)
    rows = [(*names, *(f"{value:.3f}" for value in row)) for names, row in each.iterrows()]
    rows.append(("mean", "", *(f"{value:.3f}" for value in each.mean())))
    return markdown_table(("objective", "problem", *(f" {scale:g}" for scale in each)), rows)


def calibration_table(results: Path = CALIBRATION) -> str:
    """One row per temperature: means over problems, and on how many 1 is worse and better."""
    table = calibration.summary(pd.read_csv(results))
    rows = (
        (
            f"{row.Index:g}",
            f"{row.log_loss:.3f}",
            f"{row.brier_score:.3f}",
            f"{row.calibration_error:.3f}",
            f"{row.confidence:.3f}",
            f"{row.accuracy:.3f}",
            f"{int(row.better)} / {int(row.worse)}",
            f"{row.worst:+.3f}",
        )
        for row in table.itertuples()
    )
    header = (
        " temperature",
        " log loss",
        " Brier score",
        " calibration error",
        " mean confidence",
        " accuracy",
        " log loss lower / higher than at 1",
        " at most higher by",
    )
    return markdown_table(header, rows)


def language_table(results: Path = LANGUAGE) -> str:
    """One row per model: perplexities after the last epoch, and the difference from `none`."""
    rows = (
        (
            row.model,
            md.mean_and_spread(row.valid, row.spread, 1),
            md.mean_and_spread(row.train, float("nan"), 1),
            md.mean_and_spread(row.apart, row.error, 2),
        )
        for row in language_model.table(pd.read_csv(results))
        .set_axis(["model", "valid", "spread", "train", "seeds", "apart", "error"], axis=1)
        .itertuples()
    )
    header = ("model", " perplexity", " on the training text", " difference from none ± error")
    return markdown_table(header, rows)


def missing_table(results: Path = MISSING) -> str:
    """One row per data set and pattern: mean accuracy for each way to handle gaps."""
    fits = pd.read_csv(results)
    means = fits.pivot_table("accuracy", ["pattern", "dataset"], "reader", sort=False, margins=True)
    readers = fits["reader"].unique()
    rows = (
        (*(part or "all" for part in key), *(f"{value:.3f}" for value in line))
        for key, line in zip(means.index, means[readers].to_numpy(), strict=True)
    )
    return markdown_table(("pattern", "data set", *(f" {reader}" for reader in readers)), rows)


def memory_table(results: Path = MEMORY) -> str:
    """One row per model and way to keep series: peak memory and speed of fit and predict."""
    measured = pd.read_csv(results)
    measured["kept"] = pd.Categorical(measured["kept"], list(KEPT))
    rows = (
        (
            f"{row.n:,} × {row.channels} × {row.length:,}",
            row.model,
            KEPT[row.kept],
            *(f"{value:,.0f}" for value in (row.fit_mib, row.predict_mib)),
            f"{row.fit_seconds_before:,.0f}",
            *(f"{value:,.0f}" for value in (row.fit_per_second, row.fit_per_cpu_second)),
            *(f"{value:,.0f}" for value in (row.predict_per_second, row.predict_per_cpu_second)),
        )
        for row in measured.sort_values(["n", "model", "kept"]).itertuples()
    )
    header = (
        "series",
        "model",
        "in",
        " fit MiB",
        " predict MiB",
        " seconds before the first batch",
    )
    header += (" fit per second", " per CPU second", " predict per second", " per CPU second")
    return markdown_table(header, rows)


def study_table(results: Path = STUDY) -> str:
    """One row per encoding: mean rank, score and gain over `none` behind either stem."""
    table = side_by_side(analyse(read_study(results), baseline="none"))
    return markdown_table([header.replace(": ", ", ") for header in table.header], table.rows)


def speed_table(results: Path = SPEED, device: str = "cpu") -> str:
    """One row per case and stem: how many times as long other implementations take."""
    rows = pd.read_csv(results)
    return speed_tables.ratio_table(rows[rows["device"] == device])


def speed_notes(text: str, results: Path = SPEED, trials: Path = SPEED_TRIALS) -> str:
    """Return the notes on speed with their tables filled in."""
    measured, tried = pd.read_csv(results), pd.read_csv(trials)
    measured = measured[measured["device"] == "cpu"]
    text = filled(text, "speed", speed_table(results))
    text = filled(text, "speed of each", speed_tables.full_table(measured))
    text = filled(text, "speed of the rest", speed_tables.rest_table(measured))
    text = filled(text, "profile", speed_tables.profile_table(pd.read_csv(SPEED_PROFILE)))
    text = filled(text, "short series", speed_tables.short_table(pd.read_csv(SPEED_SHORT)))
    text = filled(text, "compile", speed_tables.compile_table(tried))
    for name in dict.fromkeys(tried["trial"]):
        if not name.startswith("compile"):
            text = filled(text, name, speed_tables.trials_table(tried, name))
    return text


def filled(text: str, name: str, table: str) -> str:
    """Return `text` with the table called `name` replaced."""
    place = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end of table -->)", re.DOTALL)
    new, n_places = place.subn(lambda match: f"{match[1]}{table}{match[2]}", text)
    if n_places != 1:
        raise ValueError(f"the text must have one place for the table {name!r}; it has {n_places}")
    return new


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args(argv)
    text = filled(README.read_text(encoding="utf-8"), "field", field.table())
    README.write_text(text, encoding="utf-8")
    text = filled(ACCURACY.read_text(encoding="utf-8"), "confirmation", confirmation_table())
    text = filled(text, "second scoring", second_scoring_table())
    text = filled(text, "third scoring", third_scoring_table())
    text = filled(text, "field", field.table())
    text = filled(text, "small", small_table())
    ACCURACY.write_text(filled(text, "accuracy", accuracy_table()), encoding="utf-8")
    text = TIME.read_text(encoding="utf-8")
    TIME.write_text(filled(text, "speed", speed_table()), encoding="utf-8")
    text = LARGE.read_text(encoding="utf-8")
    LARGE.write_text(filled(text, "memory", memory_table()), encoding="utf-8")
    text = CHOOSING.read_text(encoding="utf-8")
    text = filled(text, "encodings", encodings_table())
    said = recommendation(RESULTS_FROM["docs/guide/choosing.md"])
    text = filled(text, "recommendation", said)
    CHOOSING.write_text(text, encoding="utf-8")
    text = RESULTS_README.read_text(encoding="utf-8")
    said = recommendation(RESULTS_FROM["experiments/results/README.md"])
    text = filled(text, "recommendation", said)
    text = filled(text, "encodings of today", study_table(TODAY))
    text = filled(text, "language model", language_table())
    text = filled(text, "recipe", recipe_table())
    text = filled(text, "cut problems", cut_table())
    text = filled(text, "far sizes", far_sizes_table())
    text = filled(text, "long series", long_table())
    text = filled(text, "both", beside_table())
    text = filled(text, "regression", regression_table())
    text = filled(text, "pretraining rate", learning_rate_table())
    text = filled(text, "large data", large_table())
    text = filled(text, "calibration", calibration_table())
    text = filled(text, "missing values", missing_table())
    text = filled(text, "which encoding", study_table())
    text = filled(text, "whole catalogue", study_table(CATALOGUE_STUDY))
    RESULTS_README.write_text(text, encoding="utf-8")
    text = SPEED_NOTES.read_text(encoding="utf-8")
    SPEED_NOTES.write_text(speed_notes(text), encoding="utf-8")
    text = EXPLANATIONS.read_text(encoding="utf-8")
    text = filled(text, "explanations", explanations_table())
    EXPLANATIONS.write_text(filled(text, "deletion", deletion_table()), encoding="utf-8")
    text = filled(FEW_LABELS_PAGE.read_text(encoding="utf-8"), "few labels", few_labels_table())
    FEW_LABELS_PAGE.write_text(text, encoding="utf-8")
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
