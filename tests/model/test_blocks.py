"""TransformerBlock: where the norms and the residual branches are."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tsformer.encodings import resolve
from tsformer.model.transformer import TransformerBlock

D, H, N = 8, 2, 5
T = torch.arange(N * 1.0)[None]


@pytest.fixture
def rope():
    return resolve("rope", d_model=D, n_heads=H, max_len=N)


def make_block(**options) -> TransformerBlock:
    torch.manual_seed(0)
    return TransformerBlock(D, H, **{"d_ff": 12, "dropout": 0.0, "norm_first": True} | options)


def test_pre_norm_with_zeroed_outputs_is_the_identity(rope):
    block, x = make_block(), torch.randn(2, N, D)
    for last in (block.attention.out, block.feed_forward[-1]):
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
    assert torch.equal(block(x, T, rope), x)


def test_pre_norm(rope):
    block, x = make_block(), torch.randn(2, N, D)
    half = x + block.attention(F.layer_norm(x, (D,)), T, rope)
    expected = half + block.feed_forward(F.layer_norm(half, (D,)))
    torch.testing.assert_close(block(x, T, rope), expected)


def test_post_norm(rope):
    block, x = make_block(norm_first=False), torch.randn(2, N, D)
    half = F.layer_norm(x + block.attention(x, T, rope), (D,))
    expected = F.layer_norm(half + block.feed_forward(half), (D,))
    out = block(x, T, rope)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(out.mean(-1), torch.zeros(2, N), atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm_first", [True, False])
def test_dropout_acts_in_training_only(norm_first, rope):
    block, x = make_block(dropout=0.5, norm_first=norm_first), torch.randn(2, N, D)
    assert not torch.equal(block(x, T, rope), block(x, T, rope))
    block.eval()
    assert torch.equal(block(x, T, rope), block(x, T, rope))


def test_dropping_all_of_both_branches_leaves_the_input(rope):
    block, x = make_block(dropout=1.0), torch.randn(2, N, D)
    assert torch.equal(block(x, T, rope), x)
