"""What the MLflow run of a study shows of all its fits: ranks, pairs, every fit."""

from __future__ import annotations

import pandas as pd

from tsformer.studies.analysis.analyse import Findings
from tsformer.studies.analysis.plots import plot_boxes, plot_critical_difference, plot_pairs
from tsformer.studies.analysis.statistics import Statistics
from tsformer.tracking import TrackedRun

__all__ = ["log_findings"]


def log_findings(findings: list[Findings], run: TrackedRun) -> None:
    """Log box plots of all fits and, where methods could be compared, their statistics.

    Parameters
    ----------
    findings : list of Findings
        As `tsformer.studies.analysis.analyse` returns them. Each labelled variant gets a folder
        named by its label.
    run : TrackedRun
        The study's own run, which gets ``boxes.png``, ``ranks.csv``, ``pairs.csv``,
        ``critical_difference.png`` and ``pairs.png``.
    """
    for each in findings:
        folder = f"{each.label}/" if each.label else ""
        fits = each.rows.rename(columns={"method": "encoding", "score": "accuracy"})
        run.figure(lambda fits=fits: plot_boxes(fits), f"{folder}boxes.png")  # type: ignore[misc]
        if each.statistics is not None:
            _log(each.statistics, folder, run)


def _log(found: Statistics, folder: str, run: TrackedRun) -> None:
    ranks = pd.DataFrame({"mean_rank": found.ranks, "mean_score": found.scores.mean()})
    run.text(ranks.to_csv(index_label="encoding", lineterminator="\n"), f"{folder}ranks.csv")
    run.text(found.pairs.to_csv(index=False, lineterminator="\n"), f"{folder}pairs.csv")
    run.figure(lambda: plot_critical_difference(found), f"{folder}critical_difference.png")
    run.figure(lambda: plot_pairs(found), f"{folder}pairs.png")
