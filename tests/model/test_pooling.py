"""From tokens to one vector, ignoring padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tsformer.model.transformer import POOLINGS, make_pooling

LENGTHS = [6, 4, 1]
MASK = torch.arange(6)[None] < torch.tensor(LENGTHS)[:, None]


def tokens() -> torch.Tensor:
    return torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0))


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    pooling = make_pooling(name, 5)
    for parameter in pooling.parameters():
        nn.init.normal_(parameter)
    return pooling


@pytest.mark.parametrize("name", POOLINGS)
def test_padding_is_ignored(name):
    pooling, x = make(name), tokens()
    x[~MASK] = 1000.0
    alone = torch.cat([pooling(x[i : i + 1, :n]) for i, n in enumerate(LENGTHS)])
    torch.testing.assert_close(pooling(x, MASK), alone)
    assert pooling(x, MASK).max() < 100


def test_attention_weighs_by_a_learned_score():
    pooling, x = make("attention"), tokens()
    score = torch.exp(x[1, :4] @ pooling.score.weight[0] + pooling.score.bias)
    expected = (score[:, None] * x[1, :4]).sum(0) / score.sum()
    torch.testing.assert_close(pooling(x, MASK)[1], expected)


def test_attention_starts_as_the_mean():
    x = tokens()
    torch.testing.assert_close(make_pooling("attention", 5)(x), x.mean(1))


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("name", POOLINGS)
def test_shares_are_what_is_pooled(name, mask):
    pooling, x = make(name), tokens()
    shares = pooling.shares(x, mask)
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(3))
    if mask is not None:
        assert (shares[~mask] == 0).all()
    pooled = pooling(x, mask)
    if name == "max":  # each feature has one holder
        assert torch.equal(pooled[1], x[1, : 6 if mask is None else 4].amax(dim=0))
        counts = [[(x[b, n] == pooled[b]).sum() / 5 for n in range(6)] for b in range(3)]
        torch.testing.assert_close(shares, torch.tensor(counts))
    else:
        torch.testing.assert_close(torch.einsum("bn,bnd->bd", shares, x), pooled)
