"""Deprecated: moved to `tsformer.studies.run.problem`; runs of 0.1 name it as their data source."""

from tsformer._deprecation import renamed_in_module

__getattr__ = renamed_in_module(
    __name__,
    {
        "Problem": "tsformer.studies.run.problem.Problem",
    },
)
