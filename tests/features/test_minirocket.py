"""Features of MiniRocket against loops over kernels, dilations, biases and steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from tsformer.features.minirocket import KERNELS, MiniRocket, _spread


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def series(n: int, channels: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, channels, length, generator=seeded(seed))


def brute_force(rocket: MiniRocket, x: np.ndarray) -> list[float]:
    """The features of one series ``[C, L]``, from the definition."""
    length = x.shape[1]
    features, left = [], rocket.biases.tolist()
    for place, dilation in enumerate(rocket.dilations.tolist()):
        channels = rocket.channels[place].numpy()
        for k, kernel in enumerate(KERNELS.numpy()):
            read = channels[k * len(channels) // 84] @ x
            reach = 4 * dilation
            padded = np.pad(read, reach)
            responses = [padded[t : t + 2 * reach + 1 : dilation] @ kernel for t in range(length)]
            padded_half = (k < 42) == (place % 2 == 0)
            if not padded_half and length > 2 * reach:
                responses = responses[reach : length - reach]
            for _ in range(int(rocket.n_biases[place])):
                bias = left.pop(0)
                features.append(np.mean([response > bias for response in responses]))
    assert left == []
    return features


@pytest.mark.parametrize(("channels", "length"), [(1, 30), (3, 30), (1, 5), (2, 1)])
def test_features_are_shares_of_positive_values(channels, length):
    x = series(6, channels, length)
    rocket = MiniRocket(400).fit(x, None, seeded())
    found = rocket(x)
    assert found.shape == (6, 84 * 4) == (6, len(rocket.biases))
    wanted = np.array([brute_force(rocket, each) for each in x.numpy()])
    # A bias may be a response of a training series itself, to rounding.
    assert (np.abs(found.numpy() - wanted) > 1e-6).mean() < 0.01


def test_the_84_kernels():
    assert KERNELS.shape == (84, 9)
    assert len({tuple(kernel) for kernel in KERNELS.tolist()}) == 84
    assert (KERNELS.sum(dim=1) == 0).all()
    assert set(KERNELS.unique().tolist()) == {-1.0, 2.0}


@pytest.mark.parametrize("length", [1, 9, 20, 150, 5000])
@pytest.mark.parametrize("per_kernel", [1, 5, 59, 119])
def test_dilations_are_spread_exponentially(length, per_kernel):
    dilations, counts = _spread(length, per_kernel)
    assert int(counts.sum()) == per_kernel
    assert counts.min() >= 0
    assert dilations[0] == 1
    assert all(a < b for a, b in pairwise(dilations.tolist()))
    assert len(dilations) <= 32
    if per_kernel > 1:
        assert dilations[-1] == max((length - 1) // 8, 1)


def test_biases_are_quantiles_of_training_convolutions():
    """Shares above the biases of the one training series are one minus the quantiles' order."""
    x = series(1, 1, 400)
    rocket = MiniRocket(84 * 5).fit(x, None, seeded())
    order = torch.arange(1, len(rocket.biases) + 1) * (1 + 5**0.5) / 2 % 1
    apart = (rocket(x)[0] - (1 - order)).abs()
    assert apart.max() < 1 / 8  # eight windows of the largest dilation fit into the series
    assert apart.mean() < 0.02


@pytest.mark.parametrize("channels", [1, 2])
def test_padding_changes_nothing(channels):
    x = series(5, channels, 40)
    lengths = torch.tensor([40, 33, 12, 7, 1])
    mask = torch.arange(40) < lengths[:, None]
    x = x.where(mask[:, None], 0.0)
    rocket = MiniRocket(500).fit(x, mask, seeded())
    together = rocket(x, mask)
    for i, length in enumerate(lengths.tolist()):
        alone = rocket(x[i : i + 1, :, :length])
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-6, rtol=0)
    more = torch.nn.functional.pad(x, (0, 9))
    padded = rocket(more, torch.nn.functional.pad(mask, (0, 9)))
    torch.testing.assert_close(padded, together, atol=1e-6, rtol=0)


def test_steps_before_the_first_value_change_nothing():
    x = series(3, 2, 30)
    rocket = MiniRocket(500).fit(x, None, seeded())
    later = torch.nn.functional.pad(x, (6, 2))
    mask = torch.nn.functional.pad(torch.ones(3, 30, dtype=torch.bool), (6, 2))
    torch.testing.assert_close(rocket(later, mask), rocket(x), atol=1e-6, rtol=0)


def test_biases_are_not_those_of_padding():
    """With 35 of 40 steps padding, quantiles over all steps would be 0 for most kernels."""
    x = series(4, 1, 40)
    mask = torch.arange(40) < torch.full((4, 1), 5)
    rocket = MiniRocket(84).fit(x.where(mask[:, None], 0.0), mask, seeded())
    assert (rocket.biases == 0).float().mean() < 0.1


def test_one_seed_one_transform():
    x = series(20, 3, 30)
    first, again, other = (MiniRocket(500).fit(x, None, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(first(x), again(x))
    assert not torch.equal(first(x), other(x))
    assert not torch.equal(first.channels, other.channels)


def test_the_state_is_all_there_is():
    x = series(5, 2, 30)
    fitted = MiniRocket(500).fit(x, None, seeded())
    loaded = MiniRocket(500)
    loaded.load_state_dict(fitted.state_dict())
    assert torch.equal(loaded(x), fitted(x))
    with pytest.raises(RuntimeError, match="Missing key"):
        loaded.load_state_dict({"biases": fitted.biases})
