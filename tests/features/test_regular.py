"""Series with times of their own at regular steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.data.panel import Panel
from tsformer.features.random_convolutions import regular


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


def test_the_first_valid_step_is_the_first():
    mask = torch.tensor([[False, False, True, True, True]])
    found = regular(panel([[0.0, 0.0, 1.0, 3.0, 2.0]], [[0.0, 1.0, 2.0, 4.0, 5.0]], [5], mask))
    assert found.values[0, :, 0].tolist() == [1.0, 2.0, 3.0, 2.0]
    assert found.lengths.tolist() == [4]


def test_a_long_pause_does_not_make_a_long_series():
    found = regular(panel([[0.0, 1.0, 1.0]], [[0.0, 1.0, 1e6]]))
    assert found.lengths.tolist() == [12]
    assert found.values[0, :, 0].tolist() == [0.0] + [1.0] * 11


@pytest.mark.parametrize("times", [[[0.0, 0.0, 1.0]], [[0.0, 0.0, 0.0]]])
def test_of_steps_at_the_same_time_the_last_one_counts(times):
    found = regular(panel([[5.0, 1.0, 2.0]], times))
    wanted = [1.0, 2.0] if times[0][2] else [2.0]
    assert found.values[0, :, 0].tolist() == wanted
