"""The sentences of a report, which claim no more than the numbers support."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from tsformer.studies.analysis.analyse import Findings
from tsformer.studies.analysis.effects import (
    COVARIATES,
    FEWEST_CORRELATED,
    FEWEST_RESAMPLED,
)
from tsformer.studies.analysis.published import PROTOCOL
from tsformer.studies.analysis.scores import StudyScores, fit_of, n_splits
from tsformer.studies.analysis.statistics import Statistics, p_text
from tsformer.studies.design.train_sizes import WHOLE

__all__ = ["asked", "limits", "outcome", "protocol", "published", "verdict"]

_ALPHA = 0.05
#: The posterior probability above which something is stated.
_SURE = 0.95
_MOST_NAMED = 10


def verdict(found: Findings) -> str:
    """Return what a variant shows in two sentences: which method is best, and what that is worth.

    Examples
    --------
    >>> from tsformer.studies.analysis.statistics import compare_methods
    >>> rows = [(d, m, 0, s + d / 99) for d in range(7) for m, s in (("none", 0.3), ("rope", 0.4))]
    >>> rows = pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"])
    >>> print(verdict(Findings("", rows, rows, compare_methods(rows))))
    rope is best by rank. With 7 data sets, the difference between the two methods can be shown.
    """
    label = f"{found.label}: " if found.label else ""
    statistics = found.statistics
    if found.on_one_data_set:
        means = ordered_means(found.used)
        first, *others = means.index
        tied = [first, *(name for name in others if means[name] == means[first])]
        where = f"{'on' if label else 'On'} {found.used['dataset'].iloc[0]}"
        if len(tied) > 1:
            text = f"{_and(tied)} share the highest mean score, {means[first]:.3f}."
        else:
            text = (
                f"{first} has the highest mean score, {means[first]:.3f}, and {others[0]} the "
                f"next, {means[others[0]]:.3f}."
            )
        return f"{label}{where}, {text} One data set does not say which is better on others."
    if statistics is None:
        nothing = "nothing can be said yet" if label else "Nothing can be said yet"
        return f"{label}{nothing}. {found.obstacle[0].upper()}{found.obstacle[1:]}."
    ranks, means = statistics.ranks, statistics.scores.mean().round(9)
    first = list(ranks.index[(ranks == ranks.iloc[0]) & (means == means.iloc[0])])
    tied = list(ranks.index[ranks == ranks.iloc[0]])
    if len(first) > 1:
        text = f"{_and(first)} share the best mean rank and mean score."
    elif len(tied) > 1:
        text = f"{_and(tied)} share the best mean rank, and {first[0]} has the highest mean score."
    else:
        text = f"{first[0]} is best by rank."
    n_pairs, n_shown = len(statistics.pairs), len(statistics.significant(_ALPHA))
    if n_pairs == 1:
        shown = f"the difference between the two methods can{'' if n_shown else 'not'} be shown"
    elif n_shown == n_pairs:
        shown = f"all {n_pairs} differences between methods can be shown"
    else:
        count = f"only {n_shown}" if n_shown else "none"
        shown = f"{count} of {n_pairs} differences between methods can be shown"
    return f"{label}{text} With {len(statistics.scores)} data sets, {shown}."


def asked(study: StudyScores, findings: list[Findings], baseline: str | None) -> str:
    """Return what was compared, and how many of its fits are available."""
    rows = study.rows
    counts = [
        _counted(rows["method"].nunique(), "method"),
        _counted(rows["dataset"].nunique(), "data set"),
        _counted(rows["seed"].nunique(), "seed"),
    ]
    if n_splits(rows) > 1:
        counts.append(f"{n_splits(rows)} splits of each")
    if len(findings) > 1:
        counts.append(f"{len(findings)} variants ({'; '.join(each.label for each in findings)})")
    text = f"Which method scores higher across data sets? Compared: {', '.join(counts)}."
    if study.published is not None and len(study.published.rows):
        n_published = study.published.rows["method"].nunique()
        text += f" Beside them: {_counted(n_published, 'published method')}."
    if any(each.gains is not None for each in findings):
        text += f" Gains are relative to {baseline}."
    expected = _expected(study)
    if expected is None:
        return f"{text} {len(rows)} fits."
    names = [*study.design["encodings"], *study.design.get("methods", {})] if study.design else []
    if nowhere := [name for name in names if name not in set(rows["method"])]:
        text += f" Not compared, because no fit is available: {_names(nowhere)}."
    if len(rows) < expected:
        without = {"failed": study.failed, "skipped": study.n_skipped}
        counted = [f"{n} {what}" for what, n in without.items() if n]
        text += f" {len(rows)} of {expected} fits are available"
        counted[-1:] = [f"and {last}" for last in counted[-1:]]
        text += "".join(f", {each}" for each in counted)
        done = len(rows) + sum(without.values()) >= expected
        return f"{text}." if done else f"{text}: this study is not finished."
    return f"{text} All {expected} fits are available."


def protocol(study: StudyScores, findings: list[Findings]) -> list[str]:
    """Return how the scores were obtained, as far as is known, and how they are compared."""
    if study.ours:
        known = [
            "Each fit used the training split only. The score is the accuracy on the test split, "
            "which was evaluated once, at the end.",
            *(
                f"{name}: {words}."
                for name, words in (study.design or {}).get("splits", {}).items()
            ),
            "Fits of one data set, seed and variant differ only in the encoding: they start from "
            "the same weights and see the same batches under the same budget."
            if not _has_methods(study)
            else "Methods had the same splits and seeds; in all else, budgets too, they differ. "
            "A method without a source of chance was fitted once for all seeds.",
            *_helped(study),
        ]
        if "train_size" in study.varied:
            known.append(
                "A train size is a stratified subset of the train split. Under one seed it is the "
                "same for every method, and part of the larger ones; another seed draws another. A "
                "percentage is rounded, and is at least one series of each class."
            )
    else:
        known = ["The file does not say how these scores were obtained; they are taken as given."]
    for each in findings:
        label = f"{each.label}: " if each.label else ""
        if each.statistics is None:
            what = (
                "means and paired differences on one data set; nothing is tested"
                if each.on_one_data_set
                else f"not compared; {each.obstacle}"
            )
            if each.on_one_data_set:
                what += _without_all(each)
            known.append(f"{label}{what}." if label else f"{what[0].upper()}{what[1:]}.")
            continue
        text = f"{label}compared over {len(each.statistics.scores)} data sets"
        if len(each.used) < len(each.rows):
            text += (
                f", using the {len(each.used)} of {len(each.rows)} fits whose data set and seed "
                "every method has"
            )
        text += _without_all(each)
        known.append(f"{text}." if label else f"{text[0].upper()}{text[1:]}.")
    known += published(study, findings)
    if all(each.statistics is None for each in findings):
        return known
    return [
        *known,
        "Scores are averaged over seeds first: the sample consists of data sets, not of seeds.",
        "Tests: Friedman's test for all methods at once; two-sided exact Wilcoxon signed-rank "
        "tests for pairs, with Holm's correction; the Bayesian signed-rank test, in which "
        "differences within the region of practical equivalence count as none.",
        "Intervals of mean gains: 95 % bootstrap intervals over data sets, of at least "
        f"{FEWEST_RESAMPLED} data sets.",
        "Methods are in the order of their mean ranks, and equal ranks in that of the mean scores.",
    ]


def published(study: StudyScores, findings: list[Findings]) -> list[str]:
    """Return what the published results are, and which of them could not be compared."""
    if study.published is None:
        return []
    said = []
    if len(study.published.rows):
        said.append(
            "Methods marked (published) were not run here: their scores are accuracies that others "
            "published for the same train and test split, one figure for each data set. They have "
            "no seeds, no seconds and no probabilities."
        )
        if not study.ours:
            said.append(
                f"The file does not say on which split its scores were obtained; the published "
                f"ones are of the {PROTOCOL}."
            )
    if "train_size" in study.varied and len(study.published.rows):
        said.append(
            "They were trained on the whole train split, and are set beside fits of train size "
            f"{WHOLE} only."
        )
    variants: dict[str, list[str]] = {}
    for each in findings:
        if each.statistics is not None and each.not_ranked:
            variants.setdefault(", ".join(each.not_ranked), []).append(each.label)
    for names, labels in variants.items():
        of = f"{'; '.join(labels)}: " if len(labels) < len(findings) else ""
        said.append(
            f"{of}Not ranked, because a data set that was compared is missing: {names}. Each is "
            "only set beside the measured methods, on the data sets that both have."
        )
    return [*said, *study.published.left_out]


def outcome(found: Findings, baseline: str | None) -> list[str]:
    """Return what the statistics of a variant show and what they do not."""
    statistics = found.statistics
    if found.on_one_data_set:
        shared = (
            "Splits of one data set share series, and fits on one split share all of them"
            if n_splits(found.used) > 1
            else "All fits are on one split, and so share all series"
        )
        return [
            *_paired(found.used),
            f"{shared}: these differences are not independent of each other, and no test is made "
            "of them.",
        ]
    if statistics is None:
        return ["Not enough scores to compare: no statistics yet."]
    said = [_ranks(statistics), *_pairs(statistics)]
    if baseline is not None and baseline in statistics.ranks.index:
        said += _against(statistics, baseline)
    if found.effects is not None:
        said += [_effect(found.effects, covariate) for covariate in COVARIATES]
    return said


def limits(study: StudyScores, findings: list[Findings]) -> list[str]:
    """Return what cannot be concluded."""
    compared = [each.statistics for each in findings if each.statistics is not None]
    said = []
    if compared:
        least = min(len(statistics.scores) for statistics in compared)
        said.append(
            f"{least} data sets are a small sample that was not drawn at random: what holds for "
            "them may not hold for others."
        )
    n_seeds = int(study.rows.groupby(["dataset", "method"])["seed"].nunique().max())
    said.append(
        "There is only one seed: how much a score varies between seeds is unknown."
        if n_seeds == 1
        else f"There are at most {n_seeds} seeds: spreads over them are rough."
    )
    if compared:
        said += [
            "A difference that is not significant is not thereby shown to be zero. Only a high "
            "probability of practical equivalence supports that, and it depends on the region "
            "chosen.",
            "Lengths and training sizes of these data sets are related to many of their other "
            "properties; a correlation with either does not imply a cause.",
        ]
    if study.ours:
        said.append(
            "All encodings had the same recipe and budget, tuned for none of them. Another budget, "
            "model or recipe may rank them differently."
            if not _has_methods(study)
            else "Methods had the parameters that the study names, and otherwise the defaults of "
            "their libraries: another choice may rank them differently. Nothing here says on which "
            "data sets these were chosen, or whether on some of those that are compared."
        )
    if study.published is not None and len(study.published.rows):
        said.append(
            "A difference from a published result may be one of implementation, version, tuning or "
            "of a single lucky run, as well as of the method."
        )
    if "fit_seconds" in study.rows.columns:
        said.append(
            "Times depend on the machines that ran the fits and on their other load; compare them "
            "only with each other, and only roughly."
        )
    return said


def ordered_means(used: pd.DataFrame) -> pd.Series:
    """Return the mean score of each method, the highest first."""
    means: pd.Series = used.groupby("method", sort=False)["score"].mean()
    return means.round(9).sort_values(ascending=False, kind="stable")


def _paired(used: pd.DataFrame) -> list[str]:
    """Return how far the best method on one data set is ahead of each other one, fit by fit."""
    draws = [name for name in ("seed", "resample") if name in used.columns]
    scores = used.pivot_table("score", draws, "method")
    fits = used.assign(fit=fit_of(used)).pivot_table("fit", draws, "method", aggfunc="first")
    best, *others = ordered_means(used).index
    said = []
    for other in others:
        once = ~fits[[best, other]].duplicated()
        apart = (scores[best] - scores[other])[once].dropna().round(9)
        if apart.empty:  # only of others, whose fits need not be paired
            said.append(f"No fit of {best} is paired with one of {other}: no draw has both.")
            continue
        said.append(
            f"{best} is {apart.mean():.3f} ahead of {other}: higher in {int((apart > 0).sum())} of "
            f"{_counted(len(apart), 'paired fit')}, equal in {int((apart == 0).sum())}."
        )
    return said


def _without_all(found: Findings) -> str:
    """Return which data sets were left out, with what goes before it in a sentence."""
    if not found.left_out:
        return ""
    return f"; left out, because some method has no score: {_names(found.left_out)}"


def _ranks(statistics: Statistics) -> str:
    n, p = len(statistics.scores), statistics.friedman_p
    best = list(statistics.ranks.index[statistics.ranks == statistics.ranks.iloc[0]])
    has = "has" if len(best) == 1 else "share"
    text = f"{_and(best)} {has} the best mean rank, {statistics.ranks.iloc[0]:.2f}"
    if math.isnan(p):
        return f"{text} of two methods on {n} data sets."
    if p < _ALPHA:
        return (
            f"{text}. Equal methods would rarely have ranks this far apart (Friedman, {p_text(p)})."
        )
    return (
        f"{text}, but equal methods could well have ranks this far apart (Friedman, "
        f"{p_text(p)}): no order of the methods is shown."
    )


def _pairs(statistics: Statistics) -> list[str]:
    n_pairs = len(statistics.pairs)
    differs = statistics.significant(_ALPHA)
    if len(differs):
        # Where the mean scores contradict the mean ranks, neither method is called better.
        pairs = [
            f"{pair['better']} over {pair['worse']}"
            if pair["difference"] > 0
            else f"{pair['better']} and {pair['worse']}, which rank and score order differently"
            for pair in differs.to_dict("records")
        ]
        said = [f"{len(differs)} of {n_pairs} pairs differ after correction: {_names(pairs)}."]
    elif (vetoed := int((statistics.pairs["p_holm"] < _ALPHA).sum())) > 0:
        said = [
            f"No pair counts as different ({n_pairs} compared): Friedman's test of all methods at "
            f"once shows no difference, though {vetoed} would differ by the corrected p alone."
        ]
    else:
        said = [f"No pair differs after correction ({n_pairs} compared)."]
        least = 2 / 2 ** len(statistics.scores)
        if least * n_pairs >= _ALPHA:
            said.append(
                f"None could: with {len(statistics.scores)} data sets the smallest possible p is "
                f"{least:.3g}, which multiplied by the number of pairs is not below {_ALPHA:g}."
            )
    alike = statistics.pairs[statistics.pairs["p_same"] > _SURE]
    said.append(
        f"Pairs that are practically equivalent, within {statistics.rope:g}, with a probability "
        f"above {_SURE:g}: {len(alike)} of {n_pairs}."
    )
    return said


def _against(statistics: Statistics, baseline: str) -> list[str]:
    table = statistics.against(baseline)
    lead = table["wins"] - table["loses"]
    groups = {
        f"Score higher than {baseline}": (table["difference"] > 0) & (lead > 0),
        f"Score lower than {baseline}": (table["difference"] < 0) & (lead < 0),
    }
    # Wilcoxon's test is of ranks: one large loss may outweigh many small gains in the mean.
    groups[f"Differ from {baseline}, but mean score and most data sets do not agree which way"] = ~(
        pd.concat(groups.values(), axis=1).any(axis=1)
    )
    clear = table["p_holm"] < _ALPHA
    n = _counted(len(table), "comparison")
    correction = f"Wilcoxon, corrected for the {n} with {baseline} only"
    said = [
        f"{text} ({correction}): {_listed(table[clear & rows])}."
        for text, rows in groups.items()
        if (clear & rows).any()
    ]
    if not clear.any():
        said = [f"No method is shown to differ from {baseline} ({correction})."]
    alike = table[table["p_same"] > _SURE]["method"]
    if len(alike):
        said.append(
            f"Practically equivalent to {baseline}, within {statistics.rope:g}, with a probability "
            f"above {_SURE:g}: {_names(alike)}."
        )
    return said


def _listed(table: pd.DataFrame) -> str:
    return _names(
        f"{row['method']} ({row['difference']:+.3f}, {p_text(row['p_holm'])})"
        for row in table.to_dict("records")
    )


def _effect(effects: pd.DataFrame, covariate: str) -> str:
    rows = effects[effects["covariate"] == covariate]
    words = COVARIATES[covariate]
    if rows["p"].isna().all():
        return (
            f"Nothing can be said about gains and {words}: it is known for fewer than "
            f"{FEWEST_CORRELATED} data sets, or is the same for all, or no gain varies."
        )
    clear = rows[rows["p_holm"] < _ALPHA]
    if clear.empty:
        return f"No method's gain is shown to correlate with {words} (Spearman, Holm)."
    found = _names(
        f"{row['method']} (r = {row['rho']:+.2f}, {p_text(row['p_holm'])})"
        for row in clear.to_dict("records")
    )
    return f"Gains that correlate with {words} (Spearman, Holm): {found}."


def _has_methods(study: StudyScores) -> bool:
    """Whether other things than encodings were compared."""
    return bool((study.design or {}).get("methods"))


def _helped(study: StudyScores) -> list[str]:
    """Return which methods could not read some series as they are, and which were left out."""
    left_out = (study.design or {}).get("leave_out", {})
    planned = [f"Left out by the study: {name} on {_names(on)}." for name, on in left_out.items()]
    if "helped" not in study.rows.columns:
        return planned
    helped = study.rows[study.rows["helped"] != ""]
    said = [
        f"Series were {what} for {method}: {_names(part['dataset'].unique())}."
        for (method, what), part in helped.groupby(["method", "helped"], sort=False)
    ]
    return [*said, *(f"Skipped: {each}." for each in study.skipped), *planned]


def _expected(study: StudyScores) -> int | None:
    if study.design is None:
        return None
    names = [*study.design["encodings"], *study.design.get("methods", {})]
    left_out = study.design.get("leave_out", {}).values()
    pairs = len(study.design["datasets"]) * len(names) - sum(map(len, left_out))
    lists = [study.design["seeds"]]
    lists += study.design.get("vary", {}).values()
    lists += [study.design["train_sizes"]] if study.design.get("train_sizes") else []
    return pairs * math.prod(map(len, lists)) * int(study.design.get("resamples", 1))


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    if len(listed) > _MOST_NAMED:
        return f"{', '.join(listed[:_MOST_NAMED])} and {len(listed) - _MOST_NAMED} more"
    return ", ".join(listed)
