"""Which encoding helps: encodings × data sets × seeds, tracked, resumable, compared.

Packages: `design` (study and trials), `run` (fits), `analysis` (scores to findings), `report`.
"""

from tsformer.studies.analysis.plots import (
    plot_boxes,
    plot_comparison,
    plot_cost,
    plot_critical_difference,
    plot_mean_gains,
    plot_pairs,
    plot_ranking,
)
from tsformer.studies.analysis.statistics import Statistics, compare_methods
from tsformer.studies.analysis.study_scores import read_scores
from tsformer.studies.design.study import Study, Trial
from tsformer.studies.report.summary_table import summary_table
from tsformer.studies.run.compare import Comparison, compare, which_encoding
from tsformer.studies.run.events import Progress

__all__ = [
    "Comparison",
    "Progress",
    "Statistics",
    "Study",
    "Trial",
    "compare",
    "compare_methods",
    "plot_boxes",
    "plot_comparison",
    "plot_cost",
    "plot_critical_difference",
    "plot_mean_gains",
    "plot_pairs",
    "plot_ranking",
    "read_scores",
    "summary_table",
    "which_encoding",
]
