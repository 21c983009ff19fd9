"""From the scores of a study to findings, gains and costs, one variant at a time."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, unknown
from tsformer._warnings import warn_caller
from tsformer.studies.analysis.scores import (
    COSTS,
    StudyScores,
    VariantScores,
    variant_scores,
)
from tsformer.studies.analysis.statistics import Statistics, check_scores, compare_methods

#: Costs without a Pareto front: a process keeps memory of earlier fits.
_WITHOUT_FRONT = ("peak_memory_mb", "predict_memory_mb")
#: With fewer data sets a standard deviation is a guess.
FEWEST_FOR_INTERVAL = 3
#: Memory of a process that differs by less than this share is noise.
_NOISE = 0.1


def gains(statistics: Statistics, baseline: str = "none") -> pd.DataFrame:
    """Return each method's gain over a baseline on each data set."""
    check_known("method", baseline, statistics.scores.columns)
    apart = statistics.scores.drop(columns=baseline).sub(statistics.scores[baseline], axis=0)
    table = apart.rename_axis(index="dataset", columns="method").reset_index()
    return table.melt(id_vars="dataset", var_name="method", value_name="gain")


def mean_gains(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean gain of each method, with a 95 % t interval over data sets."""
    from scipy.stats import t

    wide = table.pivot(index="dataset", columns="method", values="gain")
    wide = wide[table["method"].unique()]
    n = len(wide)
    half = t.ppf(0.975, max(n - 1, 1)) * wide.std().round(9).to_numpy() / np.sqrt(n)
    # Equal gains on all data sets are chance: they show no certainty.
    half = np.where((half > 0) & (n >= FEWEST_FOR_INTERVAL), half, np.nan)
    gain = wide.mean().to_numpy()
    return pd.DataFrame(
        {
            "method": wide.columns,
            "gain": gain,
            "low": gain - half,
            "high": gain + half,
            "datasets": n,
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
        if cost in _WITHOUT_FRONT and means.max() <= (1 + _NOISE) * means.min():
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


@dataclass(frozen=True)
class Findings:
    """Statistics, gains and costs of one variant of a study."""

    label: str
    rows: pd.DataFrame
    used: pd.DataFrame
    statistics: Statistics | None = None
    gains: pd.DataFrame | None = None
    mean_gains: pd.DataFrame | None = None
    costs: pd.DataFrame | None = None
    obstacle: str = ""

    @property
    def left_out(self) -> list[str]:
        """Data sets that lack some method's score, in their order."""
        if self.statistics is not None:
            compared = list(self.statistics.scores.index)
        else:
            compared = list(self.used["dataset"].unique()) if self.on_one_data_set else []
        return [name for name in self.rows["dataset"].unique() if name not in compared]

    @property
    def on_one_data_set(self) -> bool:
        """Whether all scores are of one data set, which allows no statistics."""
        if self.statistics is not None:
            return False
        return self.used["dataset"].nunique() == 1 and self.used["method"].nunique() > 1


def default_baseline(study: StudyScores) -> str | None:
    """Return ``"none"``, else ``"tsformer"``, if the study has that method; else None: no gains."""
    methods = study.rows["method"].unique()
    return next((name for name in ("none", "tsformer") if name in methods), None)


def analyse(
    study: StudyScores, *, baseline: str | None = None, rope: float = 0.01
) -> list[Findings]:
    """Compute statistics, gains and costs of a study."""
    methods = list(study.rows["method"].unique())
    if baseline is not None and baseline not in methods:
        raise ValueError(unknown("method", baseline, methods))
    highest = study.rows["score"].max()
    if (rope < 0.1 and 1 < highest <= 100) or (rope >= 0.5 and highest <= 1):
        kind, share = ("percentages", 100 * rope) if highest > 1 else ("shares", 0.01)
        warn_caller(
            f"scores within rope={rope:g} count as equal, and the highest is {highest:g}: if "
            f"scores are {kind}, pass rope={share:g}"
        )
    return [_analyse_variant(variant, baseline, rope) for variant in variant_scores(study)]


def _analyse_variant(variant: VariantScores, baseline: str | None, rope: float) -> Findings:
    rows, used = variant.rows, variant.used
    check_scores(used)
    found = Findings(variant.label, rows, used)
    n_methods = rows["method"].nunique()
    counts = used.groupby("dataset")["method"].nunique()
    n_common = int((counts == n_methods).sum())
    if n_methods < 2 or n_common < 2:
        return replace(
            found,
            obstacle="a comparison needs two methods and two data sets with scores of all "
            f"methods; got {n_methods} methods and {n_common} such data sets",
        )
    statistics = compare_methods(used, rope=rope)
    found = replace(found, statistics=statistics, costs=costs(used, statistics))
    if baseline is None or baseline not in statistics.scores.columns:
        return found
    table = gains(statistics, baseline)
    return replace(found, gains=table, mean_gains=mean_gains(table))
