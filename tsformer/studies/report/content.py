"""Variables of the report's template: counts, rows of tables, and figures by file name."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pandas as pd

from tsformer.data import list_datasets
from tsformer.plots.results import plot_learning_curves
from tsformer.studies.analysis.plots import (
    plot_comparison,
    plot_cost,
    plot_critical_difference,
    plot_mean_gains,
    plot_pairs,
)
from tsformer.studies.analysis.scores import (
    COSTS,
    Findings,
    StudyScores,
    complete,
    distinct_fits,
    labels,
    variant_scores,
)
from tsformer.studies.report.render import code
from tsformer.studies.report.verdict import ALPHA, SURE, against, contrasts, ordered_means, paired
from tsformer.studies.report.verdict import verdict as verdict_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Scores, of all methods on all data sets, that are legible in one picture.
_MOST_DRAWN = 120


def content(study: StudyScores, findings: list[Findings], baseline: str | None) -> dict[str, Any]:
    """Return the variables of the template, figures aside."""
    compared = [each for each in findings if each.statistics is not None]
    intervals = [each.mean_gains["low"] for each in compared if each.mean_gains is not None]
    design = {"splits": {}, "methods": {}, "leave_out": {}, **(study.design or {})}
    encodings = study.ours and not design["methods"]
    return {
        "study": study,
        "design": design,
        "findings": findings,
        "several": len(findings) > 1,
        "compared": compared,
        "fewest_compared": min((len(each.statistics.scores) for each in compared), default=0),
        "baseline": baseline,
        "noun": "encoding" if encodings else "method",
        "has_gains": bool(intervals),
        "has_intervals": any(low.notna().any() for low in intervals),
        "facts": _facts(study),
        "stems": [_stem(each, findings) for each in findings],
        "alpha": ALPHA,
        "sure": SURE,
        "verdict": verdict_of,
        "contrasts": contrasts,
        "against": against,
        "paired": paired,
        "methods": _methods,
        "costs": _costs,
        "datasets": _datasets,
        "one_data_set": _one_data_set,
    }


def figures(
    study: StudyScores, findings: list[Findings], baseline: str | None
) -> dict[str, Figure]:
    """Return the figures of a report by file name, without the suffix."""
    tables = {each.label: each.mean_gains for each in findings if each.mean_gains is not None}
    drawn: dict[str, Figure] = {}
    fits = study.rows.rename(columns={"method": "encoding", "score": "accuracy"})
    if study.varied:
        fits["encoding"] += ", " + labels(study.rows, study.varied)
    if study.ours and len(fits[["dataset", "encoding"]].drop_duplicates()) <= _MOST_DRAWN:
        drawn["comparison"] = plot_comparison(fits)
    if tables and baseline is not None:
        drawn["mean_gains"] = plot_mean_gains(tables, baseline)
    drawn |= learning_curves(study)
    for each in findings:
        stem, statistics = _stem(each, findings), each.statistics
        if statistics is None:
            continue
        drawn[f"{stem}critical_difference"] = plot_critical_difference(statistics)
        drawn[f"{stem}pairs"] = plot_pairs(statistics)
        if each.costs is not None and set(COSTS) & set(each.costs.columns):
            drawn[f"{stem}cost"] = plot_cost(each.costs)
    return drawn


def learning_curves(scores: StudyScores) -> dict[str, Figure]:
    """Draw scores against the number of training series, if the study has several sizes."""
    if "train_size" not in scores.varied or scores.rows["train_size"].nunique() < 2:
        return {}
    # A point averages the draws of every method that has fits on the data set, so that curves
    # of an unfinished study are comparable.
    rows = pd.concat(
        complete(own) if scores.ours else own
        for variant in variant_scores(scores)
        for _, own in variant.rows.groupby("dataset", sort=False)
    )
    if rows.empty:
        return {}
    if others := [name for name in scores.varied if name != "train_size"]:
        rows = rows.assign(method=rows["method"] + ", " + labels(rows, others))
    metric = "accuracy" if scores.ours else "score"
    figure = plot_learning_curves(rows.rename(columns={"score": metric}), metric=metric)
    return {"learning_curves": figure}


def _facts(study: StudyScores) -> dict[str, Any]:
    """Count methods, data sets, seeds and fits."""
    rows, design = study.rows, study.design or {}
    planned = [*design.get("encodings", ()), *design.get("methods", {})]
    have = set(rows["method"])
    expected = None
    if {"datasets", "seeds"} <= design.keys():
        left_out = sum(map(len, design.get("leave_out", {}).values()))
        lists = [design["seeds"], *design.get("vary", {}).values()]
        lists += [design["train_sizes"]] if design.get("train_sizes") else []
        expected = len(design["datasets"]) * len(planned) - left_out
        expected *= math.prod(map(len, lists)) * int(design.get("resamples", 1))
    adapted = rows[rows["helped"] != ""] if "helped" in rows.columns else rows.assign(helped="")[:0]
    groups = adapted.groupby(["method", "helped"], sort=False)["dataset"]
    versions = rows["version"].dropna() if study.ours and "version" in rows.columns else ()
    return {
        "methods": rows["method"].nunique(),
        "datasets": rows["dataset"].nunique(),
        "seeds": rows["seed"].nunique(),
        "most_seeds": int(rows.groupby(["dataset", "method"])["seed"].nunique().max()),
        "splits": rows["resample"].nunique() if "resample" in rows.columns else 1,
        "nowhere": [name for name in planned if name not in have],
        "expected": expected,
        "fits": len(rows),
        "adapted": [
            {"method": method, "how": how, "datasets": names.unique()}
            for (method, how), names in groups
        ],
        "versions": sorted(set(map(str, versions))),
    }


def _stem(found: Findings, findings: list[Findings]) -> str:
    """Return the prefix of a variant's file names."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', found.label)}_" if len(findings) > 1 else ""


