"""One step: the gradient, augmentation and mixed losses; nothing in it waits for a device."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from marks import exhaustive_except
from small_estimators import classifier, encoder
from small_problem import CPU, cross_entropy, make_model, make_panel, make_plan, make_step
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tsformer._random import seeded
from tsformer.augmentation import Augmentation, Batch
from tsformer.encodings import names
from tsformer.objectives import Contrastive, InputLayout, Masked, Posed
from tsformer.objectives.base import Pretext, PretrainingTransformer
from tsformer.training.step import TrainingStep


class Records(torch.optim.SGD):
    """Keeps the gradients of each step, and changes nothing."""

    def step(self, closure=None):
        self.gradients = [p.grad.clone() for group in self.param_groups for p in group["params"]]


def recorded(plan, weights: Tensor | None = None, index: Tensor | None = None):
    """Take one step without dropout; return its data, sum of losses and gradients."""
    panel, targets = make_panel(6)
    model = make_model(dropout=0.0)
    optimizer = Records(model.parameters(), lr=0.1)
    step = TrainingStep(model, optimizer, panel, targets, weights, cross_entropy, plan)
    index = torch.arange(6) if index is None else index
    return panel, targets, step(index, index), optimizer.gradients


@pytest.mark.parametrize("weights", [None, torch.linspace(0.5, 1.5, 6)], ids=["plain", "weighted"])
def test_the_gradient_is_that_of_the_mean_loss_of_the_batch(weights):
    index = torch.tensor([4, 1, 3])
    panel, targets, total, gradients = recorded(make_plan(max_grad_norm=1e9), weights, index)
    same = make_model(dropout=0.0)
    losses = cross_entropy(same(*panel.take(index)), targets[index])
    losses = losses if weights is None else losses * weights[index]
    torch.testing.assert_close(total, losses.detach().sum())
    losses.mean().backward()
    for gradient, parameter in zip(gradients, same.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)
    *_, clipped = recorded(make_plan(max_grad_norm=1e-3), weights, index)
    norm = torch.stack([gradient.norm() for gradient in clipped]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


class Partners(Augmentation):
    """Every series takes its target from the one before it, by a share of its own."""

    mixes = True

    def __call__(self, batch: Batch) -> Batch:
        n = len(batch.values)
        share = torch.linspace(0.1, 0.9, n)
        return replace(batch, partner=torch.arange(n).roll(1), share=share)


class Draws(Augmentation):
    """Replaces the values by random numbers, and keeps the last."""

    def __call__(self, batch: Batch) -> Batch:
        self.seen = torch.rand_like(batch.values)
        return replace(batch, values=self.seen)


class Poses(Masked):
    """Keeps what is hidden."""

    def pose(self, batch: Batch, layout: InputLayout) -> Posed:
        posed = super().pose(batch, layout)
        self.seen = posed.counted
        return posed


@pytest.mark.parametrize("drawing", [Draws, Poses])
def test_draws_depend_on_the_seed_and_the_step_and_leave_the_generator_alone(drawing):
    def drawn(number: int, seed: int) -> tuple[Tensor, Tensor]:
        draws, index = drawing(), torch.arange(4)
        plan, loss = make_plan(seed=seed), cross_entropy
        model, (panel, targets) = make_model("tape", dropout=0.0), make_panel(6)
        if drawing is Draws:
            plan = make_plan(augmentation=draws, seed=seed)
        else:
            model = PretrainingTransformer(model.config, draws)
            loss = Pretext(draws, InputLayout(2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        step = TrainingStep(model, optimizer, panel, targets, None, loss, plan)
        with seeded(3, CPU):
            step(index, index, number=number)
            return draws.seen, torch.rand(2)

    with seeded(3, CPU):
        expected = torch.rand(2)
    first, after = drawn(0, 0)
    assert torch.equal(after, expected)
    assert torch.equal(drawn(0, 0)[0], first)
    assert not torch.equal(drawn(1, 0)[0], first)
    assert not torch.equal(drawn(0, 1)[0], first)


def test_a_captured_step_is_not_seeded_as_its_replays_would_repeat_the_draws(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    state = torch.get_rng_state()
    with seeded(0, torch.device("cuda"), 1):
        assert torch.equal(torch.get_rng_state(), state)


def test_step_mixed_series_loss_is_weighted_sum():
    """A mixed loss is the weighted sum of two losses, each with the weight of its own series."""
    panel, targets = make_panel(6)
    weights = torch.linspace(0.5, 1.5, 6)
    model = make_model("tape", dropout=0.0)
    plan = make_plan(augmentation=Partners(), batch_size=6)
    step = make_step(model, panel, targets, plan, weights)
    index = torch.tensor([3, 1, 5, 0])
    partner, share = index.roll(1), torch.linspace(0.1, 0.9, 4)
    outputs = model.train()(*panel.take(index))
    losses = share * weights[index] * cross_entropy(outputs, targets[index])
    losses = losses + (1 - share) * weights[partner] * cross_entropy(outputs, targets[partner])
    torch.testing.assert_close(step(index, index), losses.sum().detach())


def test_augmentation_and_objective_know_the_channels_of_flags():
    """Two of three channels have gaps; their flags are the last two of eight channels."""
    X = np.random.default_rng(0).normal(size=(8, 3, 20))
    X[::2, 0, 5:8] = X[1::2, 2, 3:5] = np.nan
    seen = []

    class Looks(Augmentation):
        def __call__(self, batch: Batch) -> Batch:
            seen.append(batch)
            return batch

    class Poses(Contrastive):
        """Adds noise, in training and where its loss is validated."""

        def pose(self, batch: Batch, layout: InputLayout) -> Posed:
            posed = super().pose(batch, layout)
            seen.append(replace(posed.batch, n_flags=batch.n_flags))
            return posed

    classifier(augmentation=Looks(), head_norm=None).fit(X, [0, 1] * 4)
    encoder(objective=Poses(), early_stopping=True, validation_fraction=0.5).fit(X)
    assert len(seen) == 2 + 4
    for batch in seen:
        assert (batch.values.shape[-1], batch.n_flags) == (8, 2)
        flags = batch.values[..., -2:]
        assert torch.equal(flags.clamp(np.float32(-0.1), 0), flags)


#: Operators whose result the host must know: on a GPU it would wait for all work before them.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::lift_fresh",  # numbers of Python become a tensor, which is then copied to the device
    "aten::unique_consecutive",
    "aten::_unique2",
}


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name in WAITING or (name == "aten::index" and _by_mask(args[1])):
            self.seen.add(name)
        return func(*args, **(kwargs or {}))


def _by_mask(indices):
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def step_on(encoding, **options):
    model, plan = make_model(encoding, **options), make_plan()
    panel, targets = make_panel(ragged=True)
    panel = type(panel)(panel.values, panel.lengths, torch.arange(12) < panel.lengths[:, None])
    step = make_step(model, panel, targets, plan, torch.ones(20))
    index = torch.arange(8)
    step(index, index)  # AdamW creates its state in the first
    inputs = panel.take(index)  # reads lengths, which always are on the host
    step.panel = SimpleNamespace(
        device=panel.device, symbolic=False, n_flags=0, take=lambda *_, **__: inputs
    )
    with Watch() as watch:
        step(index, index)
    return watch.seen


@pytest.mark.parametrize("encoding", exhaustive_except([*names(), "tape+erpe"]))
def test_no_part_reads_a_value_back(encoding):
    assert step_on(encoding) == set()
    for stem, pooling in (("linear", "attention"), ("patch", "max")):
        assert step_on(encoding, stem=stem, pooling=pooling) == set()
