"""Pretrained parameters: a learning rate of their own, and epochs in which they are frozen."""

from __future__ import annotations

import pytest
import torch
from small_problem import Remembers, fit, make_model, make_panel, make_plan, weights_of

from tsformer.training.loop import make_optimizer, set_learning_rate
from tsformer.training.plan import Pretrained

HEAD = ("head.weight", "head.bias")


def backbone(model) -> frozenset[str]:
    return frozenset(name for name, _ in model.named_parameters() if name not in HEAD)


def state_of(model) -> dict[str, torch.Tensor]:
    return {name: each.clone() for name, each in model.state_dict().items()}


def test_learning_rates_and_decay_of_the_groups():
    model = make_model("learnable", stem="conv")
    pretrained = Pretrained(backbone(model), lr_scale=0.25)
    optimizer = make_optimizer(model, make_plan(weight_decay=0.3, pretrained=pretrained))
    plain = make_optimizer(model, make_plan(weight_decay=0.3))
    set_learning_rate(optimizer, 0.8)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rows = {
        names[id(p)]: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for p in group["params"]
    }
    decay = {
        names[id(p)]: group["weight_decay"] for group in plain.param_groups for p in group["params"]
    }
    assert {name: own for name, (_, own) in rows.items()} == decay
    assert {name: lr for name, (lr, _) in rows.items()} == {
        name: 0.8 if name in HEAD else pytest.approx(0.2) for name in decay
    }


def test_what_is_frozen_stays_bit_for_bit_and_the_rest_is_trained():
    """The conv stem has batch norms, whose averages stay too."""
    model = make_model(stem="conv", dropout=0.0)
    fit(model, *make_panel(seed=1), make_plan(n_epochs=1))  # averages of other series
    before = state_of(model)
    plan = make_plan(pretrained=Pretrained(backbone(model), n_epochs_frozen=4), n_epochs=4)
    fit(model, *make_panel(), plan)
    after = state_of(model)
    changed = {name for name in after if not torch.equal(before[name], after[name])}
    assert changed == set(HEAD)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_it_thaws_after_its_epochs():
    model, remembers = make_model(stem="conv"), Remembers()
    names = backbone(model)
    before = weights_of(model)
    plan = make_plan(pretrained=Pretrained(names, n_epochs_frozen=2), n_epochs=3)
    fit(model, *make_panel(), plan, callbacks=[remembers])
    first, second, third = remembers.weights
    assert all(torch.equal(before[name], second[name]) for name in names)
    assert not torch.equal(first["head.weight"], second["head.weight"])
    assert not any(torch.equal(second[name], third[name]) for name in names if "weight" in name)


def test_a_scale_of_one_changes_nothing_and_a_small_one_slows_down():
    ends = {}
    for scale in (None, 1.0, 1e-6):
        model = make_model(dropout=0.0)
        names = backbone(model)
        before = weights_of(model)
        pretrained = None if scale is None else Pretrained(names, lr_scale=scale)
        history = fit(model, *make_panel(), make_plan(pretrained=pretrained))
        ends[scale] = history[-1]["loss"]
        after = weights_of(model)
        moved = max((before[name] - after[name]).abs().max().item() for name in names)
        assert (moved < 1e-5) == (scale == 1e-6)
    # The norm of the gradient is summed in another order.
    assert ends[1.0] == pytest.approx(ends[None], rel=1e-4)


def test_frozen_steps_are_not_captured_in_graphs():
    cuda = torch.device("cuda")
    with pytest.raises(ValueError, match="needs all parameters trained"):
        make_plan(
            compile="cuda-graphs",
            device=cuda,
            pretrained=Pretrained(frozenset({"a"}), n_epochs_frozen=1),
        )
