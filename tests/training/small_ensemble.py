"""Small ensembles, and the comparison of each member with the same model trained alone."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from small_problem import (
    cross_entropy,
    make_model,
    make_plan,
)

from tsformer import TSTransformer
from tsformer.training import (
    History,
    forward,
    train,
    train_ensemble,
)

#: Options without random draws, which differ inside and outside a vmap.
NO_DRAWS = {
    "lspe": {"dropout": 0.0},
    "cape": {"max_shift": 0.0, "max_jitter": 0.0, "max_scale": 1.0},
}


def make_members(encoding: str = "lspe", n: int = 2, **config) -> list[TSTransformer]:
    """Models that differ in their weights and learn without random draws."""
    options = {"dropout": 0.0, "encoding_params": NO_DRAWS.get(encoding, {})}
    models = [make_model(encoding, **options | config) for _ in range(n)]
    for seed, model in enumerate(models):
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    return models


def fit(models, panel, targets, **options) -> list[History]:
    plan = options.pop("plan", make_plan())
    plans = [replace(plan, seed=i) for i in range(len(models))]
    return train_ensemble(models, panel, targets, cross_entropy, plans, **options)


def assert_as_alone(models, panel, targets, *, plan=None, tolerance=1e-6, **options) -> None:
    plan = make_plan(n_epochs=2) if plan is None else plan
    if not plan.bfloat16:
        # In float32 AdamW turns rounding into steps where a gradient is zero: that of a key's bias.
        models = [model.double() for model in models]
        panel = replace(panel, values=panel.values.double())
    alone = copy.deepcopy(models)
    together = fit(models, panel, targets, plan=plan, vectorized=True, **options)
    for seed, (model, history, other) in enumerate(zip(models, together, alone, strict=True)):
        own = replace(plan, seed=seed)
        expected = train(other, panel, targets, cross_entropy, own, **options)
        assert len(history) == len(expected)
        assert history.best_epoch == expected.best_epoch
        for row, wanted in zip(history, expected, strict=True):
            assert row.pop("seconds") > 0
            wanted.pop("seconds")
            assert row == pytest.approx(wanted, abs=tolerance)
        outputs, wanted = forward(model, panel), forward(other, panel)
        torch.testing.assert_close(outputs, wanted, atol=10 * tolerance, rtol=0)
        buffers = dict(other.named_buffers())
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(buffer, buffers[name], atol=10 * tolerance, rtol=1e-3)
    first, second = (forward(model, panel) for model in models[:2])
    assert (first - second).abs().max() > 0.01, "the members are one and the same"
