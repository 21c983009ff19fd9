"""Gains of methods over a baseline, and costs of methods."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._names import unknown
from tsformer.studies.analysis.statistics import Statistics

#: Column of a cost -> its name in tables and figures, in their order.
COSTS = {
    "fit_seconds": "seconds per fit",
    "predict_seconds": "seconds to predict",
    "n_parameters": "parameters",
    "peak_memory_mb": "peak memory of fitting (MB)",
    "predict_memory_mb": "peak memory of predicting (MB)",
}
#: Costs without a Pareto front: a process keeps memory of earlier fits.
_WITHOUT_FRONT = ("peak_memory_mb", "predict_memory_mb")
#: Draws of the bootstrap.
_DRAWS = 9999
#: With fewer data sets the bootstrap interval is far too narrow.
FEWEST_RESAMPLED = 5


def gains(statistics: Statistics, baseline: str = "none") -> pd.DataFrame:
    """Return each method's gain over a baseline on each data set."""
    if baseline not in statistics.scores.columns:
        raise ValueError(unknown("method", baseline, statistics.scores.columns))
    apart = statistics.scores.drop(columns=baseline).sub(statistics.scores[baseline], axis=0)
    table = apart.rename_axis(index="dataset", columns="method").reset_index()
    return table.melt(id_vars="dataset", var_name="method", value_name="gain")


def mean_gains(table: pd.DataFrame, *, random_state: int = 0) -> pd.DataFrame:
    """Return the mean gain of each method, with a 95 % bootstrap interval over data sets."""
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
        means = medians.dropna(how="all").dropna(axis=1).mean(axis=1)
        if means.isna().all():  # no data set has the cost of all methods
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
