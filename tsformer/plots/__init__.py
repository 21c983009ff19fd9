"""Pictures, each a matplotlib Figure made without pyplot: no global state, no window.

``figure.savefig("x.png")`` writes it. Matplotlib is imported by the first call.
"""

from tsformer.plots.effects import plot_cost, plot_gains, plot_mean_gains
from tsformer.plots.encodings import plot_encoding, plot_encoding_change
from tsformer.plots.figures import ENCODING_COLORS, encoding_color
from tsformer.plots.results import plot_comparison, plot_confusion, plot_history
from tsformer.plots.statistics import plot_chances, plot_critical_difference, plot_pairs

__all__ = [
    "ENCODING_COLORS",
    "encoding_color",
    "plot_chances",
    "plot_comparison",
    "plot_confusion",
    "plot_cost",
    "plot_critical_difference",
    "plot_encoding",
    "plot_encoding_change",
    "plot_gains",
    "plot_history",
    "plot_mean_gains",
    "plot_pairs",
]
