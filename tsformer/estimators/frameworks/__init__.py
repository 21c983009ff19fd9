"""Adapters of the classifiers to sktime and aeon, each imported on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator

from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.ensemble import EnsembleParameters, TSEnsembleClassifier
from tsformer.estimators.parameters import ClassifierParameters
from tsformer.estimators.pretrained import is_fitted
from tsformer.estimators.random_convolution import (
    RandomConvolutionClassifier,
    RandomConvolutionParameters,
)

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


#: Tags with the same name and value in both frameworks.
TAGS: dict[str, Any] = {
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "python_dependencies": ["torch>=2.9"],
}

#: Parameter sets for the frameworks' own checks, which call `fit` hundreds of times.
TEST_PARAMS: list[dict[str, Any]] = [
    {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2},
    {"encoding": "tape+erpe", "stem": "linear", "d_model": 8, "n_heads": 2, "max_epochs": 2},
]


#: The same for random convolutions.
CONVOLUTION_TEST_PARAMS: list[dict[str, Any]] = [
    {"n_features": 168, "n_groups": 2},
    {"n_features": 168, "n_groups": 0, "scaling": "channel"},
]

#: The same for ensembles.
ENSEMBLE_TEST_PARAMS: list[dict[str, Any]] = [
    {
        "quality": quality,
        "transformer_params": {**TEST_PARAMS[0], "stem": "linear"},
        "convolution_params": CONVOLUTION_TEST_PARAMS[0],
    }
    for quality in ("fast", "good")
]


class FrameworkClassifier:
    """Base of the adapters: each delegates to a classifier of scikit-learn's kind.

    In the bases of a class it must precede the framework's own base, whose hooks it implements.
    """

    #: The classifier, with the constructor of the adapter.
    _delegate: ClassVar[type[Any]]

    classifier_: Any
    get_params: Callable[..., dict[str, Any]]

    def _fit(self, X: Any, y: Any) -> Self:
        self.classifier_ = self._delegate(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: Any) -> npt.NDArray[Any]:
        predicted: npt.NDArray[Any] = self.classifier_.predict(X)
        return predicted

    def _predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        proba: npt.NDArray[np.float64] = self.classifier_.predict_proba(X)
        return proba


class FrameworkTransformer(ClassifierParameters, FrameworkClassifier):
    """Base of the adapters of `TSTransformerClassifier`."""

    _delegate = TSTransformerClassifier
    classifier_: TSTransformerClassifier

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        self.init_from = _frozen(self.init_from)
        return super().get_params(deep=deep)

    def _fit(self, X: Any, y: Any) -> Self:
        if self.warm_start:  # both frameworks reset an estimator at the start of its `fit`
            raise ValueError(
                f"warm_start=True continues from the previous fit, but {type(self).__name__} is "
                "reset at the start of each fit; use TSTransformerClassifier instead"
            )
        return super()._fit(X, y)


class FrameworkConvolutions(RandomConvolutionParameters, FrameworkClassifier):
    """Base of the adapters of `RandomConvolutionClassifier`."""

    _delegate = RandomConvolutionClassifier
    classifier_: RandomConvolutionClassifier


class FrameworkEnsemble(EnsembleParameters, FrameworkClassifier):
    """Base of the adapters of `TSEnsembleClassifier`."""

    _delegate = TSEnsembleClassifier
    classifier_: TSEnsembleClassifier

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        given = self.transformer_params
        if isinstance(given, Mapping):  # anything else is refused by `fit`
            source = given.get("init_from")
            if _frozen(source) is not source:
                self.transformer_params = {**given, "init_from": _frozen(source)}
        return super().get_params(deep=deep)


def _frozen(source: Any) -> Any:
    """Return a fitted estimator as one that stays fitted in clones; anything else as it is.

    Called where parameters are read, as each clone does: sktime clones what is inside its
    compositions by their parameters alone, and asks no estimator how it would like to be cloned,
    so a fitted one would come out without its weights.
    """
    if is_fitted(source) and not isinstance(source, FrozenEstimator):
        return FrozenEstimator(source)
    return source
