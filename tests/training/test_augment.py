"""Augmentation inside the training step: losses by shares, training only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_problem import cross_entropy, fit, make_model, make_panel, make_plan, weights_of
from torch import Tensor

from tsformer import TSTransformerClassifier, TSTransformerEncoder
from tsformer.augmentation import Augmentation, Batch, resolve
from tsformer.objectives import Contrastive
from tsformer.training.loop import make_optimizer
from tsformer.training.seeds import seeded
from tsformer.training.step import TrainingStep, augmented, mixed

CPU = torch.device("cpu")


class Partners(Augmentation):
    """Every series takes its target from the one before it, by a share of its own."""

    mixes = True

    def __call__(self, batch: Batch) -> Batch:
        n = len(batch.values)
        share = torch.linspace(0.1, 0.9, n)
        return replace(batch, partner=torch.arange(n).roll(1), share=share)


class Recorder(Augmentation):
    """Counts its calls and changes nothing."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __call__(self, batch: Batch) -> Batch:
        self.batches.append(batch)
        return batch


def test_a_mixed_loss_is_the_weighted_sum_of_two_targets():
    torch.manual_seed(0)
    outputs = torch.randn(4, 3)
    targets, weights = torch.tensor([0, 1, 2, 0, 1, 2]), torch.rand(6)
    rows = torch.tensor([5, 0, 3, 2])
    batch = Partners()(Batch(torch.zeros(4, 7, 1)))

    def losses(index: Tensor) -> Tensor:
        return cross_entropy(outputs, targets[index]) * weights[index]

    got = mixed(losses, rows, batch)
    for i in range(4):
        own, other = rows[i], rows[i - 1]
        logs = outputs[i].log_softmax(0)
        wanted = -batch.share[i] * weights[own] * logs[targets[own]]
        wanted = wanted - (1 - batch.share[i]) * weights[other] * logs[targets[other]]
        torch.testing.assert_close(got[i], wanted)


def test_without_an_augmentation_nothing_happens():
    x = torch.randn(3, 5, 2)
    assert augmented((x, None, None), None, step=0, seed=0).values is x


def test_draws_depend_on_the_seed_and_the_step_and_leave_the_generator_alone():
    x, warp = torch.randn(4, 30, 1), resolve("warp", p=1.0)

    def drawn(step: int, seed: int) -> Tensor:
        return augmented((x, None, None), warp, step=step, seed=seed).values

    with seeded(3, CPU):
        expected = torch.rand(2)
    with seeded(3, CPU):
        first = drawn(0, 0)
        assert torch.equal(torch.rand(2), expected)
        assert torch.equal(drawn(0, 0), first)
    for step, seed in ((1, 0), (0, 1)):
        assert not torch.equal(drawn(step, seed), first)


def test_the_step_applies_it_to_the_batch_and_to_the_loss():
    panel, targets = make_panel(6)
    model = make_model("tape", dropout=0.0)
    plan = make_plan(augmentation=Partners(), batch_size=6)
    step = TrainingStep(
        model, make_optimizer(model, plan), panel, targets, None, cross_entropy, plan
    )
    index = torch.tensor([3, 1, 5, 0])
    model.train()
    losses = cross_entropy(model(*panel.take(index)), targets[index])
    crossed = cross_entropy(model(*panel.take(index)), targets[index.roll(1)])
    share = torch.linspace(0.1, 0.9, 4)
    wanted = (share * losses + (1 - share) * crossed).sum().detach()
    torch.testing.assert_close(step(index, index), wanted)


def test_it_is_for_training_alone():
    recorder = Recorder()
    panel, targets = make_panel(10)
    fit(make_model(), panel, targets, make_plan(n_epochs=2, batch_size=5, augmentation=recorder))
    assert [len(batch.values) for batch in recorder.batches] == [5, 5, 5, 5]


def test_warping_by_nothing_trains_the_same_model():
    panel, targets = make_panel(ragged=True)
    models = [make_model("tape", dropout=0.0) for _ in range(3)]
    for model, augmentation in zip(
        models, (None, resolve("warp", sigma=0.0), resolve("warp")), strict=True
    ):
        fit(model, panel, targets, make_plan(augmentation=augmentation))
    plain, still, moved = map(weights_of, models)
    assert all(torch.equal(plain[name], still[name]) for name in plain)
    assert not all(torch.equal(plain[name], moved[name]) for name in plain)


@pytest.mark.parametrize("augmentation", ["warp", "warp+jitter"])
def test_a_seed_determines_what_is_drawn(augmentation):
    panel, targets = make_panel()
    weights = []
    for seed in (0, 0, 1):
        model = make_model()
        fit(model, panel, targets, make_plan(augmentation=resolve(augmentation), seed=seed))
        weights.append(weights_of(model))
    first, again, other = weights
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_an_augmentation_is_told_which_channels_are_flags():
    """Two of three channels have gaps; their flags are the last two of eight channels."""
    X = np.random.default_rng(0).normal(size=(8, 3, 20))
    X[::2, 0, 5:8] = X[1::2, 2, 3:5] = np.nan
    seen = Recorder()
    TSTransformerClassifier(augmentation=seen, max_epochs=1, random_state=0).fit(X, [0, 1] * 4)
    assert seen.batches
    for batch in seen.batches:
        assert (batch.values.shape[-1], batch.n_flags) == (8, 2)
        assert set(batch.values[..., -2:].unique().tolist()) == {0.0, np.float32(-0.1).item()}


def test_an_objective_is_told_which_channels_are_flags():
    """The contrastive objective adds noise, in training and where its loss is validated."""
    X = np.random.default_rng(0).normal(size=(12, 1, 20))
    X[:, 0, 5:8] = np.nan
    posed = []

    class Seen(Contrastive):
        def pose(self, batch, layout):
            given = super().pose(batch, layout)
            posed.append(given.batch.values[..., -1])
            return given

    TSTransformerEncoder(
        objective=Seen(), max_epochs=1, early_stopping=True, validation_fraction=0.5, random_state=0
    ).fit(X)
    assert len(posed) > 1
    for flags in posed:
        assert flags.min() >= np.float32(-0.1)
        assert flags.max() <= 0
