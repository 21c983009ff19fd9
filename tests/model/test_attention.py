"""Attention and the gradient of a trained bias on the fused kernel, against plain arithmetic."""

import pytest
import torch
from torch import Tensor

from tsformer.encodings import PositionalEncoding
from tsformer.model import layers
from tsformer.model.layers import attend
from tsformer.model.transformer import SelfAttention


def plainly(q: Tensor, k: Tensor, v: Tensor, bias, mask, scale: float) -> Tensor:
    scores = q @ k.mT * scale
    scores = scores if bias is None else scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    return scores.softmax(-1) @ v


B, N, D, H = 2, 6, 8, 2
E = D // H
T = torch.arange(N, dtype=torch.float64)[None]
CODE = torch.stack([T.sin(), T.cos(), T / 5], dim=-1)[:, None]
BIAS = (T[:, None, None, :] - 2 * T[:, None, :, None]) / 7
padded = pytest.mark.parametrize(
    "mask", [None, torch.arange(N)[None] < torch.tensor([6, 4])[:, None]], ids=["whole", "padded"]
)


class Plain(PositionalEncoding):
    """Overrides no hook, and takes any sizes."""


class Widened(Plain):
    """Position on extra features of q and k: the scores are ``(q k + p_i p_j) / sqrt(E)``."""

    def rotate(self, q, k, t):
        code = CODE.expand(*q.shape[:3], 3)
        return torch.cat([q, code], dim=-1), torch.cat([k, code], dim=-1)


class Biased(Plain):
    def bias(self, q, k, t):
        return BIAS


class Mixed(Plain):
    """Adds the sum over all tokens, so that values at padding would show."""

    def mix(self, v, t):
        return v.sum(dim=2, keepdim=True).expand_as(v)


def attention(causal: bool = False) -> tuple[SelfAttention, Tensor, list[Tensor]]:
    """Return a layer, tokens, and the queries, keys and values of its heads."""
    layer, x = SelfAttention(D, H, causal).double(), torch.randn(B, N, D, dtype=torch.float64)
    parts = (x @ layer.qkv.weight.T + layer.qkv.bias).split(D, dim=-1)
    return layer, x, [projection.unflatten(-1, (H, E)).transpose(1, 2) for projection in parts]


def joined(layer: SelfAttention, out: Tensor) -> Tensor:
    return out.transpose(1, 2).flatten(2) @ layer.out.weight.T + layer.out.bias


@padded
@pytest.mark.parametrize("encoding", [Plain, Widened, Biased, Mixed])
def test_attention_is_its_formula(encoding, mask):
    """The scale is of a head, the bias is added after it, `mix` after the softmax."""
    layer, x, (q, k, v) = attention()
    bias = {Widened: CODE @ CODE.mT / E**0.5, Biased: BIAS}.get(encoding)
    out = plainly(q, k, v, bias, mask, E**-0.5)
    if encoding is Mixed:
        valid = torch.ones(B, N, dtype=torch.bool) if mask is None else mask
        out = out + (v * valid[:, None, :, None]).sum(dim=2, keepdim=True)
    torch.testing.assert_close(layer(x, T, encoding(), mask), joined(layer, out))


@padded
@pytest.mark.parametrize("encoding", [Plain, Widened, Biased])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_weights_equal_kernel(encoding, mask, causal):
    layer, x, (_, _, v) = attention(causal)
    weights = layer.weights(x, T, encoding(), mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, N).double())
    if mask is not None:
        assert (weights[1, :, :, 4:] == 0).all()
    if causal:
        assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(joined(layer, weights @ v), layer(x, T, encoding(), mask))


def problem(bias_shape, *, width=3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 2, 7, width), (3, 2, 7, width), (3, 2, 7, 4), bias_shape]
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


MASK = torch.arange(7)[None] < torch.tensor([7, 3, 1])[:, None]


@pytest.mark.parametrize("chunk", [2**20, 60, 1], ids=["at-once", "in-pieces", "row-by-row"])
@pytest.mark.parametrize(
    ("mask", "width"),
    [(None, 3), (MASK, 4), (MASK, 6)],
    ids=["all-narrower", "padded-as-wide", "padded-wider"],
)
@pytest.mark.parametrize("bias_shape", [(1, 1, 7, 7), (1, 2, 7, 7), (3, 1, 7, 7), (3, 2, 7, 7)])
def test_values_and_gradients(bias_shape, width, mask, chunk, monkeypatch):
    monkeypatch.setattr(layers, "SCORES_PER_CHUNK", chunk)
    leaves = problem(bias_shape, width=width)
    ours, expected = attend(*leaves, mask, 0.5), plainly(*leaves, mask, 0.5)
    torch.testing.assert_close(ours, expected)
    probe = torch.randn_like(ours)
    wanted = torch.autograd.grad((expected * probe).sum(), leaves)
    for retained in (True, False):  # a graph can be used again
        gradients = torch.autograd.grad((ours * probe).sum(), leaves, retain_graph=retained)
        torch.testing.assert_close(gradients, wanted)
