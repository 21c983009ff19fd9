"""The features of both transforms together, their scales, and series at regular steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.data.panel import Panel
from tsformer.features import RandomConvolutions, random_convolutions
from tsformer.features.random_convolutions import SparseScaler, StandardScaler, regular


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(x, mask=None, n_features=336, n_groups=4) -> RandomConvolutions:
    convolutions = RandomConvolutions(n_features, n_groups).draw(x, mask, seeded())
    convolutions.fit_scales(convolutions.unscaled(x, mask))
    return convolutions


def test_half_of_the_features_are_of_differences():
    x = torch.randn(6, 40, 2, generator=seeded(1)).cumsum(dim=1)
    convolutions = made(x)
    features, shifted = convolutions(x), convolutions(x + 5.0)
    # Away from the padding only values change with their level, so only unpadded ones stay.
    of_values = slice(0, 168)
    of_differences = slice(168, 336)
    assert torch.allclose(features[:, of_differences], shifted[:, of_differences], atol=1e-3)
    assert not torch.allclose(features[:, of_values], shifted[:, of_values], atol=1e-3)
    assert features.shape == (6, 336 + 2 * 2 * 3 * 2 * 8)


def test_either_is_optional_and_the_state_is_all_there_is():
    x = torch.randn(6, 40, 2, generator=seeded(1))
    state = torch.get_rng_state()
    for options, n in (({"n_features": 0}, 192), ({"n_groups": 0}, 336), ({}, 528)):
        fitted = made(x, **options)
        assert fitted(x).shape == (6, n)
        loaded = RandomConvolutions(**{"n_features": 336, "n_groups": 4} | options)
        loaded.load_state_dict(fitted.state_dict())
        assert torch.equal(loaded(x), fitted(x))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("length", "steps"), [(700, 64), (30, 1), (30, 60), (30, 10_000)])
@pytest.mark.parametrize("masked", [False, True])
def test_blocks_of_series_give_the_same_features(masked, length, steps, monkeypatch):
    x = torch.randn(3, length, 2, generator=seeded(1))
    mask = torch.arange(length) < torch.tensor([[length], [length // 2], [5]]) if masked else None
    x = x if mask is None else x.where(mask[..., None], 0.0)
    wanted = made(x, mask)
    monkeypatch.setitem(random_convolutions.STEPS, "cpu", steps)
    found = made(x, mask)
    torch.testing.assert_close(found.state_dict(), wanted.state_dict(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found(x, mask), wanted(x, mask), rtol=1e-3, atol=1e-3)


def test_memory_does_not_grow_with_the_responses(monkeypatch):
    """Only the longest tensor counts: none holds the responses of a kernel to a long series."""
    sizes = []
    bmm = torch.bmm

    def watched(*args):
        sizes.append(bmm(*args).numel())
        return bmm(*args)

    monkeypatch.setattr(torch, "bmm", watched)
    convolutions = made(torch.randn(2, 9000, 1, generator=seeded(1)))
    sizes.clear()
    convolutions(torch.randn(2, 9000, 1, generator=seeded(2)))
    assert max(sizes) <= 84 * 1024


def test_a_constant_feature_is_0():
    x = torch.full((30, 1), 0.1)
    assert StandardScaler().fit(x)(x).abs().max() < 1e-6


def test_counts_are_scaled_as_defined():
    x = torch.tensor([[4.0, 0.0], [9.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    root = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    zeros = torch.tensor([0.5, 0.75])
    wanted = (root - root.mean(dim=0)) / (root.std(dim=0, correction=0) + zeros**4 + 1e-8)
    torch.testing.assert_close(SparseScaler().fit(x)(x), wanted.where(root > 0, 0.0))


# --- series with times of their own, at regular steps ---------------------------------------------


def panel(values, times, lengths=None, mask=None) -> Panel:
    values = torch.tensor(values)[..., None]
    lengths = torch.full((len(values),), values.shape[1]) if lengths is None else lengths
    return Panel(values, torch.as_tensor(lengths), mask, torch.tensor(times))


def test_without_times_or_with_regular_ones_nothing_changes():
    given = Panel(torch.ones(2, 3, 1), torch.tensor([3, 3]))
    assert regular(given) is given
    values = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    values[1, 4:] = 0
    times = torch.arange(6.0).expand(2, -1)
    found = regular(Panel(values, torch.tensor([6, 4]), None, times))
    torch.testing.assert_close(found.values, values)
    assert found.lengths.tolist() == [6, 4]
    assert found.times is None
    assert found.mask is None


def test_values_are_interpolated_as_numpy_does():
    rng = np.random.default_rng(0)
    times = rng.uniform(0.2, 2.0, size=(3, 20)).cumsum(axis=1).astype(np.float32)
    values = rng.normal(size=(3, 20)).astype(np.float32)
    lengths = [20, 13, 1]
    for i, length in enumerate(lengths):
        times[i, length:] = 0
        values[i, length:] = 0
    found = regular(panel(values, times, lengths))
    for i, length in enumerate(lengths):
        t = times[i, :length]
        grid = np.arange(t[0], t[-1] + 1e-6, 1.0)
        assert found.lengths[i] == len(grid)
        wanted = np.interp(grid, t, values[i, :length])
        np.testing.assert_allclose(found.values[i, : len(grid), 0], wanted, atol=1e-4)
        assert not found.values[i, len(grid) :].any()


def test_a_long_pause_does_not_make_a_long_series():
    found = regular(panel([[0.0, 1.0, 1.0]], [[0.0, 1.0, 1e6]]))
    assert found.lengths.tolist() == [12]
    assert found.values[0, :, 0].tolist() == [0.0] + [1.0] * 11


@pytest.mark.parametrize("times", [[[0.0, 0.0, 1.0]], [[0.0, 0.0, 0.0]]])
def test_of_steps_at_the_same_time_the_last_one_counts(times):
    found = regular(panel([[5.0, 1.0, 2.0]], times))
    wanted = [1.0, 2.0] if times[0][2] else [2.0]
    assert found.values[0, :, 0].tolist() == wanted
