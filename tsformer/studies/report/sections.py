"""The tables and figures of a report, one variant of the study at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from tsformer.data import list_datasets
from tsformer.plots.learning_curves import can_average, plot_learning_curves
from tsformer.studies.analysis.analyse import Findings
from tsformer.studies.analysis.effects import COSTS, COVARIATES, FEWEST_CORRELATED
from tsformer.studies.analysis.plots import (
    plot_chances,
    plot_cost,
    plot_critical_difference,
    plot_gains,
    plot_pairs,
)
from tsformer.studies.analysis.scores import (
    StudyScores,
    complete,
    distinct_fits,
    labels,
    n_splits,
    variant_scores,
)
from tsformer.studies.report import text
from tsformer.studies.report.render import Block, Bullets, Heading, Picture, Table, Text

__all__ = ["has_intervals", "learning_curves", "side_by_side", "variant_section"]


def side_by_side(findings: list[Findings]) -> Table:
    """Return a table of each method's mean rank, mean score and mean gain in each variant."""
    header, columns = ["method"], []
    methods: dict[str, None] = {}
    for each in findings:
        if each.statistics is None:
            continue
        header += [f"{each.label}: {what}" for what in ("mean rank", "mean score", "gain")]
        means = each.statistics.scores.mean().to_dict()
        gain = _gain_cells(each)
        columns.append(
            {
                name: [f"{rank:.2f}", f"{means[name]:.3f}", gain.get(str(name), "–")]
                for name, rank in each.statistics.ranks.to_dict().items()
            }
        )
        methods |= dict.fromkeys(each.statistics.ranks.index)
    rows = [
        [name, *(cell for column in columns for cell in column.get(name, ["–"] * 3))]
        for name in methods
    ]
    return Table(header, rows)


def learning_curves(scores: StudyScores) -> list[Block]:
    """Return figures of scores against the number of training series, if the study has sizes."""
    if "train_size" not in scores.varied or scores.rows["train_size"].nunique() < 2:
        return []
    # Of an unfinished study, a point is over the draws that have every method which has fits on
    # that data set: one that was left out there takes no panel from the others.
    rows = pd.concat(
        complete(own) if scores.ours else own
        for variant in variant_scores(scores)
        for _, own in variant.rows.groupby("dataset", sort=False)
    )
    if rows.empty:
        return []
    others = [name for name in scores.varied if name != "train_size"]
    if others:
        rows = rows.assign(method=rows["method"] + ", " + labels(rows, others))
    metric = "accuracy" if scores.ours else "score"
    rows = rows.rename(columns={"score": metric})
    over = "seeds, each of which draws its own subsets"
    if "resample" in rows.columns and rows["resample"].nunique() > 1:
        over = f"the splits of a data set and {over}" if rows["seed"].nunique() > 1 else "splits"
    spread = f"Bars are ± one standard deviation over {over}."
    blocks: list[Block] = [Heading("Learning curves")]
    n_datasets = rows["dataset"].nunique()
    if n_datasets > 1 and can_average(rows, metric):
        figure = plot_learning_curves(rows, metric=metric, average=True)
        caption = f"Mean score over data sets against the share of the train split. {spread}"
        blocks.append(Picture("learning_curves_mean", figure, caption))
    figure = plot_learning_curves(rows, metric=metric)
    caption = f"Score against the number of training series, a panel per data set. {spread}"
    return [*blocks, Picture("learning_curves", figure, caption)]


def variant_section(found: Findings, baseline: str | None, several: bool) -> list[Block]:
    """Return all blocks on one variant; `several` says whether it is one of several."""
    stem = f"{re.sub(r'[^A-Za-z0-9]+', '_', found.label)}_" if several else ""
    level = 3 if several else 2
    blocks: list[Block] = [
        Heading(f"Results, {found.label}" if several else "Results"),
        Bullets(text.outcome(found, baseline)),
    ]
    statistics = found.statistics
    if statistics is not None:
        n = len(statistics.scores)
        blocks += [
            Heading("Methods", level),
            _methods(found, baseline),
            Picture(
                f"{stem}critical_difference",
                plot_critical_difference(statistics),
                f"Critical difference diagram: mean ranks over {n} data sets, best at the left. "
                "Methods with a dot on one bar are not shown to differ.",
            ),
            Heading("Pairs", level),
            Picture(
                f"{stem}pairs",
                plot_pairs(statistics),
                "Multiple-comparison matrix: every method minus every other.",
            ),
            Text(
                "Each method against those below it in the order of mean ranks; where the "
                "difference is negative, its mean score is the lower all the same."
            ),
            _pairs(found),
        ]
        if found.gains is not None and found.effects is not None and baseline is not None:
            blocks += [
                Heading(f"Against {baseline}", level),
                Picture(
                    f"{stem}chances",
                    plot_chances(statistics, baseline),
                    f"Probability that a method is better than {baseline}, practically equivalent, "
                    "or worse, on a further data set like these.",
                ),
            ]
            for covariate, words in COVARIATES.items():
                known = found.gains[found.gains[covariate].notna()]
                if known["dataset"].nunique() >= FEWEST_CORRELATED:
                    figure = plot_gains(found.gains, found.effects, covariate, baseline)
                    caption = f"Gain over {baseline} against {words}, one dot per data set."
                    blocks.append(Picture(f"{stem}gain_by_{covariate}", figure, caption))
        blocks += _cost(found, stem, level)
    if found.on_one_data_set:
        blocks += [Heading("Methods", level), _on_one_data_set(found)]
    if found.parts is not None:
        blocks += _parts(found.parts, level)
    if found.beside is not None and len(found.beside):
        blocks += [Heading("Published results", level), *_beside(found)]
    return [*blocks, Heading("Data sets", level), *_datasets(found)]


