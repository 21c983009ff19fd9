"""Training runs that end by Ctrl-C; several models, one after another and in processes."""

import copy
from dataclasses import replace

import pytest
import torch
from small_problem import (
    cross_entropy,
    equal,
    fit,
    make_model,
    make_panel,
    make_plan,
    weights_of,
    wrong_labels,
)
from torch import nn

from tsformer import TSTransformer
from tsformer.training import Callback, History, NonFiniteLossError, forward, train_ensemble


class InterruptedModel(nn.Module):
    """Simulates Ctrl-C in the middle of a step."""

    def __init__(self, at_call: int):
        super().__init__()
        self.model, self.calls, self.at_call = make_model(), 0, at_call

    def forward(self, x, mask=None, times=None):
        self.calls += 1
        if self.calls == self.at_call:
            raise KeyboardInterrupt
        return self.model(x, mask)


@pytest.mark.parametrize(("at_call", "epochs"), [(8, 1), (12, 2)])
def test_ctrl_c_in_step_keeps_ended_epochs(at_call, epochs):
    model, (panel, targets) = InterruptedModel(at_call), make_panel()
    start = weights_of(model)
    with pytest.warns(UserWarning, match=f"after {epochs} of 4 epochs"):
        history = fit(model, panel, targets, make_plan())
    assert history.interrupted
    assert len(history) == epochs
    assert not equal(weights_of(model), start)
    assert not model.training


@pytest.mark.parametrize("earlier", [0, 1])
def test_ctrl_c_in_the_first_epoch_keeps_no_member_without_training(earlier):
    models = [*make_members(earlier), InterruptedModel(1)]
    raised = pytest.warns(UserWarning, match="after 1 of 2 members; the weights so far")
    with raised if earlier else pytest.raises(KeyboardInterrupt):
        (history,) = fit_members(models, *make_panel())
        assert history.interrupted


# --- several models trained one after another, and in processes -----------------------------------


def make_members(n: int = 2, **config) -> list[TSTransformer]:
    """Return models that differ in their weights."""
    models = [make_model(**config) for _ in range(n)]
    for seed, model in enumerate(models):
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    return models


def fit_members(models, panel, targets, **options) -> list[History]:
    plans = [replace(make_plan(), seed=i) for i in range(len(models))]
    return train_ensemble(models, panel, targets, cross_entropy, plans, **options)


def test_lists_of_different_lengths_are_refused():
    panel, targets = make_panel()
    with pytest.raises(ValueError, match="'models': 2, 'plans': 1"):
        train_ensemble(make_members(), panel, targets, cross_entropy, [make_plan()])


# Processes


@pytest.mark.slow  # every process imports torch
def test_processes_train_like_turns():
    panel, targets = make_panel()
    models = make_members(3)
    alone = copy.deepcopy(models)
    in_turn = fit_members(alone, panel, targets, validation=wrong_labels())
    histories = fit_members(models, panel, targets, validation=wrong_labels(), n_jobs=2)
    for model, other, history, expected in zip(models, alone, histories, in_turn, strict=True):
        torch.testing.assert_close(forward(model, panel), forward(other, panel))
        assert [row["loss"] for row in history] == pytest.approx([r["loss"] for r in expected])
        assert history.best_epoch == expected.best_epoch
        assert not model.training
    nn.init.constant_(models[1].head.bias, float("nan"))
    with pytest.raises(NonFiniteLossError, match="loss became nan in epoch 1 of 4"):
        fit_members(models, panel, targets, n_jobs=2)


def test_processes_cannot_call_callbacks():
    with pytest.raises(ValueError, match=r"n_jobs=2 trains in other processes"):
        fit_members(make_members(), *make_panel(), callbacks=[[Callback()], []], n_jobs=2)
