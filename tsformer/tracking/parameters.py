"""What is said of an estimator: its encoding, and its parameters by flat names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.tracking.tracker import encoding_name

__all__ = ["encoding_of", "name_of", "parameters_of"]

#: Parameters that do not describe what is learned; they are of the running program.
_NOT_LOGGED = ("callbacks", "verbose")


def encoding_of(estimator: Any) -> str:
    """Return the name of the encoding of an estimator, "" if it has none."""
    own = estimator.get_params(deep=False)
    if "transformer_params" in own:
        given = own["transformer_params"]
        own = TSTransformerClassifier().get_params(deep=False)
        own |= given if isinstance(given, Mapping) else {}
    return encoding_name(own["encoding"]) if "encoding" in own else ""


def name_of(estimator: Any) -> str:
    """Return what a run of an estimator is called: its encoding, or else its class."""
    return encoding_of(estimator) or type(estimator).__name__


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator; those in a dict are named ``outer.inner``."""
    encoding = encoding_of(estimator)
    flat: dict[str, Any] = {"estimator": type(estimator).__name__}
    flat |= {"encoding": encoding} if encoding else {}
    for name, value in estimator.get_params(deep=False).items():
        if name in _NOT_LOGGED or name in flat:
            continue
        if isinstance(value, Mapping) and value:
            flat |= {f"{name}.{inner}": own for inner, own in value.items()}
        else:
            flat[name] = value
    return flat