def has_intervals(mean_gains: pd.DataFrame) -> bool:
    """Return whether the mean gains have intervals: those of few data sets have none."""
    return bool(mean_gains["low"].notna().any())


def _gain_cells(found: Findings) -> dict[str, str]:
    if found.mean_gains is None:
        return {}
    return {
        row["method"]: f"{row['gain']:+.3f}"
        # NaN: too few data sets for an interval.
        + (f" [{row['low']:+.3f}, {row['high']:+.3f}]" if row["low"] == row["low"] else "")
        for row in found.mean_gains.to_dict("records")
    }


def _methods(found: Findings, baseline: str | None) -> Table:
    statistics = found.statistics
    assert statistics is not None
    means = statistics.scores.mean().to_dict()
    header = ["method", "mean rank", "mean score"]
    cells = {
        name: [f"{rank:.2f}", f"{means[name]:.3f}"]
        for name, rank in statistics.ranks.to_dict().items()
    }
    if found.mean_gains is not None and baseline is not None:
        header += [
            f"gain over {baseline}{', 95 % interval' if has_intervals(found.mean_gains) else ''}",
            "wins/ties/losses",
            "p (Holm)",
            "P(better)",
            "P(equivalent)",
            "P(worse)",
        ]
        gain = _gain_cells(found)
        cells[baseline] += ["–"] * 6
        for row in statistics.against(baseline).to_dict("records"):
            cells[row["method"]] += [
                gain[row["method"]],
                f"{row['wins']}/{row['ties']}/{row['loses']}",
                f"{row['p_holm']:.3g}",
                *_chances(row),
            ]
    return Table(header, [[str(name), *row] for name, row in cells.items()])


def _pairs(found: Findings) -> Table:
    assert found.statistics is not None
    header = ["method", "against", "difference", "wins/ties/losses", "p", "p (Holm)"]
    return Table(
        [*header, "P(better)", "P(equivalent)", "P(worse)"],
        [
            [
                *(pair["better"], pair["worse"], f"{pair['difference']:+.3f}"),
                f"{pair['wins']}/{pair['ties']}/{pair['loses']}",
                *(f"{pair[name]:.3g}" for name in ("p", "p_holm")),
                *_chances(pair),
            ]
            for pair in found.statistics.pairs.to_dict("records")
        ],
    )


def _beside(found: Findings) -> list[Block]:
    """Return each published method beside each measured one, and where its figures are from."""
    assert found.beside is not None
    assert found.published is not None
    methods = list(found.beside["method"].unique())
    rows = []
    for name, part in found.beside.groupby("published", sort=False):
        cells = {
            row["method"]: f"{row['difference']:+.3f} ({row['wins']}/{row['ties']}/{row['loses']})"
            for row in part.to_dict("records")
        }
        first = part.iloc[0]
        rows.append(
            [
                *(str(name), str(first["datasets"]), f"{first['published_score']:.3f}"),
                *(cells.get(method, "–") for method in methods),
            ]
        )
    sources = [
        f"{name}: {', '.join(part['source'].unique())}."
        for name, part in found.published.groupby("method", sort=False)
    ]
    return [
        Text(
            "Each measured method minus each published one, in brackets data sets won, tied and "
            "lost by the measured one, over the data sets that both have; these differ from row to "
            "row, and nothing is tested here."
        ),
        Table(
            ["method", "data sets", "mean score", *(f"{name} minus it" for name in methods)], rows
        ),
        Text("Where the published figures are from:"),
        Bullets(sources),
    ]


def _chances(pair: Mapping[Hashable, Any]) -> list[str]:
    return [f"{pair[name]:.2f}" for name in ("p_better", "p_same", "p_worse")]


