"""Each estimator, small, and series that it fits in a moment."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
    TSTransformerRegressor,
)
from tsformer.training import Callback

#: The choice of a scaling by the data takes as long as the rest of such a fit.
NETWORK: dict[str, Any] = {
    **{"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "scaling": "channel"}
}
SMALL = NETWORK | {"random_state": 0}
KERNELS = {"n_features": 168, "n_groups": 2, "scaling": "series"}


def classifier(encoding: Any = "lspe", **options: Any) -> TSTransformerClassifier:
    return TSTransformerClassifier(encoding, **SMALL | options)


def regressor(encoding: Any = "lspe", **options: Any) -> TSTransformerRegressor:
    return TSTransformerRegressor(encoding, **SMALL | {"head_norm": None} | options)


def encoder(encoding: Any = "lspe", **options: Any) -> TSTransformerEncoder:
    return TSTransformerEncoder(encoding, **SMALL | options)


def convolutions(**options: Any) -> RandomConvolutionClassifier:
    return RandomConvolutionClassifier(**KERNELS | {"random_state": 0} | options)


def ensemble(
    quality: str = "fast", transformer: Any = (), convolution: Any = (), **options: Any
) -> TSEnsembleClassifier:
    return TSEnsembleClassifier(
        quality,
        transformer_params=NETWORK | dict(transformer),
        convolution_params=KERNELS | dict(convolution),
        **{"random_state": 0, "gate": 0} | options,  # the series are easy for random convolutions
    )


#: The five classes, small.
FIVE: dict[str, Callable[..., Any]] = {
    "classifier": classifier,
    "regressor": regressor,
    "encoder": encoder,
    "convolutions": convolutions,
    "ensemble": ensemble,
}
#: The same with members and another objective.
MAKERS: dict[str, Callable[..., Any]] = {
    "classifier": partial(classifier, "tape+erpe", n_estimators=2),
    "regressor": regressor,
    "encoder": partial(encoder, objective="contrastive", n_estimators=2, stem="linear"),
    "convolutions": convolutions,
    "ensemble": partial(ensemble, "good", {"stem": "linear"}),
}
METHODS = ("predict", "predict_proba", "decision_function", "transform", "predict_proba_members")

RNG = np.random.default_rng(0)
Y = np.arange(16) % 2
X = RNG.normal(size=(16, 2, 24)) + 2 * Y[:, None, None] * np.sin(np.arange(24))
#: Unequal lengths and gaps, with times.
RAGGED = [x[:, :n].copy() for x, n in zip(X, RNG.integers(14, 25, size=16), strict=True)]
for _x in RAGGED[::3]:
    _x[0, 5:8] = np.nan
TIMES = [RNG.uniform(0.5, 2.0, size=x.shape[1]).cumsum() for x in RAGGED]
WEIGHTS = RNG.uniform(0.5, 2.0, size=16)


def answers(estimator: Any, series: Any = X, **times: Any) -> dict[str, Any]:
    """Return the results of all methods that read series."""
    results = {
        method: getattr(estimator, method)(series, **times)
        for method in METHODS
        if hasattr(estimator, method)
    }
    if hasattr(estimator, "predict_proba_parts"):
        results |= estimator.predict_proba_parts(series, **times)
    return results


def assert_same(results: dict[str, Any], expected: dict[str, Any], **tolerance: float) -> None:
    assert results.keys() == expected.keys()
    for method, value in expected.items():
        assert results[method].dtype == value.dtype
        if method == "predict" and value.dtype.kind != "f":
            continue  # follows from the probabilities, unless these are equal
        np.testing.assert_allclose(
            results[method], value, **{"rtol": 0, "atol": 0} | tolerance, err_msg=method
        )


class Raises(Callback):
    """Raises at the end of an epoch, or with epoch 0 before the first."""

    def __init__(self, error: BaseException, epoch: int = 1):
        self.error, self.epoch = error, epoch

    def on_train_begin(self, state: Any) -> None:
        if self.epoch == 0:
            raise self.error

    def on_epoch_end(self, state: Any) -> None:
        if state.epoch == self.epoch:
            raise self.error
