"""Which encoding helps: encodings x data sets x seeds, tracked, resumable, compared."""

from tsformer.studies.comparison import Comparison, compare
from tsformer.studies.progress import Progress
from tsformer.studies.report import summary_table
from tsformer.studies.statistics import Statistics, compare_methods, read_scores
from tsformer.studies.study import Cell, Study

__all__ = [
    "Cell",
    "Comparison",
    "Progress",
    "Statistics",
    "Study",
    "compare",
    "compare_methods",
    "read_scores",
    "summary_table",
]
