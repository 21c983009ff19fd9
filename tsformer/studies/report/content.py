"""Content of a report: conclusions, counts, rows of tables, and figures by file name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer.data import list_datasets
from tsformer.plots.diagnostics import plot_learning_curves
from tsformer.studies.analysis import plots
from tsformer.studies.analysis.statistics import Statistics
from tsformer.studies.analysis.study_scores import (
    COSTS,
    Findings,
    StudyScores,
    complete,
    distinct_fits,
    labels,
)
from tsformer.studies.report.render import code, codes, escaped, markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHA = 0.05
#: The posterior probability above which methods count as equivalent.
SURE = 0.95
#: Scores, of all methods on all data sets, that are legible in one picture.
_MOST_DRAWN = 120


def content(study: StudyScores, findings: list[Findings], baseline: str | None) -> dict[str, Any]:
    """Return the variables of the template, figures aside."""
    intervals = [result.mean_gains["low"] for result in findings if result.mean_gains is not None]
    design = {"splits": {}, "methods": {}, "leave_out": {}, **(study.design or {})}
    return {
        "study": study,
        "design": design,
        "findings": findings,
        "baseline": baseline,
        "noun": "encoding" if study.ours and not design["methods"] else "method",
        "has_gains": bool(intervals),
        "has_intervals": any(low.notna().any() for low in intervals),
        "facts": _facts(study),
        "alpha": ALPHA,
        "sure": SURE,
        "verdict": verdict,
        "contrasts": contrasts,
        "against": against,
        "costs": _costs,
        "datasets": _datasets,
    }


def figures(
    study: StudyScores, findings: list[Findings], baseline: str | None
) -> dict[str, Figure]:
    """Return the figures of a report by file name, without the suffix."""
    gains = ((result.label, result.mean_gains) for result in findings)
    tables = {label: table for label, table in gains if table is not None}
    drawn: dict[str, Figure] = {}
    fits = study.rows.rename(columns={"method": "encoding", "score": "accuracy"})
    if study.varied:
        fits["encoding"] += ", " + labels(study.rows, study.varied)
    if study.ours and len(fits[["dataset", "encoding"]].drop_duplicates()) <= _MOST_DRAWN:
        drawn["comparison"] = plots.plot_comparison(fits)
    if tables and baseline is not None:
        drawn["mean_gains"] = plots.plot_mean_gains(tables, baseline)
    drawn |= learning_curves(study)
    for result in findings:
        if (statistics := result.statistics) is None:
            continue
        drawn[f"{result.stem}critical_difference"] = plots.plot_critical_difference(statistics)
        drawn[f"{result.stem}pairs"] = plots.plot_pairs(statistics)
        if result.costs is not None and set(COSTS) & set(result.costs.columns):
            drawn[f"{result.stem}cost"] = plots.plot_cost(result.costs)
    return drawn


def learning_curves(scores: StudyScores) -> dict[str, Figure]:
    """Draw scores against the number of training series, if the study has several sizes."""
    if "train_size" not in scores.varied or scores.rows["train_size"].nunique() < 2:
        return {}
    # Of every data set the draws that all its methods have: curves of an unfinished study compare.
    groups = scores.rows.groupby([*scores.varied, "dataset"], sort=False, dropna=False)
    rows = pd.concat(complete(group) if scores.ours else group for _, group in groups)
    if rows.empty:
        return {}
    if names := [name for name in scores.varied if name != "train_size"]:
        rows = rows.assign(method=rows["method"] + ", " + labels(rows, names))
    metric = "accuracy" if scores.ours else "score"
    figure = plot_learning_curves(rows.rename(columns={"score": metric}), metric=metric)
    return {"learning_curves": figure}


def _facts(study: StudyScores) -> dict[str, Any]:
    """Count methods, data sets, seeds and fits."""
    rows, design, expected = study.rows, study.design or {}, None
    planned = [*design.get("encodings", ()), *design.get("methods", {})]
    if {"datasets", "seeds"} <= design.keys():
        left_out = sum(map(len, design.get("leave_out", {}).values()))
        expected = len(design["datasets"]) * len(planned) - left_out
        lists = [
            design["seeds"],
            *design.get("vary", {}).values(),
            design.get("train_sizes") or "1",
        ]
        expected *= math.prod(map(len, lists)) * int(design.get("resamples", 1))
    helped = rows.get("helped", pd.Series("", rows.index))
    adapted = rows[helped != ""].groupby(["method", helped], sort=False)["dataset"].unique()
    versions = rows["version"].dropna() if study.ours and "version" in rows else ()
    return {
        **{f"{name}s": rows[name].nunique() for name in ("method", "dataset", "seed")},
        "most_seeds": int(rows.groupby(["dataset", "method"])["seed"].nunique().max()),
        "splits": rows["resample"].nunique() if "resample" in rows else 1,
        "nowhere": [name for name in planned if name not in set(rows["method"])],
        "expected": expected,
        "fits": len(rows),
        "adapted": list(adapted.items()),
        "versions": sorted(set(map(str, versions))),
    }


def _costs(result: Findings) -> dict[str, Any]:
    """Return the table of costs, formatted."""
    table: Any = result.costs
    columns = [("method", table["method"].map(code))]
    columns += [("mean score", table["score"].map("{:.3f}".format))]
    columns += [("mean rank", table["rank"].map("{:.2f}".format))]
    for name in (there := [name for name in COSTS if name in table]):
        form = "{:,.2f}" if name.endswith("seconds") else "{:,.0f}"
        known = table[name].notna()
        columns += [(COSTS[name], table[name].map(form.format).where(known, "–"))]
        if f"front_{name}" in table:
            words = table[f"front_{name}"].map({True: "yes", False: "no"})
            columns += [("on Pareto front", words.where(known, "–"))]
    header, cells = zip(*columns, strict=True)
    n_fronts = header.count("on Pareto front")
    rows = list(zip(*cells, strict=True))
    return {"header": header, "rows": rows, "fronts": n_fronts, "memory": n_fronts < len(there)}


def _datasets(result: Findings) -> dict[str, Any]:
    """Return mean and spread of every method on every data set, compared or not."""
    scores, keys, nan = result.rows, ["dataset", "method"], math.nan
    means = scores.groupby(keys, sort=False)["score"].mean()
    spreads = distinct_fits(scores, *keys).groupby(keys, sort=False)["score"].std()
    ranked = [] if result.statistics is None else list(result.statistics.ranks.index)
    methods = list(dict.fromkeys([*ranked, *scores["method"]]))
    catalog = list_datasets().set_index("name")[["length_max", "train_size"]]
    rows = []
    for name, fits in scores.groupby("dataset", sort=False):
        known: Any = catalog.loc[name] if name in catalog.index else (None, None)
        length, size = known
        if "n_train" in fits:  # fits on part of the train split
            size = fits["n_train"].iloc[0]
        pairs = [(name, method) for method in methods]
        cells = [(means.get(pair, nan), spreads.get(pair, nan)) for pair in pairs]
        whole = ["–" if pd.isna(number) else f"{number:,}" for number in (length, size)]
        rows.append({"name": name, "length": whole[0], "train_size": whole[1], "cells": cells})
    return {"methods": methods, "rows": rows}


def verdict(result: Findings, baseline: str | None = None, noun: str = "method") -> str:
    """Answer in one or two sentences of Markdown whether a method beats the baseline."""
    statistics = result.statistics
    if result.on_one_data_set:
        means = result.used.groupby("method", sort=False)["score"].mean().round(9)
        first = _lead("the highest mean score", means.index[means == means.max()])
        text = f"On {escaped(result.used['dataset'].iloc[0])}, {first}, {means.max():.3f}. "
        text += "One data set says nothing about others."
    elif statistics is None:
        text = f"No conclusion yet: {escaped(result.obstacle)}."
    else:
        known = baseline is not None and baseline in statistics.ranks.index
        text, shown = _answer(statistics, baseline, noun) if known else "", contrasts(statistics)
        text += _lead("the best mean rank", shown["leaders"])
        text += f"; {len(shown['differ'])} of {len(statistics.pairs)} pairs differ significantly."
    return markup(f"{escaped(result.label)}: {text}" if result.label else text)


def _lead(distinction: str, names: Any) -> str:
    return f"{codes(names)} {'share' if len(names) > 1 else 'has'} {distinction}"


def _answer(statistics: Statistics, baseline: Any, noun: str) -> str:
    """Say which methods beat the baseline."""
    n, name = len(statistics.scores), code(baseline)
    if contrasts(statistics)["least_p"] * (len(statistics.ranks) - 1) >= ALPHA:
        return f"{n} data sets are too few to show whether any {noun} beats {name}. "
    contrast = against(statistics, baseline)
    better, worse = ([row["method"] for row in contrast[kind]] for kind in ("better", "worse"))
    beat = f"{codes(better)} beat{'s' * (len(better) == 1)}" if better else f"No {noun} beats"
    lower = f"; {codes(worse)} score{'s' * (len(worse) == 1)} lower" if worse else ""
    return f"{beat} {name} on these {n} data sets{lower}. "


def contrasts(statistics: Statistics) -> dict[str, Any]:
    """Return the leaders by rank, the pairs that differ, and why others do not."""
    pairs, ranks, least_p = statistics.pairs, statistics.ranks, 2.0 / 2 ** len(statistics.scores)
    return {
        "leaders": list(ranks.index[ranks == ranks.iloc[0]]),
        "differ": statistics.significant(ALPHA).to_dict("records"),
        "vetoed": int((pairs["p_holm"] < ALPHA).sum()),
        "hopeless": least_p * len(pairs) >= ALPHA,
        "least_p": least_p,
        "n_same": int((pairs["p_same"] > SURE).sum()),
    }


def against(statistics: Statistics, baseline: str) -> dict[str, list[Any]]:
    """Return methods by their significant difference from the baseline, and equivalent methods."""
    table = statistics.against(baseline)
    clear, lead = table[table["p_holm"] < ALPHA], (table["wins"] - table["loses"]).map(np.sign)
    way = np.sign(table["difference"]).where(np.sign(table["difference"]) == lead, 0)
    parts = {"better": 1, "worse": -1, "mixed": 0}
    return {
        **{
            name: clear[way[clear.index] == sign].to_dict("records") for name, sign in parts.items()
        },
        "same": table.loc[table["p_same"] > SURE, "method"].tolist(),
    }
