"""Attention against plain arithmetic: the scale, the mask, where each hook is applied."""

import pytest
import torch
from torch import Tensor

from tsformer.encodings import PositionalEncoding
from tsformer.model.transformer import SelfAttention

B, N, D, H = 2, 6, 8, 2
E = D // H
T = torch.arange(N, dtype=torch.float64)[None]
MASK = torch.arange(N)[None] < torch.tensor([6, 4])[:, None]


class Plain(PositionalEncoding):
    """Overrides no hook, and takes any sizes."""


class Widened(Plain):
    """Position on extra features of q and k: the scores are ``(q k + p_i p_j) / sqrt(E)``."""

    def rotate(self, q, k, t):
        code = torch.stack([t.sin(), t.cos(), t / 5], dim=-1)[:, None].expand(*q.shape[:3], 3)
        return torch.cat([q, code], dim=-1), torch.cat([k, code], dim=-1)


class Biased(Plain):
    def bias(self, q, k, t):
        return (t[:, None, None, :] - 2 * t[:, None, :, None]) / 7


class Mixed(Plain):
    """Adds the sum over all tokens, so that values at padding would show."""

    def mix(self, v, t):
        return v.sum(dim=2, keepdim=True).expand_as(v)


def attention() -> tuple[SelfAttention, Tensor]:
    torch.manual_seed(0)
    return SelfAttention(D, H).double(), torch.randn(B, N, D, dtype=torch.float64)


def heads(layer: SelfAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x @ layer.qkv.weight.T + layer.qkv.bias).split(D, dim=-1)
    return tuple(each.unflatten(-1, (H, E)).transpose(1, 2) for each in (q, k, v))


def finish(layer: SelfAttention, scores: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], -1e300)
    out = scores.softmax(dim=-1) @ v
    return out.transpose(1, 2).flatten(2) @ layer.out.weight.T + layer.out.bias


def plainly(encoding, layer: SelfAttention, x: Tensor, mask: Tensor | None) -> Tensor:
    """The scale is of a head, the bias is added after it, `mix` after the softmax."""
    q, k, v = heads(layer, x)
    if isinstance(encoding, Widened):
        code = torch.stack([T.sin(), T.cos(), T / 5], dim=-1)[:, None]
        return finish(layer, (q @ k.mT + code @ code.mT) / E**0.5, v, mask)
    scores = q @ k.mT / E**0.5
    if isinstance(encoding, Biased):
        scores = scores + (T[:, None, None, :] - 2 * T[:, None, :, None]) / 7
    out = finish(layer, scores, v, mask)
    if isinstance(encoding, Mixed):
        valid = torch.ones(B, N, dtype=torch.bool) if mask is None else mask
        added = (v * valid[:, None, :, None]).sum(dim=2, keepdim=True).expand_as(v)
        out = out + added.transpose(1, 2).flatten(2) @ layer.out.weight.T
    return out


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("encoding", [Plain, Widened, Biased, Mixed])
def test_attention_is_its_formula(encoding, mask):
    layer, x = attention()
    expected = plainly(encoding(), layer, x, mask)
    torch.testing.assert_close(layer(x, T, encoding(), mask), expected)


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("encoding", [Plain, Widened, Biased])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_weights_equal_kernel(encoding, mask, causal):
    torch.manual_seed(0)
    layer = SelfAttention(D, H, causal).double()
    x = torch.randn(B, N, D, dtype=torch.float64)
    weights = layer.weights(x, T, encoding(), mask)
    assert weights.shape == (B, H, N, N)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, N).double())
    if mask is not None:
        assert (weights[1, :, :, 4:] == 0).all()
    if causal:
        assert (weights.triu(1) == 0).all()
    _, _, v = heads(layer, x)
    out = (weights @ v).transpose(1, 2).flatten(2) @ layer.out.weight.T + layer.out.bias
    torch.testing.assert_close(out, layer(x, T, encoding(), mask))
