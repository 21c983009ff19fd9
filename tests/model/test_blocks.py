"""TransformerBlock and dropout: norms, residual branches and the rate of dropped values."""

import pytest
import torch
import torch.nn.functional as F

from tsformer.encodings import resolve
from tsformer.model.transformer import Dropout, TransformerBlock

D, H, N = 8, 2, 5
T = torch.arange(N * 1.0)[None]


@pytest.fixture
def rope():
    return resolve("rope", d_model=D, n_heads=H, max_len=N)


def make_block(**options) -> TransformerBlock:
    torch.manual_seed(0)
    return TransformerBlock(D, H, **{"d_ff": 12, "dropout": 0.0, "norm_first": True} | options)


def test_norms_come_before_or_after_each_branch(rope):
    block, x = make_block(), torch.randn(2, N, D)
    half = x + block.attention(F.layer_norm(x, (D,)), T, rope)
    expected = half + block.feed_forward(F.layer_norm(half, (D,)))
    torch.testing.assert_close(block(x, T, rope), expected)
    block = make_block(norm_first=False)
    half = F.layer_norm(x + block.attention(x, T, rope), (D,))
    expected = F.layer_norm(half + block.feed_forward(half), (D,))
    torch.testing.assert_close(block(x, T, rope), expected)


@pytest.mark.parametrize("norm_first", [True, False])
def test_dropout_acts_in_training_only(norm_first, rope):
    block, x = make_block(dropout=0.5, norm_first=norm_first), torch.randn(2, N, D)
    assert not torch.equal(block(x, T, rope), block(x, T, rope))
    block.eval()
    assert torch.equal(block(x, T, rope), block(x, T, rope))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("p", [1e-5, 0.01, 0.5, 0.9])
def test_dropout_rate_and_scale(p):
    n = 400_000
    x = torch.ones(n, requires_grad=True)
    out = Dropout(p)(x)
    dropped = (out == 0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / n) ** 0.5)
    torch.testing.assert_close(
        out[out != 0], torch.full_like(out[out != 0], 1 / (1 - p)), rtol=2e-4, atol=0
    )
    out.sum().backward()
    torch.testing.assert_close(x.grad, out)


def test_dropout_values_are_independent():
    """Four values share a draw: none of them may tell of another."""
    dropped = (Dropout(0.5)(torch.ones(100_000, 4)) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlation.abs().max() < 0.02
    assert (dropped.mean(dim=0) - 0.5).abs().max() < 0.01
