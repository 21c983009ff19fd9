"""What the run of a study shows of all its fits: ranks, which encodings differ, every fit."""

from __future__ import annotations

import pandas as pd

from tsformer.plots import plot_critical_difference, plot_pairs
from tsformer.plots.boxes import plot_boxes
from tsformer.studies.scores import complete, variants
from tsformer.studies.statistics import Statistics, compare_methods
from tsformer.tracking import TrackedRun

__all__ = ["log_statistics"]


def log_statistics(results: pd.DataFrame, run: TrackedRun) -> None:
    """Log box plots of all fits and, of two encodings and data sets or more, what differs.

    Where the study varied other parameters, each variant has pictures of its own: its label is the
    name of their folder.

    Parameters
    ----------
    results : DataFrame
        A row a fit.
    run : TrackedRun
        The study's own run, which gets ``boxes.png``, ``ranks.csv``, ``pairs.csv``,
        ``critical_difference.png`` and ``pairs.png``.

    Raises
    ------
    ImportError
        If the extra `statistics` is missing.
    """
    rows = results.rename(columns={"encoding": "method", "accuracy": "score"})
    for variant, part in variants(rows).items():
        folder = f"{variant}/" if variant else ""
        plain = part.rename(columns={"method": "encoding", "score": "accuracy"})
        run.figure(lambda plain=plain: plot_boxes(plain), f"{folder}boxes.png")  # type: ignore[misc]
        whole = complete(part)
        if whole["dataset"].nunique() > 1 and whole["method"].nunique() > 1:
            _log(compare_methods(whole), folder, run)


def _log(found: Statistics, folder: str, run: TrackedRun) -> None:
    ranks = pd.DataFrame({"mean_rank": found.ranks, "mean_score": found.scores.mean()})
    run.text(ranks.to_csv(index_label="encoding", lineterminator="\n"), f"{folder}ranks.csv")
    run.text(found.pairs.to_csv(index=False, lineterminator="\n"), f"{folder}pairs.csv")
    run.figure(lambda: plot_critical_difference(found), f"{folder}critical_difference.png")
    run.figure(lambda: plot_pairs(found), f"{folder}pairs.png")
