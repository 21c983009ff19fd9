"""Several models trained one after another, and in processes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from small_problem import (
    cross_entropy,
    equal,
    make_model,
    make_panel,
    make_plan,
    weights_of,
    wrong_labels,
)
from torch import nn

from tsformer import TSTransformer
from tsformer.training import Callback, History, NonFiniteLossError, forward, train, train_ensemble


def make_members(n: int = 2, **config) -> list[TSTransformer]:
    """Return models that differ in their weights."""
    models = [make_model(**config) for _ in range(n)]
    for seed, model in enumerate(models):
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    return models


def fit(models, panel, targets, **options) -> list[History]:
    plans = [replace(make_plan(), seed=i) for i in range(len(models))]
    return train_ensemble(models, panel, targets, cross_entropy, plans, **options)


def test_each_is_the_model_trained_alone():
    (panel, targets), models = make_panel(11, ragged=True), make_members(dropout=0.2)
    alone = copy.deepcopy(models)
    histories = fit(models, panel, targets)
    for seed, (model, other, history) in enumerate(zip(models, alone, histories, strict=True)):
        expected = train(other, panel, targets, cross_entropy, make_plan(seed=seed))
        assert [row["loss"] for row in history] == [row["loss"] for row in expected]
        assert equal(weights_of(model), weights_of(other))


def test_lists_of_different_lengths_are_refused():
    panel, targets = make_panel()
    with pytest.raises(ValueError, match=r"got \{'models': 2, 'plans': 1, 'callbacks': 2"):
        train_ensemble(make_members(), panel, targets, cross_entropy, [make_plan()])


# Processes


@pytest.mark.slow  # every process imports torch
def test_processes_train_as_one_after_another():
    panel, targets = make_panel()
    models = make_members(3)
    alone = copy.deepcopy(models)
    in_turn = fit(alone, panel, targets, validation=wrong_labels())
    histories = fit(models, panel, targets, validation=wrong_labels(), n_jobs=2)
    for model, other, history, expected in zip(models, alone, histories, in_turn, strict=True):
        torch.testing.assert_close(forward(model, panel), forward(other, panel))
        assert [row["loss"] for row in history] == pytest.approx([r["loss"] for r in expected])
        assert history.best_epoch == expected.best_epoch
        assert not model.training
    nn.init.constant_(models[1].head.bias, float("nan"))
    with pytest.raises(NonFiniteLossError, match="loss became nan in epoch 1 of 4"):
        fit(models, panel, targets, n_jobs=2)


def test_processes_cannot_call_callbacks():
    with pytest.raises(ValueError, match=r"n_jobs=2 trains in other processes"):
        fit(make_members(), *make_panel(), callbacks=[[Callback()], []], n_jobs=2)
