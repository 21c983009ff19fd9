"""From the scores of a study to its findings, one variant at a time."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tsformer._names import unknown
from tsformer.studies.analysis.effects import costs, effects, gains, mean_gains
from tsformer.studies.analysis.scores import StudyScores, VariantScores, variant_scores
from tsformer.studies.analysis.statistics import Statistics, compare_methods

__all__ = ["Findings", "analyse", "default_baseline"]


@dataclass(frozen=True)
class Findings:
    """What was found in one variant of a study.

    Attributes
    ----------
    label : str
        The variant, as in ``"stem=linear"``; empty if the study varied nothing.
    rows : DataFrame
        All its fits.
    used : DataFrame
        The fits that were compared: of a study run here, those of draws that every method has.
    statistics : Statistics or None
        None without two methods and two data sets with scores of all methods.
    gains, mean_gains, effects : DataFrame or None
        As `tsformer.studies.analysis.effects` makes them; None without statistics or a baseline.
    costs : DataFrame or None
        As `tsformer.studies.analysis.effects.costs` makes it; None without statistics.
    obstacle : str
        Why there are no statistics; empty if there are.
    """

    label: str
    rows: pd.DataFrame
    used: pd.DataFrame
    statistics: Statistics | None = None
    gains: pd.DataFrame | None = None
    mean_gains: pd.DataFrame | None = None
    effects: pd.DataFrame | None = None
    costs: pd.DataFrame | None = None
    obstacle: str = ""

    @property
    def left_out(self) -> list[str]:
        """Data sets that lack some method's score, in their order."""
        compared = [] if self.statistics is None else list(self.statistics.scores.index)
        return [name for name in self.rows["dataset"].unique() if name not in compared]


def default_baseline(study: StudyScores) -> str | None:
    """Return ``"none"`` if the study has that method; else None, and gains are not computed."""
    return "none" if "none" in study.rows["method"].unique() else None


def analyse(
    study: StudyScores, *, baseline: str | None = None, rope: float = 0.01
) -> list[Findings]:
    """Compute statistics, gains and costs of a study.

    The report, the study's run in MLflow and ``tsformer statistics`` all show what this returns.

    Parameters
    ----------
    study : StudyScores
        As `tsformer.studies.analysis.scores.read_study` returns.
    baseline : str, optional
        The method over which gains are computed.
    rope : float, default=0.01
        Region of practical equivalence: scores no further apart count as equal.

    Returns
    -------
    list of Findings
        One per variant.

    Raises
    ------
    ValueError
        If there is no method `baseline`, a score is missing or duplicated, or `rope` is not
        positive.
    ImportError
        If the extra `statistics` is missing.
    """
    methods = study.rows["method"].unique()
    if baseline is not None and baseline not in methods:
        raise ValueError(unknown("method", baseline, methods))
    return [_analyse_variant(variant, baseline, rope) for variant in variant_scores(study)]


def _analyse_variant(variant: VariantScores, baseline: str | None, rope: float) -> Findings:
    label, rows, used = variant.label, variant.rows, variant.used
    n_methods = rows["method"].nunique()
    n_datasets = int((used.groupby("dataset")["method"].nunique() == n_methods).sum())
    if n_methods < 2 or n_datasets < 2:
        return Findings(
            label,
            rows,
            used,
            obstacle="a comparison needs two methods and two data sets with scores of all "
            f"methods; got {n_methods} methods and {n_datasets} such data sets",
        )
    statistics = compare_methods(used, rope=rope)
    cost = costs(used, statistics)
    if baseline is None or baseline not in statistics.scores.columns:
        return Findings(label, rows, used, statistics, costs=cost)
    table = gains(statistics, baseline)
    return Findings(label, rows, used, statistics, table, mean_gains(table), effects(table), cost)
