"""Figures of encodings, training, predictions and explanations; `docs/guide/pictures.md` has all.

Each function returns a matplotlib Figure made without pyplot: no global state, no window.
``figure.savefig("x.png")`` writes it. Figures of one panel accept ``ax=``, figures of
several accept ``axes=``. Matplotlib is imported by the first call. The figures of a study are in
`tsformer.studies`.
"""

from tsformer.plots.diagnostics import (
    plot_confusion,
    plot_history,
    plot_learning_curves,
    plot_recording,
    plot_reliability,
)
from tsformer.plots.encodings import plot_encoding, plot_encoding_change
from tsformer.plots.explanations import plot_attention, plot_class_relevance, plot_relevance
from tsformer.plots.figures import ENCODING_COLORS, encoding_color, encoding_colors

__all__ = [
    "ENCODING_COLORS",
    "encoding_color",
    "encoding_colors",
    "plot_attention",
    "plot_class_relevance",
    "plot_confusion",
    "plot_encoding",
    "plot_encoding_change",
    "plot_history",
    "plot_learning_curves",
    "plot_recording",
    "plot_relevance",
    "plot_reliability",
]
