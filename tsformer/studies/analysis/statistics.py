"""What can be concluded from scores of several methods on several data sets, and what cannot."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._names import unknown
from tsformer._optional import require
from tsformer.studies.scores import read_scores, repeat_columns, variants
from tsformer.studies.signed_rank import signed_rank_p

__all__ = ["Statistics", "compare_methods", "read_scores"]

_COLUMNS = ("dataset", "method", "seed", "score")
#: Of the Bayesian test; its chances are then sure to about a point.
_DRAWS = 4000


@dataclass(frozen=True)
class Statistics:
    """What `compare_methods` found; methods are in the order of their mean rank, best first.

    Attributes
    ----------
    scores : DataFrame [data sets x methods]
        Mean score over seeds.
    spreads : DataFrame [data sets x methods]
        Sample standard deviation over seeds, NaN of one seed.
    ranks : Series [methods]
        Mean rank over data sets; 1 is best, ties share.
    friedman_p : float
        Chance of ranks as far apart if all methods were alike; NaN of fewer than three methods.
    pairs : DataFrame
        A row a pair: `better` and `worse` by mean rank; `difference`, mean score of the first less
        that of the second; on how many data sets it `wins`, `ties` and `loses`; `p` of Wilcoxon's
        signed-rank test, two-sided, and `p_holm`, corrected for the number of pairs; and by the
        Bayesian signed-rank test the chances that the first is better (`p_better`), that they
        are equal but for `rope` (`p_same`) and that it is worse (`p_worse`).
    rope : float
        Differences so small count as none.
    incomplete : list of str
        Data sets left out because some method has no score there.
    """

    scores: pd.DataFrame
    spreads: pd.DataFrame
    ranks: pd.Series
    friedman_p: float
    pairs: pd.DataFrame
    rope: float
    incomplete: list[str]

    def significant(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the pairs that differ: corrected p below `alpha`, as Friedman's, where it is."""
        if self.friedman_p >= alpha:
            return self.pairs.iloc[:0]
        return self.pairs[self.pairs["p_holm"] < alpha]

    def against(self, reference: str) -> pd.DataFrame:
        """Return the pairs of one method, turned so that it is the second of each.

        That every method is compared with this one alone must have been the question from the
        start, as with a control: then `p_holm` is corrected for these pairs and not for all.

        Parameters
        ----------
        reference : str
            The method to compare the others with.

        Returns
        -------
        DataFrame
            A row each other method, by mean rank: `method`, and of `pairs` the columns
            `difference` (its mean score less the reference's), `wins`, `ties`, `loses`, `p`,
            `p_holm`, `p_better`, `p_same`, `p_worse`.

        Raises
        ------
        ValueError
            If there is no such method.
        """
        if reference not in self.ranks.index:
            raise ValueError(unknown("method", reference, self.ranks.index))
        turn = {"wins": "loses", "loses": "wins", "p_better": "p_worse", "p_worse": "p_better"}
        first = self.pairs[self.pairs["worse"] == reference].rename(columns={"better": "method"})
        second = self.pairs[self.pairs["better"] == reference].rename(
            columns={"worse": "method", **turn}
        )
        second = second.assign(difference=-second["difference"])
        columns = [name for name in self.pairs.columns if name not in ("better", "worse")]
        pairs = pd.concat([first, second])[["method", *columns]].reset_index(drop=True)
        return pairs.assign(p_holm=holm(pairs["p"].to_numpy()))


def compare_methods(
    results: pd.DataFrame, *, rope: float = 0.01, random_state: int = 0
) -> Statistics:
    """Compare methods by their scores, data sets being the sample.

    Seeds are averaged first: they say how much a score varies, and are no further data sets.

    Parameters
    ----------
    results : DataFrame
        A row a fit, as `read_scores` returns, of one variant; a higher score is better. Resamples
        are averaged as seeds are.
    rope : float, default=0.01
        Region of practical equivalence: two scores no further apart are as good as equal.
    random_state : int, default=0
        Of the Bayesian test's draws.

    Returns
    -------
    Statistics

    Raises
    ------
    ValueError
        If a score is missing or twice there, if several variants are in it, or fewer than two
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
    _check(results)
    if not rope > 0:
        raise ValueError(f"rope must be a float > 0, as 0.01 for one point; got {rope!r}")
    groups = results.groupby(["dataset", "method"], sort=False)["score"]
    # Means over seeds that are equal on paper differ in the last bit: they are ties.
    scores = groups.mean().round(9).unstack("method")
    incomplete = scores.index[scores.isna().any(axis=1)].tolist()
    scores = scores.drop(index=incomplete)
    if len(scores) < 2 or scores.shape[1] < 2:
        raise ValueError(
            "a comparison needs two methods and two data sets with scores of all of them; got "
            f"{scores.shape[1]} methods and {len(scores)} such data sets"
            + (f" (incomplete: {', '.join(map(str, incomplete[:10]))})" if incomplete else "")
        )
    by_rank = scores.rank(axis=1, ascending=False)
    ranks = by_rank.mean().sort_values(kind="stable")
    scores = scores[ranks.index]
    spreads = groups.std().unstack("method").loc[scores.index, scores.columns]
    pairs = pd.DataFrame(
        _pair(scores, better, worse, rope, random_state)
        for better, worse in itertools.combinations(scores.columns, 2)
    )
    pairs.insert(list(pairs).index("p") + 1, "p_holm", holm(pairs["p"].to_numpy()))
    return Statistics(scores, spreads, ranks, _friedman(scores), pairs, rope, incomplete)


def holm(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return p-values corrected for their number, by Holm's step-down method."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    corrected = np.empty_like(stepped)
    corrected[order] = stepped
    return corrected


def _check(results: pd.DataFrame) -> None:
    for name in _COLUMNS:
        if name not in results.columns:
            raise ValueError(unknown("column of the results", name, results.columns))
    if not np.isfinite(results["score"]).all():
        row = results[~np.isfinite(results["score"])].iloc[0]
        raise ValueError(
            f"the score of {row['method']!r} on {row['dataset']!r}, seed {row['seed']}, is "
            f"{row['score']}; leave the row out if that fit failed"
        )
    parts = variants(results)
    if len(parts) > 1:
        raise ValueError(
            f"the results hold several variants, {', '.join(parts)}; compare each by itself, as "
            "tsformer.studies.scores.variants splits them"
        )
    twice = results.duplicated([*repeat_columns(results), "method"])
    if twice.any():
        row = results[twice].iloc[0]
        raise ValueError(
            f"two scores of {row['method']!r} on {row['dataset']!r} for seed {row['seed']}"
        )


def _friedman(scores: pd.DataFrame) -> float:
    from scipy.stats import friedmanchisquare

    if scores.shape[1] < 3 or (scores.nunique(axis=1) == 1).all():
        return float("nan") if scores.shape[1] < 3 else 1.0
    return float(friedmanchisquare(*scores.to_numpy().T).pvalue)


def _pair(
    scores: pd.DataFrame, better: str, worse: str, rope: float, random_state: int
) -> dict[str, object]:
    baycomp = require("baycomp", extra="statistics", purpose="the Bayesian signed-rank test")
    first, second = scores[better].to_numpy(), scores[worse].to_numpy()
    apart = (first - second).round(9)  # nor do equal differences differ
    p_better, p_same, p_worse = baycomp.SignedRankTest.probs(
        first, second, rope, nsamples=_DRAWS, random_state=random_state
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
