"""Base class of the adapters of the classifiers to sktime and aeon."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator

from tsformer._checks import check_arguments, check_new_values
from tsformer.data.layout import check_ids, refuse_recording
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.ensemble import TSEnsembleClassifier
from tsformer.estimators.members import is_fitted
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
#: Parameters of small models for the frameworks' checks, which call `fit` hundreds of times.
_TEST_PARAMS: dict[Any, list[dict[str, Any]]] = {
    TSTransformerClassifier: [_SMALL, {**_LINEAR, "encoding": "tape+erpe"}],
    RandomConvolutionClassifier: [_FEW, {**_FEW, "n_groups": 0, "scaling": "channel"}],
    TSEnsembleClassifier: [
        {"quality": quality, "transformer_params": _LINEAR, "convolution_params": _FEW}
        for quality in ("fast", "good")
    ],
}


class FrameworkClassifier:
    """Base class of the adapters, which delegate to a scikit-learn classifier.

    ``class Adapter(FrameworkClassifier, delegate=Classifier)`` has the constructor of `Classifier`.
    Among the bases it must precede the framework's base class.
    """

    _delegate: ClassVar[type[Any]]
    _test_params: ClassVar[list[dict[str, Any]]]

    classifier_: Any
    init_from: Any

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
        cls._delegate, cls._test_params = delegate, _TEST_PARAMS[delegate]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; a fitted source of weights stays fitted in sktime's clones."""
        if "init_from" in vars(self):
            self.init_from = _frozen(self.init_from)
        params = vars(self).get("transformer_params")
        if isinstance(params, Mapping) and "init_from" in params:  # `fit` rejects other types
            source = _frozen(params["init_from"])
            if source is not params["init_from"]:
                self.transformer_params = {**params, "init_from": source}
        return super().get_params(deep=deep)  # type: ignore[misc]

    def set_params(self, **params: Any) -> Self:
        """Set parameters; raise ValueError with the nearest match of an unknown name."""
        check_new_values(self, params)
        super().set_params(**params)  # type: ignore[misc]
        return self

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameter sets for the frameworks' checks; ignores `parameter_set`."""
        return [dict(parameters) for parameters in cls._test_params]

    _get_test_params = get_test_params  # of aeon

    def fit(self, X: Any, y: Any) -> Self:
        """Fit, as in the framework; raise ValueError for other ids of `y`, and for a recording."""
        check_ids(X, y, "y")  # before the framework drops them
        refuse_recording(X, y)
        super().fit(X, y)  # type: ignore[misc]
        return self

    def _fit(self, X: Any, y: Any) -> Self:
        parameters = self.get_params(deep=False)
        if parameters.get("warm_start"):  # both frameworks reset an estimator before `fit`
            raise ValueError(
                "warm_start=True needs a fit that is kept: use TSTransformerClassifier"
            )
        self.classifier_ = self._delegate(**parameters).fit(X, y)
        return self

    def _predict(self, X: Any) -> npt.NDArray[Any]:
        return self.classifier_.predict(X)

    def _predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        return self.classifier_.predict_proba(X)


def _frozen(source: Any) -> Any:
    """Freeze a fitted estimator, so that sktime's clones stay fitted."""
    if is_fitted(source) and not isinstance(source, FrozenEstimator):
        return FrozenEstimator(source)
    return source
