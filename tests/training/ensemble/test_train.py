"""What prevents models from training as one, and training in processes."""

from __future__ import annotations

import copy

import pytest
import torch
from small_ensemble import fit, make_members
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

from tsformer.encodings import PositionalEncoding, unregister
from tsformer.training import Callback, History, NonFiniteLossError, forward
from tsformer.training.ensemble.train import one_at_a_time, train_ensemble


@pytest.fixture
def reader():
    class Reader(PositionalEncoding, name="reader"):
        """Reads a value back, which vmap forbids."""

        def __init__(self, *, d_model, n_heads, max_len):
            super().__init__()

        def embed(self, x, t):
            return x + float(x.mean())

    yield "reader"
    unregister("reader")


def test_what_cannot_be_vectorised_trains_in_turn(reader):
    models, (panel, targets) = make_members(reader), make_panel()
    before = [weights_of(model) for model in models]
    with pytest.raises(ValueError, match=r"cannot train as one: torch.vmap cannot run the model"):
        fit(models, panel, targets, vectorized=True)
    assert all(equal(weights_of(model), own) for model, own in zip(models, before, strict=True))
    assert [len(history) for history in fit(models, panel, targets)] == [4, 4]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"learning_rate": 1e-4}, "their plans differ in more than the seed"),
        ({"model": {"d_model": 16}}, "their shapes differ"),
        ({"model": {"dropout": 0.3}}, "their shapes differ"),
        ({"history": History([{"epoch": 1}])}, "some have been trained for longer"),
    ],
)
def test_models_that_differ_cannot_train_as_one(second, reason):
    panel, targets = make_panel()
    options = dict(second)
    models = [make_model(), make_model(**options.pop("model", {}))]
    histories = [History(), options.pop("history", History())]
    plans = [make_plan(), make_plan(**options)]
    with pytest.raises(ValueError, match=f"these 2 models cannot train as one: {reason}"):
        train_ensemble(
            models, panel, targets, cross_entropy, plans, histories=histories, vectorized=True
        )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compile": True}, "compile=True applies to one model"),
        ({}, "a callback follows one training run"),
    ],
)
def test_what_follows_one_model_prevents_training_several_as_one(options, reason):
    shared = [Callback()] if not options else []
    with pytest.raises(ValueError, match=reason):
        fit(
            make_members(),
            *make_panel(),
            plan=make_plan(**options),
            callbacks=[shared] * 2,
            vectorized=True,
        )


def test_a_checkpoint_holds_one_run(tmp_path):
    plan = make_plan(checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="a checkpoint holds one training run"):
        fit(make_members(), *make_panel(), plan=plan, vectorized=True)


def test_lists_of_different_lengths_are_refused():
    panel, targets = make_panel()
    with pytest.raises(ValueError, match=r"got \{'models': 2, 'plans': 1, 'callbacks': 2"):
        train_ensemble(make_members(), panel, targets, cross_entropy, [make_plan()])


def test_on_a_gpu_few_members_train_in_turn_and_many_as_one():
    cuda = torch.device("cuda")
    graphs, plain = make_plan(device=cuda, compile="auto"), make_plan(device=cuda)
    assert [one_at_a_time(graphs, n) for n in (1, 19, 20)] == [True, True, False]
    assert [one_at_a_time(plain, n) for n in (1, 2)] == [True, False]
    assert one_at_a_time(make_plan(compile="auto"), 100), "on a CPU"


# Processes


@pytest.mark.slow  # every process imports torch
def test_processes_train_as_one_after_another():
    panel, targets = make_panel()
    models = make_members("rope", n=3)
    alone = copy.deepcopy(models)
    in_turn = fit(alone, panel, targets, validation=wrong_labels(), vectorized=False)
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
    with pytest.raises(ValueError, match=r"n_jobs=2 trains in other processes, where callbacks"):
        fit(make_members(), *make_panel(), callbacks=[[Callback()], []], n_jobs=2)
