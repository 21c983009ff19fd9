"""Base classes of the adapters of the classifiers to sktime and aeon."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator

from tsformer._checks import check_arguments, check_new_values
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.ensemble import TSEnsembleClassifier
from tsformer.estimators.init_from import is_fitted
from tsformer.estimators.random_convolution import RandomConvolutionClassifier

#: Tags with the same name and value in both frameworks.
TAGS: dict[str, Any] = {
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "python_dependencies": ["torch>=2.9"],
}

_SMALL: dict[str, Any] = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
_LINEAR: dict[str, Any] = {**_SMALL, "stem": "linear"}
_FEW: dict[str, Any] = {"n_features": 168, "n_groups": 2}


class FrameworkClassifier:
    """Base class of the adapters, which delegate to a scikit-learn classifier.

    ``class Adapter(FrameworkClassifier, delegate=Classifier)`` has the constructor of `Classifier`.
    Among the bases it must precede the framework's base class.
    """

    _delegate: ClassVar[type[Any]]
    #: Parameters of small models for the frameworks' checks, which call `fit` hundreds of times.
    _test_params: ClassVar[list[dict[str, Any]]]

    classifier_: Any
    get_params: Callable[..., dict[str, Any]]

    def __init_subclass__(cls, *, delegate: type[Any] | None = None, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if delegate is None:
            return

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            check_arguments(type(self).__name__, __init__, args, kwargs)
            vars(self).update(delegate(*args, **kwargs).get_params(deep=False))
            super(cls, self).__init__()

        __init__.__signature__ = inspect.signature(delegate.__init__)  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[method-assign]
        cls._delegate = delegate

    def set_params(self, **params: Any) -> Self:
        """Set parameters; raise ValueError with the nearest match of an unknown name."""
        check_new_values(self, params)
        super().set_params(**params)  # type: ignore[misc]
        return self

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameter sets for sktime's checks; ignores `parameter_set`."""
        return [dict(parameters) for parameters in cls._test_params]

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameter sets for aeon's checks."""
        return cls.get_test_params()

    def _fit(self, X: Any, y: Any) -> Self:
        self.classifier_ = self._delegate(**self.get_params(deep=False)).fit(X, y)
        self.classes_ = self.classifier_.classes_
        self.n_classes_ = len(self.classes_)
        return self

    def _predict(self, X: Any) -> npt.NDArray[Any]:
        return self.classifier_.predict(X)

    def _predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        return self.classifier_.predict_proba(X)


class FrameworkTransformer(FrameworkClassifier, delegate=TSTransformerClassifier):
    """Base of the adapters of `TSTransformerClassifier`."""

    _test_params: ClassVar = [_SMALL, {**_LINEAR, "encoding": "tape+erpe"}]

    classifier_: TSTransformerClassifier
    init_from: Any
    warm_start: bool

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        self.init_from = _frozen(self.init_from)
        return super().get_params(deep=deep)

    def _fit(self, X: Any, y: Any) -> Self:
        if self.warm_start:  # both frameworks reset an estimator before `fit`
            raise ValueError(
                f"warm_start=True continues from the previous fit, but {type(self).__name__} is "
                "reset at the start of each fit; use TSTransformerClassifier instead"
            )
        return super()._fit(X, y)


class FrameworkConvolutions(FrameworkClassifier, delegate=RandomConvolutionClassifier):
    """Base of the adapters of `RandomConvolutionClassifier`."""

    _test_params: ClassVar = [_FEW, {**_FEW, "n_groups": 0, "scaling": "channel"}]

    classifier_: RandomConvolutionClassifier


class FrameworkEnsemble(FrameworkClassifier, delegate=TSEnsembleClassifier):
    """Base of the adapters of `TSEnsembleClassifier`."""

    _test_params: ClassVar = [
        {"quality": quality, "transformer_params": _LINEAR, "convolution_params": _FEW}
        for quality in ("fast", "good")
    ]

    classifier_: TSEnsembleClassifier
    transformer_params: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        given = self.transformer_params
        if isinstance(given, Mapping):  # `fit` rejects other types
            source = given.get("init_from")
            if _frozen(source) is not source:
                self.transformer_params = {**given, "init_from": _frozen(source)}
        return super().get_params(deep=deep)


def _frozen(source: Any) -> Any:
    """Freeze a fitted estimator, so that sktime's clones stay fitted."""
    if is_fitted(source) and not isinstance(source, FrozenEstimator):
        return FrozenEstimator(source)
    return source
