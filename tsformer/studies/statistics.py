"""Deprecated: moved to `tsformer.studies.analysis.statistics`."""

from tsformer._deprecation import renamed_in_module

__getattr__ = renamed_in_module(
    __name__,
    {
        "Statistics": "tsformer.studies.analysis.statistics.Statistics",
        "compare_methods": "tsformer.studies.analysis.statistics.compare_methods",
        "holm": "tsformer.studies.analysis.statistics.holm",
        "read_scores": "tsformer.studies.analysis.scores.read_scores",
    },
)
