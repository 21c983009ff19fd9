"""EarlyStopping: which epoch is best, and when waiting ends."""

from __future__ import annotations

import math

import pytest
import torch

from tsformer.training.run import EarlyStopping


def stopped_at(stopping: EarlyStopping, losses: list[float]) -> int | None:
    """Return the epoch after which it stops, counted on from `start`."""
    for epoch, loss in enumerate(losses, start=stopping.start + 1):
        stopping.update(epoch, loss, {"weight": torch.tensor(float(epoch))})
        if stopping.should_stop(epoch):
            return epoch
    return None


@pytest.mark.parametrize(
    ("losses", "patience", "best", "end"),
    [
        ([3.0, 2.0, 1.0, 0.5], 1, 4, None),
        ([3.0, 1.0, 2.0, 2.0, 2.0], 2, 2, 4),
        ([3.0, 1.0, 2.0, 0.5, 2.0, 2.0], 2, 4, 6),
        ([1.0, 1.0, 1.0], 2, 1, 3),  # an equal loss is no improvement
        ([1.0, 2.0], 2, 1, None),
    ],
)
def test_best_epoch_and_end(losses, patience, best, end):
    stopping = EarlyStopping(patience)
    assert stopped_at(stopping, losses) == end
    assert stopping.best_epoch == best
    assert stopping.best_loss == min(losses)
    assert stopping.best_weights == {"weight": torch.tensor(float(best))}


def test_epochs_of_an_earlier_run_do_not_count():
    stopping = EarlyStopping(2, start=10)
    assert stopped_at(stopping, [1.0, 2.0, 3.0]) == 13
    assert stopping.best_epoch == 11


def test_nan_is_never_best_and_is_waited_for_from_the_start():
    stopping = EarlyStopping(2, start=5)
    assert stopped_at(stopping, [math.nan] * 5) == 7
    assert stopping.best_epoch is None
    assert stopping.best_weights is None
    stopping = EarlyStopping(2)
    assert stopped_at(stopping, [math.nan, 1.0, math.nan]) is None
    assert stopping.best_epoch == 2


def test_without_patience_it_does_nothing():
    stopping = EarlyStopping(None)
    assert stopped_at(stopping, [1.0] + [2.0] * 50) is None
    assert stopping == EarlyStopping(None)