def _methods(found: Findings, baseline: str) -> list[dict[str, Any]]:
    """Return rank, score and comparison with the baseline of each method."""
    statistics, gains, pairs = found.statistics, {}, {}
    assert statistics is not None
    if found.mean_gains is not None:
        gains = {row["method"]: row for row in found.mean_gains.to_dict("records")}
        pairs = {row["method"]: row for row in statistics.against(baseline).to_dict("records")}
    means = statistics.scores.mean().to_dict()
    return [
        {"name": name, "rank": rank, "score": means[name], "gain": gains.get(name)}
        | {"pair": pairs.get(name)}
        for name, rank in statistics.ranks.items()
    ]


def _costs(found: Findings) -> dict[str, Any]:
    """Return the table of costs, formatted."""
    table = found.costs
    assert table is not None
    there = [name for name in COSTS if name in table.columns]
    fronts = [name for name in there if f"front_{name}" in table.columns]
    columns: dict[str, Any] = {}
    for name in there:
        columns[COSTS[name]] = [_cost(value, name) for value in table[name]]
        if name in fronts:
            words = table[f"front_{name}"].map({True: "yes", False: "no"})
            columns[f"{name} front"] = words.where(table[name].notna(), "–")
    own = [table["method"].map(code), table["score"].map("{:.3f}".format)]
    own.append(table["rank"].map("{:.2f}".format))
    header = ["on Pareto front" if name.endswith(" front") else name for name in columns]
    rows = list(zip(*own, *columns.values(), strict=True))
    return {"header": header, "rows": rows, "fronts": fronts, "memory": len(fronts) < len(there)}


def _datasets(found: Findings) -> dict[str, Any]:
    """Return mean and spread of every method on every data set, compared or not."""
    scores, keys, nan = found.rows, ["dataset", "method"], math.nan
    means = scores.groupby(keys, sort=False)["score"].mean()
    spreads = distinct_fits(scores, *keys).groupby(keys, sort=False)["score"].std()
    ranked = [] if found.statistics is None else list(found.statistics.ranks.index)
    methods = list(dict.fromkeys([*ranked, *scores["method"]]))
    catalog = list_datasets().set_index("name")[["length_max", "train_size"]]
    rows = []
    for name in scores["dataset"].unique():
        length, size = catalog.loc[name] if name in catalog.index else (None, None)
        if "n_train" in scores.columns:  # fits on part of the train split
            size = scores.loc[scores["dataset"] == name, "n_train"].iloc[0]
        places = [(name, method) for method in methods]
        cells = [(means.get(place, nan), spreads.get(place, nan)) for place in places]
        whole = ["–" if pd.isna(number) else f"{number:,}" for number in (length, size)]
        rows.append({"name": name, "length": whole[0], "train_size": whole[1], "cells": cells})
    return {"methods": methods, "rows": rows}


def _one_data_set(found: Findings) -> dict[str, Any]:
    """Return mean score, spread and costs of each method, the best first."""
    used = found.used
    fits = distinct_fits(used, "method").groupby("method")["score"]
    spreads, counts = fits.std().to_dict(), fits.size().to_dict()
    there = [name for name in COSTS if name in used.columns and used[name].notna().any()]
    costs = used.groupby("method", sort=False)[there].median()
    rows = [
        {
            "name": name,
            "score": (mean, spreads[name]),
            "fits": counts[name],
            "costs": [_cost(costs.at[name, cost], cost) for cost in there],
        }
        for name, mean in ordered_means(used).items()
    ]
    return {"header": [COSTS[name] for name in there], "rows": rows}


def _cost(value: Any, name: str) -> str:
    whole = name in ("n_parameters", "peak_memory_mb", "predict_memory_mb")
    return "–" if pd.isna(value) else format(value, ",.0f" if whole else ",.2f")
