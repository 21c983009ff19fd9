"""All that is computed of a study's scores, a variant at a time."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tsformer._names import unknown
from tsformer.studies.effects import costs, effects, gains, mean_gains
from tsformer.studies.scores import StudyScores, complete, variants
from tsformer.studies.statistics import Statistics, compare_methods

__all__ = ["Findings", "find"]


@dataclass(frozen=True)
class Findings:
    """What came of one variant of a study.

    Attributes
    ----------
    label : str
        The variant, as ``"stem=linear"``; empty if the study varied nothing.
    rows : DataFrame
        All its fits.
    used : DataFrame
        The fits that were compared: of a study here those of seeds that every method has.
    statistics : Statistics or None
        None if there are not yet two methods and two data sets with scores of all methods.
    gains, mean_gains, effects : DataFrame or None
        As `tsformer.studies.effects` makes them; None without statistics or without a baseline.
    costs : DataFrame or None
        As `tsformer.studies.effects.costs` makes it; None without statistics.
    """

    label: str
    rows: pd.DataFrame
    used: pd.DataFrame
    statistics: Statistics | None = None
    gains: pd.DataFrame | None = None
    mean_gains: pd.DataFrame | None = None
    effects: pd.DataFrame | None = None
    costs: pd.DataFrame | None = None

    @property
    def left_out(self) -> list[str]:
        """Data sets that lack some method's score, in their order."""
        compared = [] if self.statistics is None else list(self.statistics.scores.index)
        return [name for name in self.rows["dataset"].unique() if name not in compared]


def find(study: StudyScores, *, baseline: str | None = None, rope: float = 0.01) -> list[Findings]:
    """Compute everything of a study.

    Parameters
    ----------
    study : StudyScores
        As `tsformer.studies.scores.read_study` returns.
    baseline : str, optional
        The method to gain over.
    rope : float, default=0.01
        Two scores no further apart are as good as equal.

    Returns
    -------
    list of Findings
        One a variant.

    Raises
    ------
    ValueError
        If there is no method `baseline`, a score is missing or twice there, or `rope` is not
        above 0.
    """
    methods = study.rows["method"].unique()
    if baseline is not None and baseline not in methods:
        raise ValueError(unknown("method", baseline, methods))
    return [
        _find_variant(label, rows, study.ours, baseline, rope)
        for label, rows in variants(study.rows).items()
    ]


def _find_variant(
    label: str, rows: pd.DataFrame, paired: bool, baseline: str | None, rope: float
) -> Findings:
    used = complete(rows) if paired else rows
    methods = used.groupby("dataset")["method"].nunique()
    n_methods = rows["method"].nunique()
    if n_methods < 2 or (methods == n_methods).sum() < 2:
        return Findings(label, rows, used)
    statistics = compare_methods(used, rope=rope)
    cost = costs(used, statistics)
    if baseline is None or baseline not in statistics.scores.columns:
        return Findings(label, rows, used, statistics, costs=cost)
    table = gains(statistics, baseline)
    return Findings(label, rows, used, statistics, table, mean_gains(table), effects(table), cost)
