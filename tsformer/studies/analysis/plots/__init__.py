"""Figures of a study's scores and statistics, made without pyplot."""

from tsformer.studies.analysis.plots.effects import plot_cost, plot_mean_gains, plot_ranking
from tsformer.studies.analysis.plots.fits import plot_boxes, plot_comparison
from tsformer.studies.analysis.plots.statistics import (
    plot_critical_difference,
    plot_pairs,
)

__all__ = [
    "plot_boxes",
    "plot_comparison",
    "plot_cost",
    "plot_critical_difference",
    "plot_mean_gains",
    "plot_pairs",
    "plot_ranking",
]
