"""The gradient of a trained bias on the fused kernel, against plain arithmetic."""

import pytest
import torch
from tensor_sizes import Sizes
from torch import Tensor

from tsformer.model import layers
from tsformer.model.layers import attend


def plainly(q: Tensor, k: Tensor, v: Tensor, bias, mask, scale: float) -> Tensor:
    scores = q @ k.mT * scale
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    return scores.softmax(-1) @ v


def problem(bias_shape, *, width=3, seed=0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
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
    monkeypatch.setattr(layers, "_CHUNK", chunk)
    leaves = problem(bias_shape, width=width)
    ours, expected = attend(*leaves, mask, 0.5), plainly(*leaves, mask, 0.5)
    torch.testing.assert_close(ours, expected)
    probe = torch.randn_like(ours)
    wanted = torch.autograd.grad((expected * probe).sum(), leaves)
    for retained in (True, False):  # a graph can be used again
        found = torch.autograd.grad((ours * probe).sum(), leaves, retain_graph=retained)
        torch.testing.assert_close(found, wanted)


def test_backward_of_shared_bias_holds_one_piece_at_a_time(monkeypatch):
    monkeypatch.setattr(layers, "_CHUNK", 7 * 7)
    leaves, largest = problem((1, 2, 7, 7)), []
    for function in (attend, plainly):
        with Sizes() as sizes:
            function(*leaves, None, 0.5).sum().backward()
        largest.append(sizes.largest)
    all_scores = 3 * 2 * 7 * 7
    assert largest[0] < all_scores == largest[1]


def test_a_second_derivative_is_refused():
    leaves = problem((1, 2, 7, 7))
    once = attend(*leaves, None, 0.5).square().sum()
    (first,) = torch.autograd.grad(once, leaves[3], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.sum().backward()
