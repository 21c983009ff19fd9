"""Adapters of the classifiers to sktime and aeon, each imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> the module that holds it and imports the framework, resolved on first use.
_PUBLIC = {
    "AeonRandomConvolutionClassifier": "tsformer.estimators.frameworks.aeon",
    "AeonTSEnsembleClassifier": "tsformer.estimators.frameworks.aeon",
    "AeonTSTransformerClassifier": "tsformer.estimators.frameworks.aeon",
    "SktimeRandomConvolutionClassifier": "tsformer.estimators.frameworks.sktime",
    "SktimeTSEnsembleClassifier": "tsformer.estimators.frameworks.sktime",
    "SktimeTSTransformerClassifier": "tsformer.estimators.frameworks.sktime",
}

__all__ = [
    "AeonRandomConvolutionClassifier",
    "AeonTSEnsembleClassifier",
    "AeonTSTransformerClassifier",
    "SktimeRandomConvolutionClassifier",
    "SktimeTSEnsembleClassifier",
    "SktimeTSTransformerClassifier",
]

if TYPE_CHECKING:
    from tsformer.estimators.frameworks.aeon import (
        AeonRandomConvolutionClassifier,
        AeonTSEnsembleClassifier,
        AeonTSTransformerClassifier,
    )
    from tsformer.estimators.frameworks.sktime import (
        SktimeRandomConvolutionClassifier,
        SktimeTSEnsembleClassifier,
        SktimeTSTransformerClassifier,
    )


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tsformer.estimators.frameworks' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
