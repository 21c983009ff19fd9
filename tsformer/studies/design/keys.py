"""What the fits of a study share: which parameters may be given, and the hash of them all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tsformer._names import unknown
from tsformer.estimators.classifier import TSTransformerClassifier

__all__ = [
    "changes_nothing",
    "check_parameters",
    "configuration",
    "configuration_hash",
    "digest",
]

# What the cells or the comparison set themselves.
_NOT_SHARED = (
    "callbacks",
    "checkpoint_dir",
    "checkpoint_minutes",
    "encoding",
    "random_state",
    "resume",
    "verbose",
    "warm_start",
)
# What may be given and changes no result.
_HARMLESS = ("n_jobs",)
# The parameters of the first studies, always part of the hash: a changed default makes new fits.
# Each younger one is part of it only where it differs from its default, so that fits from before
# it keep their keys.
_FIRST = (
    *("batch_size", "class_weight", "compile", "d_ff", "d_model", "device", "dropout"),
    *("early_stopping", "encoding_params", "label_smoothing", "learning_rate", "max_epochs"),
    *("n_heads", "n_iter_no_change", "n_layers", "norm_first", "pooling", "precision", "scaling"),
    *("stem", "stem_params", "timestamps", "validation_fraction", "weight_decay"),
)
# When the default was 16, fits were what "auto" makes of all but very long series; these keep their
# keys. Of very long ones a 16 that is asked for is something else, and gets keys of its own.
_BATCH_SIZE = {"auto": 16, 16: "16"}


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise for a parameter that the fits of a study cannot share.

    Raises
    ------
    ValueError
        For an unknown name, with the nearest match, or a value that is not allowed.
    TypeError
        For a value of the wrong type, or one that has no JSON form and hence no stable hash.
    """
    allowed = [name for name in TSTransformerClassifier().get_params() if name not in _NOT_SHARED]
    for name, value in parameters.items():
        if name in _NOT_SHARED:
            raise ValueError(
                f"{name!r} cannot be a parameter of a study: the comparison sets it for every fit"
            )
        if name not in allowed:
            raise ValueError(unknown("parameter of TSTransformerClassifier", name, allowed))
        try:
            json.dumps(value)
        except TypeError as error:
            raise TypeError(
                f"parameters of a study are kept as JSON; {name}={value!r} cannot be ({error})"
            ) from error
    # Now rather than in every fit.
    TSTransformerClassifier(**parameters)._check_parameters()


def configuration(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters that can change a fit, the estimator's defaults included."""
    everything = TSTransformerClassifier(**parameters).get_params()
    left_out = (*_NOT_SHARED, *_HARMLESS)
    return {name: value for name, value in everything.items() if name not in left_out}


def configuration_hash(parameters: Mapping[str, Any]) -> str:
    """Return eight hex digits of the configuration."""
    defaults = TSTransformerClassifier().get_params()
    counted = {
        name: value
        for name, value in configuration(parameters).items()
        if name in _FIRST or value != defaults[name]
    }
    counted["batch_size"] = _BATCH_SIZE.get(counted["batch_size"], counted["batch_size"])
    return digest(counted)


def changes_nothing(name: str) -> bool:
    """Whether a parameter may be given but changes no result."""
    return name in _HARMLESS


def digest(value: Any) -> str:
    """Return eight hex digits of a value that has a JSON form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
