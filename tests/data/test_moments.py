"""Moments of parts are those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_padded
from tsformer.data.moments import Moments
from tsformer.data.preprocessor import Scaler


def moments_of(x: torch.Tensor, sizes: list[int]) -> Moments:
    moments = Moments()
    for part in x.split(sizes):
        moments.add(part, ~part.isnan())
    return moments


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
    assert moments.count.tolist() == (~np.isnan(values)).sum(axis=0).tolist()


def test_a_single_part_has_the_plain_formulas():
    x = torch.randn(20, 9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moments = moments_of(x, [20])
    mean = x.sum(dim=(0, 1)) / 180
    assert torch.equal(moments.mean, mean)
    assert torch.equal(moments.std, ((x - mean).square().sum(dim=(0, 1)) / 180).sqrt())


def test_a_channel_without_values():
    moments = moments_of(torch.full((4, 3, 1), torch.nan, dtype=torch.float64), [2, 2])
    assert (moments.mean.item(), moments.std.item(), moments.count.item()) == (0, 0, 0)


def test_a_scaler_learns_the_same_from_parts(monkeypatch):
    X = np.random.default_rng(0).normal(3, 2, size=(50, 2, 12))
    X[3, 1, 4:7] = X[30, :, 9:] = np.nan
    whole = Scaler(views="values+difference").fit(to_padded(X))
    monkeypatch.setattr("tsformer.data.series._VALUES", 7 * 24)
    parts = Scaler(views="values+difference").fit(to_padded(X))
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], tensor, rtol=1e-13, atol=1e-13)
    assert torch.equal(parts.gap_channels, whole.gap_channels)
