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

__all__ = [
    "EarlyClassifier",
    "ModelConfig",
    "RandomConvolutionClassifier",
    "TSEnsembleClassifier",
    "TSTransformer",
    "TSTransformerClassifier",
    "TSTransformerEncoder",
    "TSTransformerRegressor",
    "autolog",
    "load",
    "load_dataset",
]

if TYPE_CHECKING:
    from tsformer.data import load_dataset
    from tsformer.estimators.classifier import TSTransformerClassifier
    from tsformer.estimators.early import EarlyClassifier
    from tsformer.estimators.encoder import TSTransformerEncoder
    from tsformer.estimators.ensemble import TSEnsembleClassifier
    from tsformer.estimators.random_convolution import RandomConvolutionClassifier
    from tsformer.estimators.regressor import TSTransformerRegressor
    from tsformer.estimators.saving import load
    from tsformer.model.transformer import ModelConfig, TSTransformer
    from tsformer.tracking.autologging import autolog


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:  # `import tsformer` alone suffices for tsformer.data.from_long
        return import_module(f"tsformer.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tsformer' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *__all__, *_SUBPACKAGES})
