"""Conclusions from statistics: lists for the report, and its first sentence."""

from typing import Any

import pandas as pd

from tsformer.studies.analysis.scores import Findings, fit_of
from tsformer.studies.analysis.statistics import Statistics
from tsformer.studies.report.render import code, codes, escaped, markup

ALPHA = 0.05
#: The posterior probability above which methods count as equivalent.
SURE = 0.95


def verdict(found: Findings, baseline: str | None = None, noun: str = "method") -> str:
    """Answer in one or two sentences of Markdown whether a method beats the baseline."""
    statistics = found.statistics
    if found.on_one_data_set:
        text = _best_on_one_data_set(found)
    elif statistics is None:
        text = f"No conclusion yet: {escaped(found.obstacle)}."
    else:
        text = _ranking(statistics)
        if baseline is not None and baseline in statistics.ranks.index:
            text = f"{_answer(statistics, baseline, noun)} {text}"
    return markup(f"{escaped(found.label)}: {text}" if found.label else text)


def contrasts(statistics: Statistics) -> dict[str, Any]:
    """Return the leaders by rank, the pairs that differ, and why others do not."""
    n_pairs, least_p = len(statistics.pairs), _least_p(statistics)
    return {
        "leaders": list(statistics.ranks.index[statistics.ranks == statistics.ranks.iloc[0]]),
        "differ": statistics.significant(ALPHA).to_dict("records"),
        "vetoed": int((statistics.pairs["p_holm"] < ALPHA).sum()),
        "hopeless": least_p * n_pairs >= ALPHA,
        "least_p": least_p,
        "n_same": int((statistics.pairs["p_same"] > SURE).sum()),
    }


def against(statistics: Statistics, baseline: str) -> dict[str, list[Any]]:
    """Return methods by their significant difference from the baseline, and equivalent methods."""
    table = statistics.against(baseline)
    lead = table["wins"] - table["loses"]
    better = (table["difference"] > 0) & (lead > 0)
    worse = (table["difference"] < 0) & (lead < 0)
    clear = table["p_holm"] < ALPHA
    parts = {"better": better, "worse": worse, "mixed": ~(better | worse)}
    return {
        **{name: table[clear & part].to_dict("records") for name, part in parts.items()},
        "same": table.loc[table["p_same"] > SURE, "method"].tolist(),
    }


def ordered_means(used: pd.DataFrame) -> pd.Series:
    """Return the mean score of each method, the highest first."""
    means: pd.Series = used.groupby("method", sort=False)["score"].mean()
    return means.round(9).sort_values(ascending=False, kind="stable")


def paired(used: pd.DataFrame) -> list[dict[str, Any]]:
    """Compare the best method on one data set with each other one, fit by fit."""
    draws = [name for name in ("seed", "resample") if name in used.columns]
    scores = used.pivot_table("score", draws, "method")
    fits = used.assign(fit=fit_of(used)).pivot_table("fit", draws, "method", aggfunc="first")
    best, *others = ordered_means(used).index
    rows = []
    for other in others:
        once = ~fits[[best, other]].duplicated()
        apart = (scores[best] - scores[other])[once].dropna().round(9)
        counts = {"n": len(apart), "wins": int((apart > 0).sum()), "ties": int((apart == 0).sum())}
        rows.append({"best": best, "other": other, "difference": apart.mean(), **counts})
    return rows


def _answer(statistics: Statistics, baseline: str, noun: str) -> str:
    """Say which methods beat the baseline."""
    n, name = len(statistics.scores), code(baseline)
    if _least_p(statistics) * (len(statistics.ranks) - 1) >= ALPHA:
        return f"{n} data sets are too few to show whether any {noun} beats {name}."
    found = against(statistics, baseline)
    better, worse = ([row["method"] for row in found[part]] for part in ("better", "worse"))
    beat = f"{codes(better)} beat{'s' * (len(better) == 1)}" if better else f"No {noun} beats"
    lower = f"; {codes(worse)} score{'s' * (len(worse) == 1)} lower" if worse else ""
    return f"{beat} {name} on these {n} data sets{lower}."


def _ranking(statistics: Statistics) -> str:
    """Name the best method by rank, and count the significant differences."""
    ranks, means = statistics.ranks, statistics.scores.mean().round(9)
    tied = list(ranks.index[ranks == ranks.iloc[0]])
    first = [name for name in tied if means[name] == means[tied[0]]]
    text = f"{code(first[0])} ranks first"
    if len(first) > 1:
        text = f"{codes(first)} share the best mean rank and mean score"
    elif len(tied) > 1:
        text = f"{codes(tied)} share the best mean rank, {code(first[0])} has the best mean score"
    n_pairs, n_shown = len(statistics.pairs), len(statistics.significant(ALPHA))
    if n_pairs == 1:
        but = "and the difference is" if n_shown else "but the difference is not"
        return f"{text}, {but} significant."
    if n_shown == n_pairs:
        return f"{text}, and all {n_pairs} pairs differ significantly."
    if n_shown == 0:
        return f"{text}, but none of the {n_pairs} pairs differs significantly."
    differ = "differs" if n_shown == 1 else "differ"
    return f"{text}; {n_shown} of {n_pairs} pairs {differ} significantly."


def _best_on_one_data_set(found: Findings) -> str:
    means = ordered_means(found.used)
    tied = list(means.index[means == means.iloc[0]])
    text = f"{code(tied[0])} has the highest mean score, {means.iloc[0]:.3f}"
    if len(tied) > 1:
        text = f"{codes(tied)} share the highest mean score, {means.iloc[0]:.3f}"
    else:
        text += f"; {code(means.index[1])} is next, {means.iloc[1]:.3f}"
    where = escaped(found.used["dataset"].iloc[0])
    return f"On {where}, {text}. One data set says nothing about others."


def _least_p(statistics: Statistics) -> float:
    """Return the smallest p-value that so many data sets can give."""
    return 2.0 / 2 ** len(statistics.scores)
