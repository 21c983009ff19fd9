"""Deprecated: moved to `tsformer.studies.run.resample`."""

from tsformer._deprecation import renamed_in_module

__getattr__ = renamed_in_module(
    __name__,
    {
        "stratified_resample": "tsformer.studies.run.resample.stratified_resample",
    },
)
