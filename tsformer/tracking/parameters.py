"""Name, encoding and flat parameters of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.tracking.tracker import encoding_name

_NOT_LOGGED = ("callbacks", "verbose")


def encoding_of(estimator: Any) -> str:
    """Return the name of the encoding, or ""."""
    own = estimator.get_params(deep=False)
    if "transformer_params" in own:
        given = own["transformer_params"]
        own = TSTransformerClassifier().get_params(deep=False)
        own |= given if isinstance(given, Mapping) else {}
    return encoding_name(own["encoding"]) if "encoding" in own else ""


def name_of(estimator: Any) -> str:
    """Return the name of a run: the encoding, or else the class."""
    return encoding_of(estimator) or type(estimator).__name__


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters; entries of a dict are named ``outer.inner``."""
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
