"""Classifiers to compare with, by name or by the dotted path of their class.

A short list of names stands for well-kept implementations elsewhere; any class that follows
scikit-learn's contract can be named by its path. Whatever it reads, it is given the same series.
"""

from tsformer.baselines.reader import PanelClassifier, UnreadableSeries
from tsformer.baselines.resolve import BASELINES, Baseline, find, import_encodings, load_class

__all__ = [
    "BASELINES",
    "Baseline",
    "PanelClassifier",
    "UnreadableSeries",
    "find",
    "import_encodings",
    "load_class",
]
