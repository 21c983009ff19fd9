"""Statistical comparison of several methods on several data sets, with gains and costs."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, check_number
from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.studies.analysis.signed_rank import signed_rank_p
from tsformer.studies.analysis.study_scores import (
    COLUMNS,
    COSTS,
    Findings,
    StudyScores,
    repeat_columns,
    variant_scores,
)

_PAIR = ["better", "worse", "difference", "wins", "ties", "loses", "p", "p_holm"]
_PAIR += ["p_better", "p_same", "p_worse"]
#: Draws of the Bayesian test: its probabilities are then accurate to about 0.01.
_DRAWS = 4000
#: Costs without a Pareto front: a process keeps memory of earlier fits.
_WITHOUT_FRONT = ("peak_memory_mb", "predict_memory_mb")
#: Memory of a process that differs by less than this share is noise.
_NOISE = 0.1
#: With fewer data sets a standard deviation is a guess.
_FEWEST_FOR_INTERVAL = 3


@dataclass(frozen=True)
class Statistics:
    """Result of `compare_methods`; methods are ordered by mean rank, then by mean score.

    Attributes
    ----------
    scores, spreads : DataFrame [data sets x methods]
        Mean score and sample standard deviation over seeds, NaN for a single seed.
    ranks : Series [methods]
        Mean rank over data sets; 1 is best, ties share.
    friedman_p : float
        p-value of Friedman's test that all methods are alike; NaN for fewer than three methods.
    pairs : DataFrame
        One row per pair: `better` and `worse`, by rank; `difference` of the mean scores; numbers of
        data sets where the first `wins`, `ties` and `loses`; `p` of the two-sided Wilcoxon
        signed-rank test and `p_holm`, corrected for the number of pairs; and the probabilities of
        the Bayesian signed-rank test that the first is better (`p_better`), practically equivalent
        within `rope` (`p_same`) or worse (`p_worse`).
    rope : float
        Half-width of the region of practical equivalence.
    incomplete : list of str
        Data sets left out because some method has no score on them.
    """

    scores: pd.DataFrame
    spreads: pd.DataFrame
    ranks: pd.Series
    friedman_p: float
    pairs: pd.DataFrame
    rope: float
    incomplete: list[str]

    def significant(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the pairs with a corrected p below `alpha`; none if Friedman's p is not."""
        return self.pairs[(self.pairs["p_holm"] < alpha) & (not self.friedman_p >= alpha)]

    def against(self, reference: str) -> pd.DataFrame:
        """Return `pairs` of each `method` with a reference; `p_holm` is corrected for these."""
        check_known("method", reference, self.ranks.index)
        turn = {"wins": "loses", "better": "worse", "p_better": "p_worse"}
        turned = self.pairs.rename(columns=turn | {new: old for old, new in turn.items()})
        turned = turned.assign(difference=-turned["difference"])
        pairs = pd.concat([self.pairs, turned[self.pairs.columns]], ignore_index=True)
        pairs = pairs[pairs["worse"] == reference].drop(columns="worse").reset_index(drop=True)
        return pairs.rename(columns={"better": "method"}).assign(p_holm=holm(pairs["p"].to_numpy()))


def compare_methods(results: pd.DataFrame, *, rope: float = 0.01) -> Statistics:
    """Compare methods by their scores, averaged over seeds: the data sets are the sample.

    Parameters
    ----------
    results : DataFrame
        One row per fit of one variant, as of `read_scores`. Resamples count as seeds.
    rope : float, default=0.01
        Region of practical equivalence: scores no further apart count as equal.

    Returns
    -------
    Statistics
        ValueError if a score is missing or duplicated, as in several variants at once, or fewer
        than two methods or data sets are left; ImportError without baycomp.

    References
    ----------
    Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006.
    Benavoli et al., "Time for a Change", JMLR 2017, for the Bayesian test.

    Examples
    --------
    >>> rows = [(d, m, 0, s + d / 9) for d in range(3) for m, s in (("none", 0.3), ("rope", 0.4))]
    >>> found = compare_methods(pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"]))
    >>> found.ranks.to_dict(), found.pairs["wins"].tolist()
    ({'rope': 1.0, 'none': 2.0}, [3])
    """
    from scipy.stats import friedmanchisquare

    check_scores(results)
    check_number("rope", rope, 0, excluded=True)
    scores = mean_scores(results)
    incomplete = scores.index[scores.isna().any(axis=1)].tolist()
    scores = scores.drop(index=incomplete)
    if len(scores) < 2 or scores.shape[1] < 2:
        raise ValueError(
            "a comparison needs two methods and two data sets with scores of all methods; got "
            f"{scores.shape[1]} methods and {len(scores)} such data sets"
        )
    ranks, means = mean_ranks(scores), scores.mean().round(9)
    ranks = ranks[sorted(ranks.index, key=lambda name: (ranks[name], -means[name]))]
    scores = scores[ranks.index]
    spreads = results.groupby(["dataset", "method"], sort=False)["score"].std().unstack("method")
    spreads = spreads.loc[scores.index, scores.columns]
    baycomp = require("baycomp", extra="statistics", purpose="the Bayesian signed-rank test")
    rows = []
    for better, worse in itertools.combinations(scores.columns, 2):
        # Equal differences are ties, too; one of exactly the region's half-width is within it.
        apart = (scores[better] - scores[worse]).round(9).to_numpy()
        options = {"rope": rope, "nsamples": _DRAWS, "random_state": 0}
        chances = baycomp.SignedRankTest.probs(apart, np.zeros_like(apart), **options)
        counts = [(apart > 0).sum(), (apart == 0).sum(), (apart < 0).sum()]
        p = signed_rank_p(apart)
        rows.append([better, worse, apart.mean(), *counts, p, p, *chances])
    pairs = pd.DataFrame(rows, columns=_PAIR)
    pairs["p_holm"] = holm(pairs["p"].to_numpy())
    friedman_p = float("nan") if scores.shape[1] < 3 else 1.0
    if scores.shape[1] >= 3 and not (scores.nunique(axis=1) == 1).all():
        friedman_p = float(friedmanchisquare(*scores.to_numpy().T).pvalue)
    return Statistics(scores, spreads, ranks, friedman_p, pairs, rope, incomplete)


