"""Observers hear of every fit once, and see how it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from small_estimators import X, Y, classifier, convolutions, ensemble

from tsformer.estimators.series import Fit, add_observer, remove_observer


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    """Each observed fit, and the end of its block."""
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


def test_a_fit_is_seen_once_with_its_data(seen: list[Any]) -> None:
    fitted = classifier().fit(X, Y, X_val=X[:4], y_val=Y[:4])
    fit, end = seen
    assert fit.estimator is fitted
    assert fit.X is X
    assert fit.data["y_val"].tolist() == Y[:4].tolist()
    assert fit.data["times"] is None
    assert end == "done"
    assert not fit.interrupted


def test_the_parts_of_an_ensemble_are_not_seen_apart(seen: list[Any]) -> None:
    fitted = ensemble().fit(X, Y)
    assert [seen[0].estimator, *seen[1:]] == [fitted, "done"]
    convolutions().fit(X, Y)
    assert len(seen) == 4


def test_copies_that_calibrate_are_not_seen(seen: list[Any]) -> None:
    classifier().fit(X, Y).calibrate(X, Y, cv=2)
    assert len(seen) == 2
