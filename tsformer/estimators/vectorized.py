"""Fit several estimators that differ only in their seed on the same data at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy.typing as npt

from tsformer.estimators.base import TransformerEstimator
from tsformer.training import train_ensemble
from tsformer.training.ensemble import one_at_a_time

__all__ = ["fit_vectorized", "trained_as_one"]

# Parameters in which the estimators may differ.
_OF_EACH = ("callbacks", "random_state")


def fit_vectorized(
    estimators: Sequence[TransformerEstimator],
    X: Any,
    y: Any,
    *,
    sample_weight: npt.ArrayLike | None = None,
) -> None:
    """Fit each estimator as its own `fit` would; on a GPU, train their models as one.

    Several seeds of one configuration then cost little more than a single seed. If there are fewer
    than 20, and steps are captured in CUDA graphs, they are trained one after another, which takes
    less time; and so they are if each holds out its own part of the data for early stopping.

    Parameters
    ----------
    estimators : sequence of estimators
        Of one class, with the same parameters except `random_state` and `callbacks`.
    X, y, sample_weight
        As for `fit`.

    Raises
    ------
    ValueError
        If `estimators` is empty, or they differ in any other parameter.
    tsformer.training.NonFiniteLossError
        If the loss of one is no longer finite; those before it are already fitted.

    Examples
    --------
    >>> from tsformer import TSTransformerClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> seeds = [TSTransformerClassifier(max_epochs=2, random_state=seed) for seed in range(3)]
    >>> fit_vectorized(seeds, X, y)
    >>> [classifier.n_iter_ for classifier in seeds]
    [2, 2, 2]
    """
    if not estimators:
        raise ValueError("there are no estimators to fit")
    first = estimators[0]
    for other in estimators[1:]:
        differing = _differing(first, other)
        if differing:
            raise ValueError(
                "estimators fitted together may differ in random_state and callbacks only; "
                f"these differ in {', '.join(differing)}"
            )
    with ExitStack() as stack:
        copies = [stack.enter_context(estimator._refit()) for estimator in estimators]
        prepared = [copy._prepare(X, y, sample_weight) for copy in copies]
        if any(each.validation is not None for each in prepared):
            for estimator in estimators:
                estimator.fit(X, y, sample_weight=sample_weight)
            return
        for estimator, copy in zip(estimators, copies, strict=True):
            estimator._adopt(copy)
        data = prepared[0]
        try:
            train_ensemble(
                [model for each in prepared for model in each.models],
                data.panel,
                data.targets,
                first._loss,
                [plan for each in prepared for plan in each.plans],
                weights=data.weights,
                callbacks=[own for each in prepared for own in each.callbacks],
                histories=[history for each in prepared for history in each.histories],
                n_jobs=first.n_jobs,
            )
        finally:
            for estimator in estimators:
                estimator._drop_untrained()


def trained_as_one(estimator: TransformerEstimator, n: int) -> bool:
    """Whether `fit_vectorized` trains so many estimators like this one as one model here."""
    plan = estimator._training_plan(n_cases=1, n_tokens=1, validated=False, seed=0)
    return not one_at_a_time(plan, n * estimator.n_estimators)


def _differing(first: TransformerEstimator, other: TransformerEstimator) -> list[str]:
    if type(first) is not type(other):
        return ["their class"]
    ours, theirs = first.get_params(deep=False), other.get_params(deep=False)
    return [name for name in ours if name not in _OF_EACH and ours[name] != theirs[name]]
