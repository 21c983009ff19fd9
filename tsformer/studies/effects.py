"""Deprecated: moved to `tsformer.studies.analysis.effects`."""

from tsformer._deprecation import renamed_in_module

__getattr__ = renamed_in_module(
    __name__,
    {
        "COVARIATES": "tsformer.studies.analysis.effects.COVARIATES",
        "costs": "tsformer.studies.analysis.effects.costs",
        "effects": "tsformer.studies.analysis.effects.effects",
        "gains": "tsformer.studies.analysis.effects.gains",
        "mean_gains": "tsformer.studies.analysis.effects.mean_gains",
    },
)
