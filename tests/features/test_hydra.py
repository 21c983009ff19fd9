"""Counts of Hydra against loops over dilations, groups, kernels and steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.features.hydra import Hydra


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def series(n: int, channels: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, channels, length, generator=seeded(seed))


def brute_force(hydra: Hydra, x: np.ndarray) -> np.ndarray:
    """The features of one series ``[C, L]``, from the definition."""
    length = x.shape[1]
    features = []
    for exponent, (kernels, channels) in enumerate(zip(hydra.kernels, hydra.channels, strict=True)):
        dilation = 2**exponent
        soft, hard = np.zeros(kernels.shape[:2]), np.zeros(kernels.shape[:2])
        for g, group in enumerate(kernels.numpy()):
            read = channels.numpy()[min(g, len(channels) - 1)] @ x
            padded = np.pad(read, 4 * dilation)
            for t in range(length):
                responses = group @ padded[t : t + 8 * dilation + 1 : dilation]
                soft[g, responses.argmax()] += responses.max()
                hard[g, responses.argmin()] += 1
        features += [soft.ravel(), hard.ravel()]
    return np.concatenate(features)


@pytest.mark.parametrize(("channels", "length"), [(1, 70), (3, 30), (1, 5), (2, 1)])
def test_counts_are_those_of_the_winners(channels, length):
    x = series(4, channels, length)
    hydra = Hydra(3, 4).fit(x, seeded())
    wanted = np.array([brute_force(hydra, each) for each in x.numpy()])
    np.testing.assert_allclose(hydra(x).numpy(), wanted, atol=1e-4)


@pytest.mark.parametrize(("length", "dilations"), [(1, 1), (9, 1), (16, 1), (17, 2), (100, 4)])
def test_dilations_are_powers_of_two_that_fit(length, dilations):
    assert Hydra(2).fit(series(1, 1, length), seeded()).kernels.shape == (dilations, 2, 8, 9)


def test_kernels_are_centred_and_of_one_size():
    kernels = Hydra(50).fit(series(1, 1, 100), seeded()).kernels
    assert kernels.sum(dim=-1).abs().max() < 1e-6
    torch.testing.assert_close(kernels.abs().sum(dim=-1), torch.ones(kernels.shape[:3]))


def test_a_constant_window_counts_for_no_kernel():
    hydra = Hydra(2, 4).fit(series(1, 1, 9), seeded())
    soft, hard = hydra(torch.full((1, 1, 100), 0.3)).split(8, dim=1)
    assert hard.sum() == 2 * 8  # four steps at either end see the padding
    assert soft.sum() < 8


@pytest.mark.parametrize("channels", [1, 2])
def test_padding_changes_nothing(channels):
    x = series(4, channels, 40)
    lengths = torch.tensor([40, 33, 7, 1])
    mask = torch.arange(40) < lengths[:, None]
    x = x.where(mask[:, None], 0.0)
    hydra = Hydra(4).fit(x, seeded())
    together = hydra(x, mask)
    for i, length in enumerate(lengths.tolist()):
        alone = hydra(x[i : i + 1, :, :length])
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-5, rtol=0)


def test_one_seed_one_transform():
    x = series(5, 3, 30)
    first, again, other = (Hydra(4).fit(x, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(first(x), again(x))
    assert not torch.equal(first(x), other(x))


def test_the_state_is_all_there_is():
    x = series(5, 2, 30)
    fitted, loaded = Hydra(4).fit(x, seeded()), Hydra(4)
    loaded.load_state_dict(fitted.state_dict())
    assert torch.equal(loaded(x), fitted(x))
