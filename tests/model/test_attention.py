"""Attention against plain arithmetic: the scale, the mask, where each hook is applied."""

from __future__ import annotations

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


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
def test_scale_is_that_of_a_head(mask):
    layer, x = attention()
    q, k, v = heads(layer, x)
    expected = finish(layer, q @ k.mT / E**0.5, v, mask)
    torch.testing.assert_close(layer(x, T, Plain(), mask), expected)


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
def test_widened_heads_keep_the_scale_and_the_width(mask):
    layer, x = attention()
    q, k, v = heads(layer, x)
    code = torch.stack([T.sin(), T.cos(), T / 5], dim=-1)[:, None]
    expected = finish(layer, (q @ k.mT + code @ code.mT) / E**0.5, v, mask)
    torch.testing.assert_close(layer(x, T, Widened(), mask), expected)


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
def test_bias_comes_before_the_softmax_and_after_the_scale(mask):
    layer, x = attention()
    q, k, v = heads(layer, x)
    scores = q @ k.mT / E**0.5 + (T[:, None, None, :] - 2 * T[:, None, :, None]) / 7
    torch.testing.assert_close(layer(x, T, Biased(), mask), finish(layer, scores, v, mask))


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
def test_mix_comes_after_the_softmax_and_sees_no_padding(mask):
    layer, x = attention()
    q, k, v = heads(layer, x)
    valid = torch.ones(B, N, dtype=torch.bool) if mask is None else mask
    added = (v * valid[:, None, :, None]).sum(dim=2, keepdim=True)
    added = added.expand_as(v).transpose(1, 2).flatten(2) @ layer.out.weight.T
    expected = finish(layer, q @ k.mT / E**0.5, v, mask) + added
    torch.testing.assert_close(layer(x, T, Mixed(), mask), expected)


@pytest.mark.parametrize(
    "encoding", [Plain(), Widened(), Biased(), Mixed()], ids=lambda e: type(e).__name__
)
def test_padded_tokens_are_not_attended_to(encoding):
    layer, x = attention()
    other = torch.where(MASK[..., None], x, 100 * torch.randn_like(x))
    ours, theirs = layer(x, T, encoding, MASK), layer(other, T, encoding, MASK)
    torch.testing.assert_close(ours[MASK], theirs[MASK])


@pytest.mark.parametrize("encoding", [Widened(), Biased(), Mixed()], ids=lambda e: type(e).__name__)
def test_an_encoding_may_answer_in_float32_under_autocast(encoding):
    layer, x = attention()
    layer, x, t = layer.float(), x.float(), T.float()
    with torch.autocast("cpu", torch.bfloat16):
        rounded = layer(x, t, encoding, MASK)
    torch.testing.assert_close(rounded.float(), layer(x, t, encoding, MASK), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("encoding", [Plain, Widened, Biased])
@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_those_that_the_kernel_uses(encoding, mask, causal):
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