def mean_scores(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean scores over seeds and resamples [data sets x methods], NaN where none is."""
    # Means that are mathematically equal can differ in the last bit: they are ties.
    means = results.groupby(["dataset", "method"], sort=False)["score"].mean().round(9)
    return means.unstack("method")


def mean_ranks(scores: pd.DataFrame) -> pd.Series:
    """Return each method's mean rank over data sets; 1 is best, ties share their mean."""
    return scores.rank(axis=1, ascending=False).mean()


def p_text(p: float) -> str:
    """Return a p-value in the usual form, as in ``"p=.012"`` or ``"p<.001"``; a dash for NaN."""
    if np.isnan(p):
        return "–"
    return "p<.001" if p < 0.001 else f"p={p:.3f}".replace("0.", ".")


def holm(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return p-values corrected for multiple testing by Holm's step-down method."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    return stepped[np.argsort(order)]


def check_scores(results: pd.DataFrame) -> None:
    """Raise ValueError if scores of one variant lack a column or are missing or duplicated."""
    for name in COLUMNS:
        check_known("column of the results", name, results.columns)
    twice = results.duplicated([*repeat_columns(results), "method"])
    for wrong, remedy in (
        (~np.isfinite(results["score"]), "is not a number; leave the row out if that fit failed"),
        (twice, "is there twice; name the columns that distinguish variants: --vary, or vary="),
    ):
        for row in results[wrong].head(1).itertuples():
            where = f"{row.dataset!r}, seed {row.seed}"
            raise ValueError(f"the score of {row.method!r} on {where}, {remedy}")


def mean_gains(gains: pd.DataFrame) -> pd.DataFrame:
    """Return mean gains [data sets x methods] with 95 % t intervals over data sets."""
    from scipy.stats import t

    n = len(gains)
    half = t.ppf(0.975, max(n - 1, 1)) * gains.std().round(9).to_numpy() / np.sqrt(n)
    # Equal gains on all data sets are chance: they show no certainty.
    half = np.where((half > 0) & (n >= _FEWEST_FOR_INTERVAL), half, np.nan)
    gain = gains.mean().to_numpy()
    limits = {"low": gain - half, "high": gain + half}
    return pd.DataFrame({"method": gains.columns, "gain": gain, **limits, "datasets": n})


def costs(rows: pd.DataFrame, statistics: Statistics) -> pd.DataFrame:
    """Return the cost and score of each method over the data sets that all methods have."""
    rows, ranks = rows[rows["dataset"].isin(statistics.scores.index)], statistics.ranks
    score = statistics.scores.mean().to_numpy()
    table = pd.DataFrame({"method": ranks.index, "score": score, "rank": ranks.to_numpy()})
    for name in filter(rows.columns.__contains__, COSTS):
        medians = rows.groupby(["method", "dataset"])[name].median().unstack("dataset")
        means = medians.dropna(how="all").dropna(axis=1).mean(axis=1)
        memory = name in _WITHOUT_FRONT
        if means.isna().all() or (memory and means.max() <= (1 + _NOISE) * means.min()):
            continue  # no data set has the cost of all methods, or it is noise
        table[name] = cost = means.reindex(ranks.index).to_numpy(dtype=float)
        if not memory:
            as_good = (cost[:, None] <= cost) & (score[:, None] >= score)
            better = (cost[:, None] < cost) | (score[:, None] > score)
            table[f"front_{name}"] = ~np.any(as_good & better, axis=0) & ~np.isnan(cost)
    return table


def analyse(
    study: StudyScores, *, baseline: str | None = None, rope: float = 0.01
) -> list[Findings]:
    """Compute statistics, gains and costs of a study."""
    check_number("rope", rope, 0, excluded=True)
    if baseline is not None:
        check_known("method", baseline, study.rows["method"].unique())
    highest = study.rows["score"].max()
    if (rope < 0.1 and 1 < highest <= 100) or (rope >= 0.5 and highest <= 1):
        problem = f"rope={rope:g} is not in the unit of the scores, of which {highest:g} is highest"
        warn_caller(f"{problem}; pass rope=1 for percentages, rope=0.01 for shares")
    findings = []
    for variant in variant_scores(study):
        check_scores(variant.used)
        try:
            statistics = compare_methods(variant.used, rope=rope)
        except ValueError as error:  # too few methods or data sets
            findings.append(replace(variant, obstacle=str(error)))
            continue
        scores, table = statistics.scores, None
        if baseline in scores.columns:
            table = mean_gains(scores.drop(columns=baseline).sub(scores[baseline], axis=0))
        cost = costs(variant.used, statistics)
        findings.append(replace(variant, statistics=statistics, costs=cost, mean_gains=table))
    return findings