def _cost(found: Findings, stem: str, level: int) -> list[Block]:
    costs = found.costs
    there = [] if costs is None else [name for name in COSTS if name in costs.columns]
    if costs is None or not there:
        return []
    header = ["method", "mean score", "mean rank"]
    with_front = [name for name in there if f"front_{name}" in costs.columns]
    for name in there:
        header += [COSTS[name], "on Pareto front"] if name in with_front else [COSTS[name]]
    rows = []
    for row in costs.to_dict("records"):
        cells = [str(row["method"]), f"{row['score']:.3f}", f"{row['rank']:.2f}"]
        for name in there:
            cells.append(_cost_cell(row[name], name))
            if name in with_front:
                front = "yes" if row[f"front_{name}"] else "no"
                cells.append("–" if pd.isna(row[name]) else front)
        rows.append(cells)
    caption = "Mean score against cost."
    if with_front:
        caption += (
            " Methods on the line, outlined in black, form the Pareto front: no other method "
            "scores as high at as low a cost."
        )
    if len(with_front) < len(there):
        caption += (
            " Memory has no front: it is that of the whole process, with what earlier fits left "
            "in it, and says as much of the order of the fits as of the methods."
        )
    if found.published is not None and costs[there].isna().all(axis=1).any():
        caption += " Published methods are not drawn: nothing is known of their cost here."
    return [
        Heading("Cost", level),
        Picture(f"{stem}cost", plot_cost(costs), caption),
        Table(header, rows),
    ]


def _parts(parts: pd.DataFrame, level: int) -> list[Block]:
    """Return the mean score of each ensemble beside those of its parts."""
    header = ["method", "mean score", *(name.replace("_", " ") for name in parts.columns[1:])]
    rows = [
        [str(method), *("–" if pd.isna(score) else f"{score:.3f}" for score in scores)]
        for method, scores in zip(parts.index, parts.to_numpy(), strict=True)
    ]
    return [
        Heading("Parts", level),
        Text(
            "The score of an ensemble is the score of none of its parts. Here each part is scored "
            "alone, on the same fits."
        ),
        Table(header, rows),
    ]


def _datasets(found: Findings) -> list[Block]:
    """Return the mean and spread of every method on every data set, compared or not."""
    scores = pd.concat([found.rows, found.published])  # concat leaves None out
    keys = ["dataset", "method"]
    means = scores.groupby(keys, sort=False)["score"].mean()
    spreads = distinct_fits(scores, *keys).groupby(keys, sort=False)["score"].std()
    ranked = [] if found.statistics is None else list(found.statistics.ranks.index)
    methods = list(dict.fromkeys([*ranked, *scores["method"]]))
    catalog = list_datasets().set_index("name")
    rows = []
    for dataset in found.rows["dataset"].unique():
        sizes = ["–", "–"]
        if dataset in catalog.index:
            of = catalog.loc[dataset]
            sizes = [_whole(of["length_max"]), _whole(of["train_size"])]
        if "n_train" in found.rows.columns:  # fits were trained on part of the train split
            counts = found.rows.loc[found.rows["dataset"] == dataset, "n_train"]
            sizes[1] = _whole(counts.iloc[0])
        cells = [
            _mean(means.get((dataset, name)), spreads.get((dataset, name))) for name in methods
        ]
        rows.append([dataset, *sizes, *cells])
    return [
        Text(
            f"Mean score over {'seeds and splits' if n_splits(found.rows) > 1 else 'seeds'} ± "
            "sample standard deviation, over all available fits."
            + " A published score is a single figure."
            * (found.published is not None and len(found.published) > 0)
        ),
        Table(["data set", "length", "training size", *methods], rows),
    ]


def _on_one_data_set(found: Findings) -> Table:
    """Return the mean score of each method, the best first, with its spread and its costs."""
    groups = found.used.groupby("method", sort=False)
    fits = distinct_fits(found.used, "method").groupby("method")["score"]
    spreads, counts = fits.std(), fits.size()
    there = [name for name in COSTS if name in found.used.columns]
    there = [name for name in there if found.used[name].notna().any()]
    costs = groups[there].median()
    rows = []
    means = text.ordered_means(found.used)
    for name in map(str, means.index):
        cells = [_cost_cell(costs.at[name, cost], cost) for cost in there]
        rows.append([name, _mean(means[name], spreads[name]), str(counts[name]), *cells])
    return Table(["method", "mean score", "fits", *(COSTS[name] for name in there)], rows)


def _cost_cell(value: Any, name: str) -> str:
    whole = name in ("n_parameters", "peak_memory_mb", "predict_memory_mb")
    return "–" if pd.isna(value) else format(value, ",.0f" if whole else ",.2f")


def _whole(number: Any) -> str:
    return "–" if pd.isna(number) else f"{number:,}"


def _mean(mean: float | None, spread: float | None) -> str:
    if mean is None or spread is None:
        return "–"
    return f"{mean:.3f}" if math.isnan(spread) else f"{mean:.3f} ± {spread:.3f}"
