"""The wavelet transform of the signal-aware encoding."""

from __future__ import annotations

import pytest
import torch

from tsformer.encodings import resolve
from tsformer.encodings.embed.wavelet import WAVELETS, multiresolution

every_wavelet = pytest.mark.parametrize("wavelet", WAVELETS)


def low_pass(wavelet: str) -> torch.Tensor:
    return torch.tensor(WAVELETS[wavelet], dtype=torch.float64)


@every_wavelet
def test_filters_are_orthonormal_and_smooth(wavelet):
    h = low_pass(wavelet)
    for shift in range(len(h) // 2):
        product = (h[2 * shift :] * h[: len(h) - 2 * shift]).sum().item()
        assert product == pytest.approx(float(shift == 0), abs=1e-12)
    assert h.sum().item() == pytest.approx(2**0.5, abs=1e-12)
    # Vanishing moments: the high-pass filter does not see a polynomial of lower degree.
    high = h.flip(0) * (-1.0) ** torch.arange(len(h))
    for degree in range(len(h) // 2):
        assert (high * torch.arange(len(h)) ** float(degree)).sum().item() == pytest.approx(
            0, abs=1e-8
        )


@every_wavelet
@pytest.mark.parametrize("n", [1, 2, 3, 16, 37])
@pytest.mark.parametrize("n_levels", [1, 2, 5])
def test_parts_add_up_and_do_not_overlap(wavelet, n, n_levels):
    torch.manual_seed(0)
    x = torch.randn(2, n, dtype=torch.float64)
    parts = multiresolution(x, low_pass(wavelet), n_levels)
    assert parts.shape == (2, n_levels + 1, n)
    torch.testing.assert_close(parts.sum(1), x)
    long = torch.nn.functional.pad(x, (256, 256))  # far from the ends, where parts are cut
    products = torch.einsum(
        "bin,bjn->bij", *2 * [multiresolution(long, low_pass(wavelet), n_levels)]
    )
    off_diagonal = products - torch.diag_embed(products.diagonal(dim1=1, dim2=2))
    assert off_diagonal.abs().max() < 1e-10


@every_wavelet
def test_a_slow_wave_is_in_the_rest_and_a_fast_one_in_the_finest_detail(wavelet):
    n = torch.arange(256.0, dtype=torch.float64)
    slow = multiresolution(torch.sin(2 * torch.pi * n / 128)[None], low_pass(wavelet), 3)[0]
    fast = multiresolution(torch.cos(torch.pi * n)[None], low_pass(wavelet), 3)[0]
    energy = slow.square().sum(1), fast.square().sum(1)
    assert energy[0].argmax() == 0
    assert energy[1].argmax() == 3
    assert all(e.max() > 0.9 * e.sum() for e in energy)


def test_levels_follow_the_trained_length():
    levels = [
        resolve("wavelet", d_model=8, n_heads=2, max_len=n).n_levels for n in (1, 8, 64, 1000)
    ]
    assert levels == [1, 1, 4, 7]
