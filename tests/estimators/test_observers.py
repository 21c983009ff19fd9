"""Observers hear of every fit once, and see how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tsformer import RandomConvolutionClassifier, TSEnsembleClassifier, TSTransformerClassifier
from tsformer.estimators.observers import Fit, add_observer, remove_observer
from tsformer.training import Callback, TrainingState

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    """What an observer has seen: each fit, and how its block ended."""
    found: list[Any] = []

    @contextmanager
    def observer(fit: Fit) -> Iterator[None]:
        found.append(fit)
        try:
            yield
        except BaseException as error:
            found.append(error)
            raise
        found.append("done")

    add_observer(observer)
    add_observer(observer)  # the second time changes nothing
    yield found
    remove_observer(observer)
    remove_observer(observer)


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(12, 1, 20))
    return X, np.arange(12) % 2


def test_a_fit_is_seen_once_with_its_data(seen: list[Any], problem: tuple[Any, Any]) -> None:
    X, y = problem
    classifier = TSTransformerClassifier(**SMALL).fit(X, y, X_val=X[:4], y_val=y[:4])
    fit, end = seen
    assert fit.estimator is classifier
    assert fit.X is X
    assert fit.data["y_val"].tolist() == y[:4].tolist()
    assert fit.data["times"] is None
    assert end == "done"
    assert not fit.interrupted


def test_the_parts_of_an_ensemble_are_not_seen_apart(
    seen: list[Any], problem: tuple[Any, Any]
) -> None:
    ensemble = TSEnsembleClassifier(
        "fast",
        transformer_params=SMALL,
        convolution_params={"n_features": 168, "n_groups": 2},
    ).fit(*problem)
    assert [seen[0].estimator, *seen[1:]] == [ensemble, "done"]
    RandomConvolutionClassifier(n_features=168, n_groups=2).fit(*problem)
    assert len(seen) == 4


def test_copies_that_calibrate_are_not_seen(seen: list[Any], problem: tuple[Any, Any]) -> None:
    TSTransformerClassifier(**SMALL).fit(*problem).calibrate(*problem, cv=2)
    assert len(seen) == 2


class At(Callback):
    def __init__(self, error: BaseException | None = None):
        self.error = error
        self.epochs = 0

    def on_epoch_end(self, state: TrainingState) -> None:
        self.epochs += 1
        if self.error is not None:
            raise self.error


def test_a_failure_and_ctrl_c_are_seen(seen: list[Any], problem: tuple[Any, Any]) -> None:
    error = RuntimeError("no more")
    with pytest.raises(RuntimeError):
        TSTransformerClassifier(**SMALL, callbacks=[At(error)]).fit(*problem)
    assert seen[1] is error
    with pytest.warns(UserWarning, match="interrupted"):
        TSTransformerClassifier(**SMALL, callbacks=[At(KeyboardInterrupt())]).fit(*problem)
    assert seen[3] == "done"
    assert seen[2].interrupted
    small = {**SMALL, "callbacks": [At(KeyboardInterrupt())]}
    convolutions = {"n_features": 168, "n_groups": 2}
    with pytest.warns(UserWarning, match="interrupted"):
        TSEnsembleClassifier("fast", transformer_params=small, convolution_params=convolutions).fit(
            *problem
        )
    assert seen[4].interrupted


@pytest.mark.parametrize("kind", [TSTransformerClassifier, TSEnsembleClassifier])
def test_callbacks_of_observers_are_called(problem: tuple[Any, Any], kind: Any) -> None:
    counter = At()

    @contextmanager
    def observer(fit: Fit) -> Iterator[None]:
        fit.callbacks.append(counter)
        yield

    add_observer(observer)
    try:
        if kind is TSTransformerClassifier:
            classifier: Any = kind(**SMALL, n_estimators=2)
        else:
            convolutions = {"n_features": 168, "n_groups": 2}
            classifier = kind("good", transformer_params=SMALL, convolution_params=convolutions)
        classifier.fit(*problem)
    finally:
        remove_observer(observer)
    assert counter.epochs == 4
