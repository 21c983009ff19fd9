"""What keeps members from training as one, and members in processes."""

from __future__ import annotations

import copy

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
from test_members import fit, make_members
from torch import nn

from tsformer.encodings import PositionalEncoding, unregister
from tsformer.training import Callback, Diverged, History, forward
from tsformer.training.members import train_members

# What is in the way


@pytest.fixture
def reader():
    class Reader(PositionalEncoding, name="reader"):
        """Reads a value back, which no vmap allows."""

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
        fit(models, panel, targets, together=True)
    assert all(equal(weights_of(model), own) for model, own in zip(models, before, strict=True))
    assert [len(history) for history in fit(models, panel, targets)] == [4, 4]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"learning_rate": 1e-4}, "their plans differ in more than the seed"),
        ({"model": {"d_model": 16}}, "their shapes differ"),
        ({"model": {"dropout": 0.3}}, "their shapes differ"),
        ({"history": History([{"epoch": 1}])}, "some have trained longer before"),
    ],
)
def test_models_that_differ_cannot_train_as_one(second, reason):
    panel, targets = make_panel()
    options = dict(second)
    models = [make_model(), make_model(**options.pop("model", {}))]
    histories = [History(), options.pop("history", History())]
    plans = [make_plan(), make_plan(**options)]
    with pytest.raises(ValueError, match=f"these 2 models cannot train as one: {reason}"):
        train_members(
            models, panel, targets, cross_entropy, plans, histories=histories, together=True
        )


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"compile": True}, "compile=True is of one model"), ({}, "callbacks follow one training")],
)
def test_what_follows_one_training_forbids_several_as_one(options, reason):
    shared = [Callback()] if not options else []
    with pytest.raises(ValueError, match=reason):
        fit(
            make_members(),
            *make_panel(),
            plan=make_plan(**options),
            callbacks=[shared] * 2,
            together=True,
        )


def test_a_checkpoint_holds_one_training(tmp_path):
    plan = make_plan(checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="a checkpoint holds one training"):
        fit(make_members(), *make_panel(), plan=plan, together=True)


def test_lists_of_unlike_length_are_refused():
    panel, targets = make_panel()
    with pytest.raises(ValueError, match=r"got \{'models': 2, 'plans': 1, 'callbacks': 2"):
        train_members(make_members(), panel, targets, cross_entropy, [make_plan()])


# Processes


@pytest.mark.slow  # each process imports torch
def test_processes_train_as_one_after_another():
    panel, targets = make_panel()
    models = make_members("rope", n=3)
    alone = copy.deepcopy(models)
    in_turn = fit(alone, panel, targets, validation=wrong_labels(), together=False)
    histories = fit(models, panel, targets, validation=wrong_labels(), n_jobs=2)
    for model, other, history, expected in zip(models, alone, histories, in_turn, strict=True):
        torch.testing.assert_close(forward(model, panel), forward(other, panel))
        assert [row["loss"] for row in history] == pytest.approx([r["loss"] for r in expected])
        assert history.best_epoch == expected.best_epoch
        assert not model.training
    nn.init.constant_(models[1].head.bias, float("nan"))
    with pytest.raises(Diverged, match="loss became nan in epoch 1 of 4"):
        fit(models, panel, targets, n_jobs=2)


def test_processes_cannot_call_callbacks():
    with pytest.raises(ValueError, match=r"n_jobs=2 trains in other processes, where callbacks"):
        fit(make_members(), *make_panel(), callbacks=[[Callback()], []], n_jobs=2)
