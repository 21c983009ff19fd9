"""Training within a limit of time: what fits into it, and a callback that keeps it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import ceil, inf, log2
from time import perf_counter

import torch
from sklearn.base import clone

from tsformer.estimators.base import TrainingJob
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.label_preservation import TRIAL as AUGMENTATION_TRIAL
from tsformer.estimators.random_convolution import FEWEST, RandomConvolutionClassifier
from tsformer.estimators.scaling_choice import TRIAL as SCALING_TRIAL
from tsformer.training import Callback, TrainingState, train
from tsformer.training.step import Loss

__all__ = [
    "LEAST_FEATURES",
    "LEAST_SHARE",
    "Deadline",
    "GrowingConvolutions",
    "epoch_seconds",
    "larger_share",
    "what_fits",
]

#: A model trained for a smaller share of its epochs than this would spoil an average.
LEAST_SHARE = 0.1
#: The share of the features of random convolutions that is fitted whatever it takes.
LEAST_FEATURES = 1 / 32
#: Twice the features take at most this many times as long: the ridge classifier's time grows with
#: the cube of the features where there are more series than these, otherwise more slowly.
_LONGER_BY = 8
#: A group of Hydra takes as long as so many features of MiniRocket.
_GROUP = 300
#: Optimizer steps that are measured: an epoch, or that part of a long one; and those that tell
#: whether there is time for so many.
_STEPS, _FIRST_STEPS = 20, 3
#: Epochs until a step of which there is one in each is replayed from a CUDA graph: three plain
#: ones, its capture, and this one.
_EPOCHS_CAPTURED = 5


def epoch_seconds(job: TrainingJob, loss: Loss, *, at_most: float) -> float:
    """Measure the seconds of an epoch of the first model, by training a copy of it.

    The copy is trained for twice three optimizer steps and then, if there is time, for 20, or for
    an epoch if that has fewer, on series spread evenly over the data. If there is time this is done
    again and the quicker one counts, as the first also allocates memory; where steps are captured
    in CUDA graphs, as often as it takes to capture them.
    """
    n_steps = ceil(len(job.panel) / job.plans[0].batch_size)
    first = _step_seconds(job, loss, _FIRST_STEPS)
    if min(_STEPS, n_steps) * first > at_most:
        return n_steps * first
    return n_steps * _step_seconds(job, loss, _STEPS, at_most=at_most)


def _step_seconds(job: TrainingJob, loss: Loss, n_steps: int, at_most: float = inf) -> float:
    """Return the seconds of a step in the quickest of a few short epochs, or in one that is long.

    These have `n_steps`, or what the data are enough for.
    """
    panel, plan = job.panel, job.plans[0]
    n_series = min(n_steps * plan.batch_size, len(panel))
    rows = torch.linspace(0, len(panel) - 1, n_series, dtype=torch.float64).round().long()
    history = train(
        deepcopy(job.models[0]),
        panel.part(rows),
        job.targets[rows],
        loss,
        replace(
            plan,
            n_epochs=_EPOCHS_CAPTURED if plan.graphed else 2,
            n_iter_no_change=None,
            checkpoint_dir=None,
            resume=False,
        ),
        weights=None if job.weights is None else job.weights[rows],
        callbacks=[_AsLongAsThereIsTime(at_most)],
    )
    if history.interrupted:
        raise KeyboardInterrupt
    return min(row["seconds"] for row in history) / ceil(n_series / plan.batch_size)


class _AsLongAsThereIsTime(Callback):
    """Ends training after an epoch if with another like it all take more than `at_most` seconds."""

    def __init__(self, at_most: float):
        self.at_most = at_most

    def on_epoch_end(self, state: TrainingState) -> None:
        seconds = [row["seconds"] for row in state.history]
        state.stop = sum(seconds) + seconds[-1] > self.at_most


def what_fits(
    seconds: float, *, epoch_seconds: float, n_epochs: int, n_members: int, n_jobs: int = 1
) -> tuple[int, int] | None:
    """Choose how many members, and how many epochs of each, can be trained in `seconds`.

    As many members as fit, at most `n_members`, each for all of its `n_epochs`; if not even one
    does, one for fewer epochs. After its epochs a model goes through the data once more, for the
    averages of its batch norms: that is counted as an epoch.

    Examples
    --------
    >>> what_fits(50.0, epoch_seconds=0.1, n_epochs=199, n_members=4)
    (2, 199)
    >>> what_fits(5.0, epoch_seconds=0.1, n_epochs=199, n_members=4)
    (1, 49)
    >>> what_fits(1.0, epoch_seconds=0.1, n_epochs=199, n_members=4) is None
    True
    """
    rounds = int(seconds / (epoch_seconds * (n_epochs + 1)))
    if rounds >= 1:
        return min(n_members, rounds * n_jobs), n_epochs
    epochs = int(seconds / epoch_seconds) - 1
    return (1, epochs) if epochs >= max(LEAST_SHARE * n_epochs, 1) else None


def larger_share(share: float, seconds_left: float, *, seconds: float) -> float | None:
    """Choose the share of the features of random convolutions to be fitted next.

    All of them where even the cube of their number leaves time for that, otherwise twice as many.

    Examples
    --------
    >>> larger_share(1 / 4, 100.0, seconds=1.0)
    1.0
    >>> larger_share(1 / 4, 10.0, seconds=1.0)
    0.5
    >>> larger_share(1 / 4, 7.0, seconds=1.0) is None
    True
    """
    if share == 1:
        return None
    doublings = round(-log2(share))
    if seconds * _LONGER_BY**doublings <= seconds_left:
        return 1.0
    return 2 * share if seconds * _LONGER_BY <= seconds_left else None


class GrowingConvolutions:
    """Random convolutions with as many features as there is time for."""

    part: RandomConvolutionClassifier

    def __init__(
        self,
        convolutions: RandomConvolutionClassifier,
        fit: Callable[[RandomConvolutionClassifier], None],
    ):
        self._convolutions = convolutions
        self._fit = fit
        self._share = 0.0
        self._least: tuple[float, RandomConvolutionClassifier] | None = None
        self.seconds: dict[str, float] = {}

    def grow(self, end: float) -> None:
        """Fit with more and more features, as long as that will be done by a point in time.

        The first fit is made in any case: with all features if there is no limit, otherwise with a
        32nd of them. `end` is by `time.perf_counter`, infinite without a limit.
        """
        share = (1.0 if end == inf else LEAST_FEATURES) if not self._share else self._larger(end)
        while share is not None:
            part = clone(self._convolutions)
            if share < 1:
                part.set_params(**part._share_of_features(share))
            start = perf_counter()
            self._fit(part)
            seconds = perf_counter() - start
            if self._share:
                smaller = self.seconds["random_convolutions"]
                self.seconds["measuring"] = self.seconds.get("measuring", 0.0) + smaller
            self.seconds["random_convolutions"] = seconds
            self._least = self._least or (seconds, part)
            self.part, self._share = part, share
            share = self._larger(end)

    def choice_seconds(self, n_series: int, transformer: TSTransformerClassifier) -> float:
        """Estimate the seconds of a transformer's choices from the first fit."""
        assert self._least is not None
        seconds, part = self._least
        done = _cost(n_series, part.n_features, part.n_groups)
        if part.scaling == "auto":  # its trials have the fewest features
            done += 2 * _cost(n_series, *FEWEST)
        measured = transformer.stem == "conv"
        choices = {"scaling": SCALING_TRIAL, "augmentation": AUGMENTATION_TRIAL}
        costs = [
            2 * _cost(min(n_series, most), n_features, n_groups)
            for name, (most, n_features, n_groups) in choices.items()
            if measured and isinstance(asked := getattr(transformer, name), str) and asked == "auto"
        ]
        return seconds * sum(costs) / done

    def _larger(self, end: float) -> float | None:
        seconds = self.seconds["random_convolutions"]
        return larger_share(self._share, end - perf_counter(), seconds=seconds)


def _cost(n_series: int, n_features: int, n_groups: int) -> float:
    """Return the cost of random convolutions, in features of a series."""
    return n_series * (n_features + _GROUP * n_groups)


class Deadline(Callback):
    """Ends training so that a point in time is kept.

    A run is ended after an epoch if another one would not be done in time, and not even begun if
    less is left than half of it takes.
    """

    stateless = True

    def __init__(self, at: float, run_seconds: float):
        self.at = at
        self.run_seconds = run_seconds

    def on_train_begin(self, state: TrainingState) -> None:
        state.stop = perf_counter() + self.run_seconds / 2 > self.at

    def on_epoch_end(self, state: TrainingState) -> None:
        # Half an epoch more for the averages of the batch norms, a forward pass.
        if perf_counter() + 1.5 * state.history[-1]["seconds"] > self.at:
            state.stop = True
