"""Batch norms predict with averages of the final weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_problem import fit, make_model, make_panel, make_plan
from torch import nn

from tsformer.data.panel import shuffled
from tsformer.model.norms import MaskedBatchNorm
from tsformer.training.inference import update_bn


@pytest.mark.parametrize("ragged", [False, True])
def test_averages_are_the_mean_over_batches_of_what_the_norm_sees(ragged):
    model = make_model()
    panel, _ = make_panel(24, ragged=ragged)
    plan = make_plan(batch_size=5)
    norm = model.stem.first.norm
    assert isinstance(norm, MaskedBatchNorm)
    seen = []
    norm.register_forward_hook(lambda module, args, out: seen.append(args))
    before = {name: value.clone() for name, value in model.named_parameters()}
    update_bn(model, panel, plan)
    assert len(seen) == 5
    means = []
    for x, *mask in seen:
        there = x.squeeze(2).transpose(1, 2)
        means.append(there[mask[0]].mean(0) if mask and mask[0] is not None else there.mean((0, 1)))
    torch.testing.assert_close(norm.running_mean, torch.stack(means).mean(0))
    assert norm.momentum == nn.BatchNorm1d(1).momentum
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name])


def test_a_norm_after_the_stem_is_updated_too():
    model = make_model(stem="linear")
    model.head = nn.Sequential(nn.BatchNorm1d(8), model.head)
    update_bn(model, make_panel()[0], make_plan())
    assert not torch.equal(model.head[0].running_mean, torch.zeros(8))


def test_the_norm_of_the_head_gets_averages_without_dropout():
    model = make_model(head_norm="batch", dropout=0.5).train()
    panel, _ = make_panel(24)
    update_bn(model, panel, make_plan(batch_size=5))
    assert model.training
    pooled = []
    generator = torch.Generator().manual_seed(0)
    for index in shuffled(len(panel), 5, generator):
        model.eval()
        for norm in (model.stem.first.norm, model.stem.second.norm):
            norm.train()
        pooled.append(model.embed(*panel.take(index)).mean(0))
    torch.testing.assert_close(model.head_norm.running_mean, torch.stack(pooled).mean(0))


def test_batches_are_those_of_training():
    panel, _ = make_panel(23)
    sizes = []
    model = make_model()
    model.stem.register_forward_hook(lambda module, args, out: sizes.append(len(args[0])))
    update_bn(model, panel, make_plan(batch_size=5))
    expected = shuffled(len(panel), 5, torch.Generator().manual_seed(0))
    assert sorted(sizes) == sorted(map(len, expected))


def test_averages_of_the_head_count_series_by_weight():
    model = make_model(stem="linear", head_norm="batch").eval()
    panel, _ = make_panel(24)
    weights = torch.linspace(0, 3, 24).square() / 3
    update_bn(model, panel, make_plan(batch_size=5), weights)
    with torch.no_grad():
        embedded = model.embed(panel.values)
    expected = (embedded * weights[:, None]).sum(0) / weights.sum()
    torch.testing.assert_close(model.head_norm.running_mean, expected)


def test_series_without_weight_change_nothing():
    panel, targets, n_zero = *make_panel(20), 3
    weights = torch.where(torch.arange(20) < n_zero, 0.0, 20 / (20 - n_zero))
    values = panel.values.clone()
    values[:n_zero] += 100.0
    models = [make_model(stem="linear", head_norm="batch") for _ in range(2)]
    for model, own in zip(models, (panel, replace(panel, values=values)), strict=True):
        fit(model, own, targets, make_plan(), weights=weights)
    found, expected = (model.state_dict() for model in models)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)
