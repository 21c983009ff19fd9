"""Norms that ignore padding, against torch's own; blocks: branches, norms, dropout."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tsformer.encodings import resolve
from tsformer.model.layers import MaskedBatchNorm, PooledBatchNorm
from tsformer.model.transformer import Dropout, EncoderConfig, TransformerBlock

LENGTHS = torch.tensor([7, 4, 1])
MASK = torch.arange(7)[None] < LENGTHS[:, None]


def both() -> tuple[MaskedBatchNorm, nn.BatchNorm1d]:
    ours, torchs = MaskedBatchNorm(5), nn.BatchNorm1d(5)
    nn.init.normal_(ours.weight)
    nn.init.normal_(ours.bias)
    torchs.load_state_dict(ours.state_dict())
    return ours, torchs


def test_padded_batch_equals_torchs_norm_of_the_valid_steps():
    ours, torchs = both()
    for _ in range(3):  # so that running averages have moved more than once
        x = 4 + 3 * torch.randn(3, 5, 7)
        x = x.where(MASK[:, None], 1000.0).requires_grad_()
        valid = x.transpose(1, 2)[MASK]
        normed, expected = ours(x, MASK).transpose(1, 2)[MASK], torchs(valid)
        torch.testing.assert_close(normed, expected)
        probe = torch.randn_like(expected)
        (got,) = torch.autograd.grad((normed * probe).sum(), x)
        (wanted,) = torch.autograd.grad((expected * probe).sum(), x)
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)
        assert not got.transpose(1, 2)[~MASK].any()
    torch.testing.assert_close(ours.state_dict(), torchs.state_dict())
    ours.eval(), torchs.eval()
    torch.testing.assert_close(ours(x, MASK), torchs(x))


@pytest.mark.parametrize("mask", [None, torch.tensor([[True]])])
def test_a_single_value_trains(mask):
    ours, _ = both()
    out = ours(torch.full((1, 5, 1), 3.0), mask)
    torch.testing.assert_close(out, ours.bias[None, :, None].expand_as(out))
    assert all(value.isfinite().all() for value in ours.state_dict().values())


def test_averages_are_not_taken_in_16_bits():
    """bf16 would count 4,001 steps as 4,000 and know a mean of 100 to the nearest half."""
    ours, torchs = both()
    x = (100 + torch.randn(1, 5, 4010)).bfloat16()
    mask = torch.arange(4010)[None] < 4001
    ours(x, mask)
    torchs(x[..., :4001].float())
    torch.testing.assert_close(ours.state_dict(), torchs.state_dict(), rtol=1e-4, atol=1e-4)


def test_pooled_norm_weights_equal_repetition():
    norm, torchs = PooledBatchNorm(5), nn.BatchNorm1d(5)
    x, counts = 4 + 3 * torch.randn(4, 5), torch.tensor([1, 0, 3, 4])
    expected = torchs(x.repeat_interleave(counts, 0))
    ours = norm(x, counts / 2.0).repeat_interleave(counts, 0)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(norm.running_mean, torchs.running_mean)
    light = PooledBatchNorm(5)
    light(x, counts / 4.0)
    torch.testing.assert_close(light.running_mean, norm.running_mean / 2)
    # Unbiased by Kish's size, 4² / (0.5² + 1.5² + 2²) = 32 / 13.
    var = x.repeat_interleave(counts, 0).var(dim=0, correction=0) * 32 / 19
    torch.testing.assert_close(norm.running_var, torch.lerp(torch.ones(5), var, 0.1))


@pytest.mark.parametrize("weights", [[6.0, 0, 0], [0.0, 0, 0], [1e6, 1e-3, 1e-3]])
def test_pooled_norm_dominant_series_uses_averages(weights):
    norm = PooledBatchNorm(5)
    norm(4 + 3 * torch.randn(6, 5))
    before = {name: value.clone() for name, value in norm.named_buffers()}
    x = torch.randn(3, 5, requires_grad=True)
    out = norm(x, torch.tensor(weights))
    torch.testing.assert_close(norm.running_mean, before["running_mean"])
    torch.testing.assert_close(norm.running_var, before["running_var"])
    torch.testing.assert_close(out, norm.eval()(x))
    assert torch.autograd.grad(out.square().sum(), x)[0].isfinite().all()


def test_pooled_norm_of_plain_batches_equals_torch_and_of_one_series_uses_averages():
    norm, torchs = PooledBatchNorm(5), nn.BatchNorm1d(5)
    for _ in range(2):
        x = 4 + 3 * torch.randn(6, 5)
        torch.testing.assert_close(norm(x), torchs(x))
    torch.testing.assert_close(norm.state_dict(), torchs.state_dict())
    x = torch.randn(1, 5, requires_grad=True)
    out = norm(x)
    torch.testing.assert_close(norm.state_dict(), torchs.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(out, norm.eval()(x))
    assert torch.autograd.grad(out.sum(), x)[0].all()


D, H, N = 8, 2, 5
T = torch.arange(N * 1.0)[None]


def make_block(**options) -> TransformerBlock:
    torch.manual_seed(0)
    return TransformerBlock(EncoderConfig(d_model=D, n_heads=H, d_ff=12, dropout=0.0, **options))


def test_norms_come_before_or_after_each_branch():
    rope = resolve("rope", d_model=D, n_heads=H, max_len=N)
    block, x = make_block(), torch.randn(2, N, D)
    half = x + block.attention(F.layer_norm(x, (D,)), T, rope)
    expected = half + block.feed_forward(F.layer_norm(half, (D,)))
    torch.testing.assert_close(block(x, T, rope), expected)
    block = make_block(norm_first=False)
    half = F.layer_norm(x + block.attention(x, T, rope), (D,))
    expected = F.layer_norm(half + block.feed_forward(half), (D,))
    torch.testing.assert_close(block(x, T, rope), expected)


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
