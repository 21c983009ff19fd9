"""Fitting within a time limit: estimates of training time, and a deadline."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import ceil, inf, log2
from time import perf_counter

import torch
from sklearn.base import clone

from tsformer.estimators.base import TrainingJob
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.random_convolution import FEWEST, RandomConvolutionClassifier
from tsformer.estimators.recipe import AUGMENTATION_TRIAL, SCALING_TRIAL, is_auto
from tsformer.training import Callback, TrainingState, train
from tsformer.training.step import Loss

#: Smallest share of its epochs for which a model is trained.
LEAST_SHARE = 0.1
#: The share of the features of random convolutions that is always fitted.
LEAST_FEATURES = 1 / 32
#: Upper bound on the factor of time for twice the features: the ridge classifier is cubic.
_LONGER_BY = 8
#: Number of MiniRocket features that take as long as a group of Hydra.
_GROUP = 300
#: Largest number of timed optimizer steps, and number in a first quick estimate.
_STEPS, _FIRST_STEPS = 20, 3
#: Epochs of one step until its replay from a CUDA graph: three plain steps, capture, replay.
_EPOCHS_CAPTURED = 5


def epoch_seconds(job: TrainingJob, loss: Loss, *, at_most: float) -> float:
    """Measure the seconds of an epoch by training a copy of the first model."""
    n_steps = ceil(len(job.panel) / job.plans[0].batch_size)
    first = _step_seconds(job, loss, _FIRST_STEPS)
    if min(_STEPS, n_steps) * first > at_most:
        return n_steps * first
    return n_steps * _step_seconds(job, loss, _STEPS, at_most=at_most)


def _step_seconds(job: TrainingJob, loss: Loss, n_steps: int, at_most: float = inf) -> float:
    """Return the seconds per step of the fastest short epoch."""
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
        callbacks=[Deadline(perf_counter() + at_most)],
    )
    if history.interrupted:
        raise KeyboardInterrupt
    return min(row["seconds"] for row in history) / ceil(n_series / plan.batch_size)


def what_fits(
    seconds: float, *, epoch_seconds: float, n_epochs: int, n_members: int, n_jobs: int = 1
) -> tuple[int, int] | None:
    """Return the number of members and epochs that fit into `seconds`, or None."""
    rounds = int(seconds / (epoch_seconds * (n_epochs + 1)))
    if rounds >= 1:
        return min(n_members, rounds * n_jobs), n_epochs
    epochs = int(seconds / epoch_seconds) - 1
    return (1, epochs) if epochs >= max(LEAST_SHARE * n_epochs, 1) else None


def larger_share(share: float, seconds_left: float, *, seconds: float) -> float | None:
    """Return the next share of the features of random convolutions, or None."""
    if share == 1:
        return None
    doublings = round(-log2(share))
    if seconds * _LONGER_BY**doublings <= seconds_left:
        return 1.0
    return 2 * share if seconds * _LONGER_BY <= seconds_left else None


class GrowingConvolutions:
    """Random convolutions with as many features as the time allows."""

    part: RandomConvolutionClassifier

    def __init__(
        self,
        convolutions: RandomConvolutionClassifier,
        fit: Callable[[RandomConvolutionClassifier], None],
        seconds: dict[str, float],
    ):
        self._convolutions = convolutions
        self._fit = fit
        self._share = 0.0
        self._least: tuple[float, RandomConvolutionClassifier] | None = None
        self.seconds = seconds

    def grow(self, end: float) -> None:
        """Fit with more and more features until `end`, by `time.perf_counter`."""
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
        """Estimate the seconds for a transformer's scaling and augmentation."""
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
            if measured and is_auto(getattr(transformer, name))
        ]
        return seconds * sum(costs) / done

    def _larger(self, end: float) -> float | None:
        seconds = self.seconds["random_convolutions"]
        return larger_share(self._share, end - perf_counter(), seconds=seconds)


def _cost(n_series: int, n_features: int, n_groups: int) -> float:
    """Return the cost of random convolutions, in computed features."""
    return n_series * (n_features + _GROUP * n_groups)


class Deadline(Callback):
    """Stops training before a point in time."""

    stateless = True

    def __init__(self, at: float, run_seconds: float | None = None):
        self.at = at
        self.run_seconds = run_seconds

    def on_train_begin(self, state: TrainingState) -> None:
        if self.run_seconds is not None:  # no run with less than half of its time
            state.stop = perf_counter() + self.run_seconds / 2 > self.at

    def on_epoch_end(self, state: TrainingState) -> None:
        # The forward pass for batch norms takes half an epoch.
        if perf_counter() + 1.5 * state.history[-1]["seconds"] > self.at:
            state.stop = True
