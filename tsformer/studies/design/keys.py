"""The configuration that fits of a study share: allowed parameters, and their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tsformer._names import unknown
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.parameters import check_parameters as check_estimator_parameters

# Set by the trials or the comparison.
_NOT_SHARED = (
    *("callbacks", "checkpoint_dir", "checkpoint_minutes", "encoding"),
    *("random_state", "resume", "verbose", "warm_start"),
)
#: Allowed, without effect on results.
HARMLESS = ("n_jobs", "n_threads")


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise for parameters that the fits of a study cannot share."""
    allowed = [name for name in TSTransformerClassifier().get_params() if name not in _NOT_SHARED]
    for name in parameters:
        if name in _NOT_SHARED:
            raise ValueError(
                f"{name!r} cannot be a parameter of a study: the comparison sets it for every fit"
            )
        if name not in allowed:
            raise ValueError(unknown("parameter of TSTransformerClassifier", name, allowed))
    check_json("the study", parameters)
    # Fail now rather than in every fit.
    check_estimator_parameters(TSTransformerClassifier(**parameters))


def check_json(of: str, parameters: Mapping[str, Any]) -> None:
    """Raise TypeError for parameters that cannot be stored with a study."""
    for name, value in parameters.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"parameters of {of} are stored as JSON; {name}={value!r} cannot be ({error})"
            ) from error


def configuration(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters that can affect a fit, including the estimator's defaults."""
    everything = TSTransformerClassifier(**parameters).get_params()
    left_out = (*_NOT_SHARED, *HARMLESS)
    return {name: value for name, value in everything.items() if name not in left_out}


def configuration_hash(parameters: Mapping[str, Any]) -> str:
    """Return a hash of the configuration, eight hex digits."""
    counted = configuration(parameters)
    if counted["compile"] == "auto":
        counted["compile"] = False  # replayed graphs compute the same
    if counted["stem"] != "conv" and counted["scaling"] == "auto":
        counted["scaling"] = "channel"  # the meaning of "auto" there
    return digest(counted)


def digest(value: Any) -> str:
    """Return a hash of a value that has a JSON form, eight hex digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
