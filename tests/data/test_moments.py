"""Moments of parts are those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler
from tsformer.data.views import Moments, Summary


def moments_of(x: torch.Tensor, sizes: list[int]) -> Summary:
    moments = Moments()
    for part in x.split(sizes):
        moments.add(part, ~part.isnan())
    return moments.summary


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("sizes", [[30], [1] * 30, [3, 20, 7]])
def test_parts_and_the_whole(sizes, offset):
    x = torch.randn(30, 11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x * torch.tensor([1.0, 1e-3, 1e3]) + offset
    x[4:9, :, 0] = x[20, 3:, 1] = torch.nan
    x[:3, :, 2] = torch.nan  # the first part knows nothing of this channel
    moments = moments_of(x, sizes)
    values = x.flatten(0, 1).numpy().astype(np.longdouble)
    np.testing.assert_allclose(moments.mean, np.nanmean(values, axis=0), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(moments.std, np.nanstd(values, axis=0), rtol=1e-9)
    assert moments.n_known.tolist() == (~np.isnan(values)).sum(axis=0).tolist()


@pytest.mark.parametrize("sizes", [[30], [3, 20, 7]])
@pytest.mark.parametrize("power", [-900, -40, 40, 900])
def test_a_power_of_two_is_a_factor_of_the_moments(sizes, power):
    x = torch.randn(30, 11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain, scaled = moments_of(x, sizes), moments_of(x * 2.0**power, sizes)
    for name in ("mean", "std", "low", "high"):
        assert torch.equal(getattr(scaled, name), getattr(plain, name) * 2.0**power)


@pytest.mark.parametrize("offset", [0.0, -1.0, 1e9])
def test_a_constant_has_values_that_are_equal_to_rounding(offset):
    ulp = max(np.spacing(abs(offset)), 1e-300)
    x = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64).view(1, 4, 1).repeat(1, 1, 3)
    x = x * torch.tensor([0.0, ulp, 100 * ulp], dtype=x.dtype) + offset
    constant = moments_of(x, [1]).constant.tolist()
    assert constant == [True, offset != 0, False]
    std = moments_of(x, [1]).std
    np.testing.assert_allclose(std[2], 50 * ulp, rtol=1e-6)


def test_a_channel_without_values():
    moments = moments_of(torch.full((4, 3, 1), torch.nan, dtype=torch.float64), [2, 2])
    assert (moments.mean.item(), moments.std.item(), moments.n_known.item()) == (0, 0, 0)


def test_a_scaler_learns_the_same_from_parts(monkeypatch):
    X = np.random.default_rng(0).normal(3, 2, size=(50, 2, 12))
    X[3, 1, 4:7] = X[30, :, 9:] = np.nan
    whole = Scaler(views="values+difference").fit(to_padded(X))
    monkeypatch.setattr("tsformer.data.series._VALUES", 7 * 24)
    parts = Scaler(views="values+difference").fit(to_padded(X))
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], tensor, rtol=1e-13, atol=1e-13)
    assert torch.equal(parts.gap_channels, whole.gap_channels)
