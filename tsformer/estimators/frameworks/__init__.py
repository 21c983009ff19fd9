"""Adapters of the classifiers to sktime and aeon, each imported on first use."""

from importlib import import_module
from typing import Any

__all__ = [
    "AeonRandomConvolutionClassifier",
    "AeonTSEnsembleClassifier",
    "AeonTSTransformerClassifier",
    "SktimeRandomConvolutionClassifier",
    "SktimeTSEnsembleClassifier",
    "SktimeTSTransformerClassifier",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    framework = "aeon" if name.startswith("Aeon") else "sktime"
    return getattr(import_module(f"{__name__}.{framework}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
