"""Convolutions with many kernels, their channels and the differences they read, by brute force."""

from __future__ import annotations

import pytest
import torch

from tsformer.features.random_convolutions import (
    differences,
    draw_channels,
    largest_dilation,
    responses,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def centred(*shape: int) -> torch.Tensor:
    kernels = torch.randn(*shape, generator=seeded(1))
    return kernels - kernels.mean(dim=-1, keepdim=True)


@pytest.mark.parametrize("length", [1, 4, 9, 30])
@pytest.mark.parametrize("dilation", [1, 3])
def test_responses_are_the_sums_of_the_definition(length, dilation):
    x = torch.randn(2, 3, length, generator=seeded())
    kernels = centred(3, 2, 9)
    found = responses(x, kernels, dilation)
    assert found.shape == (2, 6, length)
    for b in range(2):
        for g in range(3):
            for m in range(2):
                for t in range(length):
                    taps = [t + (j - 4) * dilation for j in range(9)]
                    sees = [x[b, g, s] if 0 <= s < length else torch.tensor(0.0) for s in taps]
                    wanted = sum(w * v for w, v in zip(kernels[g, m], sees, strict=True))
                    assert found[b, 2 * g + m, t] == pytest.approx(float(wanted), abs=1e-5)


def test_a_constant_window_gives_exactly_zero():
    x = torch.full((1, 1, 50), 0.1)
    found = responses(x, centred(1, 5, 9), 2)
    assert (found[..., 8:-8] == 0).all()
    assert (found[..., :8] != 0).any()  # padding is seen


def test_largest_dilation_spans_the_series():
    assert largest_dilation(81) == 10
    assert largest_dilation(9) == largest_dilation(3) == 1


def test_channels_are_drawn_as_in_the_paper():
    drawn = draw_channels(3000, 20, seeded())
    sizes = drawn.sum(dim=1)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert sizes.min() == 1
    assert sizes.max() == 9
    # 2^u below 2 where u is below 1, of log2(10).
    assert (sizes == 1).float().mean() == pytest.approx(0.301, abs=0.03)
    assert drawn.mean(dim=0).std() < 0.02  # no channel is preferred
    assert draw_channels(500, 2, seeded()).sum(dim=1).unique().tolist() == [1.0, 2.0]
    assert draw_channels(12, 1, seeded()).tolist() == [[1.0]], "one channel needs one group"


def test_differences_need_two_valid_steps():
    x = torch.tensor([[[1.0, 4.0, 9.0, 0.0]], [[0.0, 2.0, 5.0, 6.0]]])
    mask = torch.tensor([[True, True, True, False], [False, True, True, True]])
    apart, valid = differences(x, mask)
    assert apart.tolist() == [[[3.0, 5.0, 0.0]], [[0.0, 3.0, 1.0]]]
    assert valid.tolist() == [[True, True, False], [False, True, True]]
    assert differences(x, None)[1] is None
    assert differences(x, None)[0].tolist() == [[[3.0, 5.0, -9.0]], [[2.0, 3.0, 1.0]]]
    apart, valid = differences(torch.ones(2, 3, 1), None)
    assert apart.shape == (2, 3, 1)
    assert not apart.any(), "one step has no difference"
    assert not valid.any()
