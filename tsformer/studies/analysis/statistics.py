"""Statistical comparison of several methods on several data sets."""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, check_number
from tsformer._optional import require
from tsformer.studies.analysis.scores import repeat_columns
from tsformer.studies.analysis.signed_rank import signed_rank_p

_COLUMNS = ("dataset", "method", "seed", "score")
#: Draws of the Bayesian test: its probabilities are then accurate to about 0.01.
_DRAWS = 4000


@dataclass(frozen=True)
class Statistics:
    """Result of `compare_methods`; methods are ordered by mean rank, then by mean score.

    Attributes
    ----------
    scores : DataFrame [data sets x methods]
        Mean score over seeds.
    spreads : DataFrame [data sets x methods]
        Sample standard deviation over seeds, NaN for a single seed.
    ranks : Series [methods]
        Mean rank over data sets; 1 is best, ties share.
    friedman_p : float
        p-value of Friedman's test that all methods are alike; NaN for fewer than three methods.
    pairs : DataFrame
        One row per pair: `better` and `worse`, in the order of the methods; `difference` of the
        mean scores, which may be negative where ranks and scores disagree; numbers of data sets
        where the first `wins`, `ties` and `loses`; `p` of the two-sided Wilcoxon
        signed-rank test and `p_holm`, corrected for the number of pairs; and the posterior
        probabilities of the Bayesian signed-rank test that the first is better (`p_better`),
        practically equivalent within `rope` (`p_same`) or worse (`p_worse`).
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
        if self.friedman_p >= alpha:
            return self.pairs.iloc[:0]
        return self.pairs[self.pairs["p_holm"] < alpha]

    def against(self, reference: str) -> pd.DataFrame:
        """Return the pairs of one method, oriented so that it is the second of each.

        Use this where comparing every method with this one, a control, was the question from the
        start: `p_holm` is then corrected for these pairs only.

        Parameters
        ----------
        reference : str
            The method to compare the others with.

        Returns
        -------
        DataFrame
            One row per other method, in their order: `method`, and the columns `difference` (its
            mean score minus the reference's), `wins`, `ties`, `loses`, `p`, `p_holm`, `p_better`,
            `p_same`, `p_worse` as in `pairs`.

        Raises
        ------
        ValueError
            If there is no such method.
        """
        check_known("method", reference, self.ranks.index)
        turn = {"wins": "loses", "loses": "wins", "p_better": "p_worse", "p_worse": "p_better"}
        first = self.pairs[self.pairs["worse"] == reference].rename(columns={"better": "method"})
        second = self.pairs[self.pairs["better"] == reference].rename(
            columns={"worse": "method", **turn}
        )
        second = second.assign(difference=-second["difference"])
        columns = [name for name in self.pairs.columns if name not in ("better", "worse")]
        pairs = pd.concat([first, second])[["method", *columns]].reset_index(drop=True)
        return pairs.assign(p_holm=holm(pairs["p"].to_numpy()))


def compare_methods(results: pd.DataFrame, *, rope: float = 0.01) -> Statistics:
    """Compare methods by their scores; the data sets are the sample.

    Scores are averaged over seeds first: seeds show how much a score varies, but they are not
    additional data sets.

    Parameters
    ----------
    results : DataFrame
        One row per fit of one variant, as `read_scores` returns; a higher score is better.
        Resamples are averaged as seeds are.
    rope : float, default=0.01
        Region of practical equivalence: scores no further apart count as equal.

    Returns
    -------
    Statistics

    Raises
    ------
    ValueError
        If a score is missing or duplicated, as in several variants at once, or fewer than two
        methods or data sets are left.
    ImportError
        If baycomp is missing.

    References
    ----------
    Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006.
    Benavoli et al., "Time for a Change: a Tutorial for Comparing Multiple Classifiers Through
    Bayesian Analysis", JMLR 2017.

    Examples
    --------
    >>> rows = [(d, m, 0, s) for d, (a, b) in enumerate([(0.9, 0.8), (0.7, 0.6), (0.8, 0.7)])
    ...         for m, s in (("ours", a), ("theirs", b))]
    >>> found = compare_methods(pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"]))
    >>> found.ranks.to_dict()
    {'ours': 1.0, 'theirs': 2.0}
    >>> found.pairs[["wins", "ties", "loses"]].to_numpy().tolist()
    [[3, 0, 0]]
    """
    check_scores(results)
    check_number("rope", rope, 0, excluded=True)
    scores = mean_scores(results)
    incomplete = scores.index[scores.isna().any(axis=1)].tolist()
    scores = scores.drop(index=incomplete)
    if len(scores) < 2 or scores.shape[1] < 2:
        raise ValueError(
            "a comparison needs two methods and two data sets with scores of all methods; got "
            f"{scores.shape[1]} methods and {len(scores)} such data sets"
            + (f" (incomplete: {', '.join(map(str, incomplete[:10]))})" if incomplete else "")
        )
    ranks, means = mean_ranks(scores), scores.mean().round(9)
    ranks = ranks[sorted(ranks.index, key=lambda name: (ranks[name], -means[name]))]
    scores = scores[ranks.index]
    spreads = results.groupby(["dataset", "method"], sort=False)["score"].std().unstack("method")
    spreads = spreads.loc[scores.index, scores.columns]
    pairs = pd.DataFrame(
        _pair(scores, better, worse, rope)
        for better, worse in itertools.combinations(scores.columns, 2)
    )
    pairs.insert(list(pairs).index("p") + 1, "p_holm", holm(pairs["p"].to_numpy()))
    return Statistics(scores, spreads, ranks, _friedman(scores), pairs, rope, incomplete)


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
    corrected = np.empty_like(stepped)
    corrected[order] = stepped
    return corrected


def check_scores(results: pd.DataFrame) -> None:
    """Raise ValueError if scores of one variant lack a column or are missing or duplicated."""
    for name in _COLUMNS:
        check_known("column of the results", name, results.columns)
    if not np.isfinite(results["score"]).all():
        row = results[~np.isfinite(results["score"])].iloc[0]
        raise ValueError(
            f"the score of {row['method']!r} on {row['dataset']!r}, seed {row['seed']}, is "
            f"{row['score']}; leave the row out if that fit failed"
        )
    twice = results.duplicated([*repeat_columns(results), "method"])
    if twice.any():
        row = results[twice].iloc[0]
        raise ValueError(
            f"two scores of {row['method']!r} on {row['dataset']!r} for seed {row['seed']}; if "
            "they belong to different variants of a study, name the columns that distinguish "
            "them: --vary, or vary= of read_study"
        )


def _friedman(scores: pd.DataFrame) -> float:
    from scipy.stats import friedmanchisquare

    if scores.shape[1] < 3 or (scores.nunique(axis=1) == 1).all():
        return float("nan") if scores.shape[1] < 3 else 1.0
    return float(friedmanchisquare(*scores.to_numpy().T).pvalue)


def _pair(scores: pd.DataFrame, better: str, worse: str, rope: float) -> dict[str, object]:
    baycomp = require("baycomp", extra="statistics", purpose="the Bayesian signed-rank test")
    first, second = scores[better].to_numpy(), scores[worse].to_numpy()
    # Equal differences are ties, too; one of exactly the region's half-width, as of one series in
    # a hundred, is within it.
    apart = (first - second).round(9)
    p_better, p_same, p_worse = baycomp.SignedRankTest.probs(
        apart, np.zeros_like(apart), rope, nsamples=_DRAWS, random_state=0
    )
    return {
        "better": better,
        "worse": worse,
        "difference": float(apart.mean()),
        "wins": int((apart > 0).sum()),
        "ties": int((apart == 0).sum()),
        "loses": int((apart < 0).sum()),
        "p": signed_rank_p(apart),
        "p_better": float(p_better),
        "p_same": float(p_same),
        "p_worse": float(p_worse),
    }
