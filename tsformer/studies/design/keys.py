"""The configuration that fits of a study share: allowed parameters, and their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tsformer._names import unknown
from tsformer.estimators.base import CONV_PARAMS
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.parameters import check_parameters as check_estimator_parameters

__all__ = [
    "changes_nothing",
    "check_parameters",
    "configuration",
    "configuration_hash",
    "digest",
]

# Set by the trials or the comparison.
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
# May be given and does not affect results.
_HARMLESS = ("n_jobs",)
# The parameters of the first studies, always part of the hash: a changed default leads to new fits.
# A parameter added later is part of it only where it differs from what fits were before there was
# the choice, so that they keep their keys.
_FIRST = (
    *("batch_size", "class_weight", "compile", "d_ff", "d_model", "device", "dropout"),
    *("early_stopping", "encoding_params", "label_smoothing", "learning_rate", "max_epochs"),
    *("n_heads", "n_iter_no_change", "n_layers", "norm_first", "pooling", "precision", "scaling"),
    *("stem", "stem_params", "timestamps", "validation_fraction", "weight_decay"),
)
_BEFORE: dict[str, Any] = {
    "augmentation": None,
    "augmentation_params": None,
    "freeze": None,
    "head_norm": None,
    "init_from": None,
    "members": "alike",
    "n_epochs_frozen": 0,
    "n_estimators": 1,
    "pretrained_lr_scale": 1.0,
    "temperature": 1.0,
    "unlabelled": None,
    "view_params": None,
    "views": "values",
}
# The same for the options of the conv stem that are among the defaults now.
_CONV_BEFORE: dict[str, Any] = {"n_residual": 0, "downsampling": "stride"}
# When the default was 16, fits were what "auto" now gives for all but very long series; they keep
# their keys. For very long series an explicit 16 is different, and gets keys of its own.
_BATCH_SIZE = {"auto": 16, 16: "16"}


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise for parameters that the fits of a study cannot share.

    Raises
    ------
    ValueError
        For an unknown name, with the nearest match, or an invalid value.
    TypeError
        For a value of the wrong type, or one without a JSON form and hence without a stable
        hash.
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
                f"parameters of a study are stored as JSON; {name}={value!r} cannot be ({error})"
            ) from error
    # Fail now rather than in every fit.
    check_estimator_parameters(TSTransformerClassifier(**parameters).get_params(deep=False))


def configuration(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters that can affect a fit, including the estimator's defaults."""
    everything = TSTransformerClassifier(**parameters).get_params()
    left_out = (*_NOT_SHARED, *_HARMLESS)
    return {name: value for name, value in everything.items() if name not in left_out}


def configuration_hash(parameters: Mapping[str, Any]) -> str:
    """Return a hash of the configuration, eight hex digits."""
    counted = {
        name: value
        for name, value in configuration(parameters).items()
        if name in _FIRST or value != _BEFORE[name]
    }
    counted["batch_size"] = _BATCH_SIZE.get(counted["batch_size"], counted["batch_size"])
    if counted["compile"] == "auto":
        counted["compile"] = False  # the default before there was the choice, and the same recipe
    if counted["stem"] != "conv" and counted["scaling"] == "auto":
        counted["scaling"] = "channel"  # which it then is
    if counted["stem"] == "conv":
        given = dict(counted["stem_params"] or {})
        for name, now in CONV_PARAMS.items():
            value = given.get(name, now)
            if value != _CONV_BEFORE[name]:
                counted[name] = value
            else:
                given.pop(name)
                counted["stem_params"] = given or None
    return digest(counted)


def changes_nothing(name: str) -> bool:
    """Return whether a parameter may be given but does not affect results."""
    return name in _HARMLESS


def digest(value: Any) -> str:
    """Return a hash of a value that has a JSON form, eight hex digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
