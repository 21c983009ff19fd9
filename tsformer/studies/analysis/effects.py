"""Gains of methods over a baseline, what they correlate with, and what methods cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._names import unknown
from tsformer.data import list_datasets
from tsformer.studies.analysis.statistics import Statistics, holm

__all__ = [
    "COSTS",
    "COVARIATES",
    "FEWEST_CORRELATED",
    "FEWEST_RESAMPLED",
    "costs",
    "effects",
    "gains",
    "mean_gains",
]

#: What a method costs, in the order of tables and figures: the column, and its name in words.
COSTS = {
    "fit_seconds": "seconds per fit",
    "predict_seconds": "seconds to predict",
    "n_parameters": "parameters",
    "peak_memory_mb": "peak memory of fitting (MB)",
    "predict_memory_mb": "peak memory of predicting (MB)",
}
#: Costs without a Pareto front: the memory of a whole process, which includes what earlier fits in
#: it left behind, would put methods on a front by the order in which they were fitted.
_WITHOUT_FRONT = ("peak_memory_mb", "predict_memory_mb")
#: What a gain may correlate with: the column of `gains`, and its name in words.
COVARIATES = {"length": "series length", "train_size": "training size"}
#: Draws of the permutation test and the bootstrap.
_DRAWS = 9999
#: With fewer data sets hardly an ordering of the gains is rare: of five data sets, one ordering in
#: sixty has a rank correlation of 1 or -1, which is not below .05 for more than three methods.
FEWEST_CORRELATED = 6
#: With fewer data sets a bootstrap interval is far too narrow: of four, each resample has the same
#: few values again, and the end points are little else than the extremes.
FEWEST_RESAMPLED = 5


def gains(statistics: Statistics, baseline: str = "none") -> pd.DataFrame:
    """Return each method's gain over a baseline on each data set, with the data set's sizes."""
    if baseline not in statistics.scores.columns:
        raise ValueError(unknown("method", baseline, statistics.scores.columns))
    apart = statistics.scores.drop(columns=baseline).sub(statistics.scores[baseline], axis=0)
    table = apart.rename_axis(index="dataset", columns="method").reset_index()
    table = table.melt(id_vars="dataset", var_name="method", value_name="gain")
    catalog = list_datasets().set_index("name")
    sizes = pd.DataFrame(
        {"length": catalog["length_max"], "train_size": catalog["train_size"]}
    ).astype(float)
    return table.join(sizes, on="dataset")


def mean_gains(table: pd.DataFrame, *, random_state: int = 0) -> pd.DataFrame:
    """Return the mean gain of each method with a bootstrap interval.

    The interval covers the middle 95 % of the means over data sets resampled with replacement,
    using the same draws for every method. It shows how far another choice of such data sets would
    move the mean; for few data sets it is too narrow, and for fewer than five there is none.

    Examples
    --------
    >>> table = pd.DataFrame({"dataset": list("ABCDE"), "gain": [0.1, 0.3, 0.1, 0.3, 0.2]})
    >>> table = table.assign(method="rope")
    >>> mean_gains(table).round(2).to_numpy().tolist()
    [['rope', 0.2, 0.12, 0.28, 5]]
    """
    wide = table.pivot(index="dataset", columns="method", values="gain")
    wide = wide[table["method"].unique()]
    rng = np.random.default_rng(random_state)
    drawn = rng.integers(len(wide), size=(_DRAWS, len(wide)))
    means = wide.to_numpy()[drawn].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    if len(wide) < FEWEST_RESAMPLED:
        low, high = np.nan, np.nan
    return pd.DataFrame(
        {
            "method": wide.columns,
            "gain": wide.mean().to_numpy(),
            "low": low,
            "high": high,
            "datasets": len(wide),
        }
    )


def effects(table: pd.DataFrame, *, random_state: int = 0) -> pd.DataFrame:
    """Return how strongly gains correlate with series length and with training size."""
    rows = []
    for covariate in COVARIATES:
        part = pd.DataFrame(
            _effect(table[table["method"] == method], covariate, method, random_state)
            for method in table["method"].unique()
        )
        known = part["p"].notna()
        part["p_holm"] = np.nan
        part.loc[known, "p_holm"] = holm(part.loc[known, "p"].to_numpy())
        rows.append(part)
    columns = ["covariate", "method", "rho", "p", "p_holm", "datasets"]
    return pd.concat(rows, ignore_index=True)[columns]


def _effect(
    rows: pd.DataFrame, covariate: str, method: str, random_state: int
) -> dict[str, object]:
    from scipy.stats import permutation_test

    rows = rows[rows[covariate].notna()]
    found = {
        "covariate": covariate,
        "method": method,
        "rho": np.nan,
        "p": np.nan,
        "datasets": len(rows),
    }
    # Means that are mathematically equal can differ in the last bit: they are ties.
    ranks = [rows[name].round(9).rank().to_numpy() for name in ("gain", covariate)]
    if len(rows) < FEWEST_CORRELATED or any(np.ptp(of) == 0 for of in ranks):
        return found
    gain, size = ((of - of.mean()) / (of.std() * np.sqrt(len(of))) for of in ranks)

    def rho(shuffled: npt.NDArray[np.float64], axis: int = -1) -> Any:
        return np.moveaxis(shuffled, axis, -1) @ size

    test = permutation_test(
        (gain,),
        rho,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=_DRAWS,
        rng=np.random.default_rng(random_state),
    )
    return found | {"rho": float(test.statistic), "p": float(test.pvalue)}


def costs(rows: pd.DataFrame, statistics: Statistics) -> pd.DataFrame:
    """Return the cost and score of each method over the data sets that all methods have."""
    rows = rows[rows["dataset"].isin(statistics.scores.index)]
    names = statistics.ranks.index
    table = pd.DataFrame(
        {
            "method": names,
            "score": statistics.scores.mean().to_numpy(),
            "rank": statistics.ranks.to_numpy(),
        }
    )
    for cost in COSTS:
        if cost not in rows.columns or rows[cost].isna().all():
            continue
        medians = rows.groupby(["method", "dataset"])[cost].median().unstack("dataset")
        # A mean over other data sets is of other costs.
        means = medians.dropna(how="all").dropna(axis=1).mean(axis=1)
        if means.isna().all():  # there is no such data set
            continue
        table[cost] = means.reindex(names).to_numpy(dtype=float)
        if cost not in _WITHOUT_FRONT:
            table[f"front_{cost}"] = _front(table[cost].to_numpy(), table["score"].to_numpy())
    return table


def _front(cost: npt.NDArray[np.float64], score: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    as_good = (cost[:, None] <= cost) & (score[:, None] >= score)
    better = (cost[:, None] < cost) | (score[:, None] > score)
    beaten: npt.NDArray[np.bool_] = np.any(as_good & better, axis=0)
    return ~beaten & ~np.isnan(cost)
