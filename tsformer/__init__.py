"""tsformer: time-series classification with transformers and a choice of positional encodings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tsformer._version import __version__ as __version__

# Public name -> its module, imported on first use, so that `import tsformer` is cheap.
_PUBLIC = {
    "EarlyClassifier": "tsformer.estimators.early",
    "RandomConvolutionClassifier": "tsformer.estimators.random_convolution",
    "TSEnsembleClassifier": "tsformer.estimators.ensemble",
    "TSTransformerClassifier": "tsformer.estimators.classifier",
    "TSTransformerEncoder": "tsformer.estimators.encoder",
    "TSTransformerRegressor": "tsformer.estimators.regressor",
    "TSTransformer": "tsformer.model.transformer",
    "ModelConfig": "tsformer.model.transformer",
    "autolog": "tsformer.tracking.autologging",
    "load": "tsformer.estimators.saving",
    "load_dataset": "tsformer.data",
}

_SUBPACKAGES = (
    *("augmentation", "data", "encodings", "estimators", "explain", "export", "inspection"),
    *("model", "objectives", "plots", "studies", "tracking", "training"),
)

__all__ = sorted(_PUBLIC)

if TYPE_CHECKING:
    from tsformer.data import load_dataset as load_dataset
    from tsformer.estimators.classifier import TSTransformerClassifier as TSTransformerClassifier
    from tsformer.estimators.early import EarlyClassifier as EarlyClassifier
    from tsformer.estimators.encoder import TSTransformerEncoder as TSTransformerEncoder
    from tsformer.estimators.ensemble import TSEnsembleClassifier as TSEnsembleClassifier
    from tsformer.estimators.random_convolution import (
        RandomConvolutionClassifier as RandomConvolutionClassifier,
    )
    from tsformer.estimators.regressor import TSTransformerRegressor as TSTransformerRegressor
    from tsformer.estimators.saving import load as load
    from tsformer.model.transformer import ModelConfig as ModelConfig
    from tsformer.model.transformer import TSTransformer as TSTransformer
    from tsformer.tracking.autologging import autolog as autolog


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:  # `import tsformer` alone suffices for tsformer.data.from_long
        return import_module(f"tsformer.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tsformer' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    dunders = (name for name in globals() if name.startswith("__"))
    return sorted({*dunders, *__all__, *_SUBPACKAGES})
