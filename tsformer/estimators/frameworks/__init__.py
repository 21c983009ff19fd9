"""Adapters of the classifier to sktime and aeon, each imported on first use."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.parameters import ClassifierParameters

# Public name -> the module that holds it and imports the framework, resolved on first use.
_PUBLIC = {
    "AeonTSTransformerClassifier": "tsformer.estimators.frameworks.aeon",
    "SktimeTSTransformerClassifier": "tsformer.estimators.frameworks.sktime",
}

__all__ = ["AeonTSTransformerClassifier", "SktimeTSTransformerClassifier"]

if TYPE_CHECKING:
    from tsformer.estimators.frameworks.aeon import AeonTSTransformerClassifier
    from tsformer.estimators.frameworks.sktime import SktimeTSTransformerClassifier


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


class FrameworkClassifier(ClassifierParameters):
    """Base of the adapters: each delegates to a `TSTransformerClassifier`.

    In the bases of a class it must precede the framework's own base, whose hooks it implements.
    """

    classifier_: TSTransformerClassifier
    get_params: Callable[..., dict[str, Any]]

    def _fit(self, X: Any, y: Any) -> Self:
        if self.warm_start:  # both frameworks reset an estimator at the start of its `fit`
            raise ValueError(
                f"warm_start=True continues from the previous fit, but {type(self).__name__} is "
                "reset at the start of each fit; use TSTransformerClassifier instead"
            )
        self.classifier_ = TSTransformerClassifier(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: Any) -> npt.NDArray[Any]:
        return self.classifier_.predict(X)

    def _predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        return self.classifier_.predict_proba(X)
