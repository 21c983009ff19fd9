"""Deprecated: moved to `tsformer.studies.analysis.scores`."""

from tsformer._deprecation import renamed_in_module

__getattr__ = renamed_in_module(
    __name__,
    {
        "StudyScores": "tsformer.studies.analysis.scores.StudyScores",
        "complete": "tsformer.studies.analysis.scores.complete",
        "labels": "tsformer.studies.analysis.scores.labels",
        "read_scores": "tsformer.studies.analysis.scores.read_scores",
        "read_study": "tsformer.studies.analysis.scores.read_study",
        "variants": "tsformer.studies.analysis.scores.split_variants",
    },
)
