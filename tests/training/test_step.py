"""One step: the gradient that the optimizer is given."""

from __future__ import annotations

import pytest
import torch
from small_problem import cross_entropy, make_model, make_panel, make_plan

from tsformer.training.step import TrainingStep


class Records(torch.optim.SGD):
    """Keeps the gradients of each step, and changes nothing."""

    def step(self, closure=None):
        self.gradients = [p.grad.clone() for group in self.param_groups for p in group["params"]]


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_that_of_the_mean_loss_of_the_batch(weighted):
    panel, targets = make_panel(6)
    weights = torch.linspace(0.5, 1.5, 6) if weighted else None
    plan = make_plan(max_grad_norm=1e9)
    model = make_model(dropout=0.0)
    optimizer = Records(model.parameters(), lr=0.1)
    step = TrainingStep(model, optimizer, panel, targets, weights, cross_entropy, plan)
    index = torch.tensor([4, 1, 3])
    total = step(index, index)

    same = make_model(dropout=0.0)
    losses = cross_entropy(same(*panel.take(index)), targets[index])
    losses = losses if weights is None else losses * weights[index]
    torch.testing.assert_close(total, losses.detach().sum())
    losses.mean().backward()
    for given, parameter in zip(optimizer.gradients, same.parameters(), strict=True):
        torch.testing.assert_close(given, parameter.grad)


def test_it_is_clipped_as_a_whole():
    panel, targets = make_panel(6)
    model = make_model(dropout=0.0)
    optimizer = Records(model.parameters(), lr=0.1)
    plan = make_plan(max_grad_norm=1e-3)
    index = torch.arange(6)
    TrainingStep(model, optimizer, panel, targets, None, cross_entropy, plan)(index, index)
    norm = torch.stack([gradient.norm() for gradient in optimizer.gradients]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)
