"""Dropout: values are dropped at the rate asked for, independently, and not in prediction."""

from __future__ import annotations

import pytest
import torch

from tsformer.model.transformer import Dropout


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_the_rate_and_the_scale(p):
    n = 400_000
    out = Dropout(p)(torch.ones(n))
    dropped = (out == 0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / n) ** 0.5)
    torch.testing.assert_close(
        out[out != 0], torch.full_like(out[out != 0], 1 / (1 - p)), rtol=2e-4, atol=0
    )


def test_each_value_by_itself():
    """Four values share a draw: none of them may tell of another."""
    dropped = (Dropout(0.5)(torch.ones(100_000, 4)) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlation.abs().max() < 0.02
    assert (dropped.mean(dim=0) - 0.5).abs().max() < 0.01


def test_the_gradient_is_dropped_with_the_value():
    x = torch.randn(3, 5, 7, requires_grad=True)
    out = Dropout(0.4)(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x, out)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 5), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_any_shape_and_type(shape, dtype):
    out = Dropout(0.3)(torch.ones(shape, dtype=dtype))
    assert out.shape == shape
    assert out.dtype == dtype


def test_views_that_are_not_contiguous():
    x = torch.ones(40, 30).T
    assert set(Dropout(0.5)(x).unique().tolist()) == {0.0, 2.0}


def test_a_seed_determines_the_mask():
    first = Dropout(0.5)(torch.ones(50))
    second = Dropout(0.5)(torch.ones(50))
    torch.manual_seed(0)
    assert torch.equal(Dropout(0.5)(torch.ones(50)), first)
    assert not torch.equal(second, first)


@pytest.mark.parametrize("p", [0.0, 1e-6, 0.3])
def test_prediction_drops_nothing(p):
    x = torch.randn(100)
    assert torch.equal(Dropout(p).eval()(x), x)


def test_a_rate_below_the_resolution_is_torchs_own():
    rate, n = 1e-5, 2_000_000
    assert 0 < (Dropout(rate)(torch.ones(n)) == 0).sum() < 100
