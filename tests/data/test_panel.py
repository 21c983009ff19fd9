"""From containers to numbers: what is accepted, what is refused and why, and scaling."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.data.panel import Panel, Scaler, is_ragged, to_panel

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(3.0, 2.0, size=(4, 2, 6))
RAGGED = [x[:, :n] for x, n in zip(WHOLE, (6, 3, 1, 5), strict=True)]


def test_array_of_three_dimensions():
    values, lengths = to_panel(WHOLE)
    np.testing.assert_array_equal(values, WHOLE.transpose(0, 2, 1))
    assert values.dtype == np.float64
    assert lengths.tolist() == [6] * 4
    assert not np.shares_memory(values, WHOLE)


def test_array_of_two_dimensions_has_one_channel():
    values, _ = to_panel(WHOLE[:, 0])
    np.testing.assert_array_equal(values, WHOLE[:, :1].transpose(0, 2, 1))


@pytest.mark.parametrize("container", [list, tuple])
def test_arrays_of_unequal_length(container):
    values, lengths = to_panel(container(RAGGED))
    assert values.shape == (4, 6, 2)
    assert lengths.tolist() == [6, 3, 1, 5]
    for i, x in enumerate(RAGGED):
        np.testing.assert_array_equal(values[i, : x.shape[1]], x.T)
        assert not values[i, x.shape[1] :].any()


def test_a_list_of_one_channel_series():
    values, lengths = to_panel([x[0] for x in RAGGED])
    assert values.shape == (4, 6, 1)
    assert lengths.tolist() == [6, 3, 1, 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint16, bool])
def test_types_of_numbers(dtype):
    X = (10 * WHOLE).astype(dtype)
    for container in (X, list(X)):
        values, _ = to_panel(container)
        np.testing.assert_array_equal(values, X.transpose(0, 2, 1).astype(np.float64))


def test_what_a_list_of_series_is():
    assert is_ragged(RAGGED)
    assert is_ragged(tuple(RAGGED))
    for other in (WHOLE, [], [[1.0, 2.0]], [1.0, 2.0], [np.float64(3)], "ab", None):
        assert not is_ragged(other)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(5), r"got an array with 1 dimensions and shape \(5,\)"),
        (np.zeros((2, 3, 4, 5)), r"got an array with 4 dimensions and shape \(2, 3, 4, 5\)"),
        (np.zeros((0, 3, 4)), "X holds no series"),
        (np.zeros((3, 0, 4)), r"X holds series without values: .*\(3, 0, 4\)"),
        (np.zeros((3, 4, 0)), r"X holds series without values: .*\(3, 4, 0\)"),
        ([np.zeros((2, 3)), np.zeros((2, 0))], "series 1 is empty"),
        (
            [np.zeros((2, 3)), np.zeros((3, 2))],
            "series 0 has 2, series 1 has 3 .*read as .channels, l",
        ),
        ([np.zeros((1, 2, 3))], r"series 0 must be \(length,\) or .*its shape is \(1, 2, 3\)"),
        ([np.zeros(2), np.array(["a", "b"])], "series 1 must hold real numbers; its dtype is <U1"),
        ([np.zeros(2, complex)], "series 0 must hold real numbers"),
    ],
)
def test_refused_with_a_reason(X, message):
    with pytest.raises(ValueError, match=message):
        to_panel(X)


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_values_that_are_not_finite_are_refused_with_their_place(value, name):
    place = "series 1, channel 0, step 2"
    X = WHOLE.copy()
    X[1, 0, 2] = value
    with pytest.raises(ValueError, match=f"{name}.* at {place}"):
        to_panel(X)
    with pytest.raises(ValueError, match=f"{name}.* at {place}"):
        to_panel(list(X))
    with pytest.raises(ValueError, match=f"{name}.* at {place}"):
        to_panel(X[:, 0])


def test_channel_scaling_is_learned_from_the_training_series():
    values, lengths = to_panel(RAGGED)
    scaler = Scaler("channel").fit(values, lengths)
    steps = np.concatenate(RAGGED, axis=1)
    np.testing.assert_allclose(scaler.mean, steps.mean(1))
    np.testing.assert_allclose(scaler.std, steps.std(1))
    panel = scaler.transform(*to_panel(WHOLE + 1))
    expected = (WHOLE + 1 - steps.mean(1)[:, None]) / steps.std(1)[:, None]
    np.testing.assert_allclose(panel.values.numpy(), expected.transpose(0, 2, 1), rtol=1e-6)


def test_series_scaling_takes_each_series_alone():
    panel = Scaler("series").fit(*to_panel(RAGGED)).transform(*to_panel(RAGGED))
    for i, x in enumerate(RAGGED):
        own = panel.values[i, : x.shape[1]].numpy()
        np.testing.assert_allclose(own.mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(own.std(0), 1 if x.shape[1] > 1 else 0, atol=1e-6)


@pytest.mark.parametrize("how", ["channel", "series", None])
def test_padding_is_zero_after_scaling(how):
    values, lengths = to_panel(RAGGED)
    panel = Scaler(how).fit(values, lengths).transform(values, lengths)
    assert panel.values.dtype == torch.float32
    for i, n in enumerate(lengths):
        assert panel.values[i, :n].any() == (n > 1 or how != "series")
        assert not panel.values[i, n:].any()


@pytest.mark.parametrize("how", ["channel", "series"])
@pytest.mark.parametrize("level", [0.0, 0.1, 1e9])
def test_a_constant_becomes_zero_and_not_noise(how, level):
    values, lengths = to_panel(np.full((3, 1, 50), level))
    panel = Scaler(how).fit(values, lengths).transform(values, lengths)
    assert panel.values.abs().max() < 1e-3


def test_large_offsets_do_not_drown_small_changes():
    """In float32 a change of 0.001 on 100,000 is lost; scaling comes before the cast."""
    small = RNG.normal(size=(5, 1, 20))
    panel = Scaler("channel").fit(*to_panel(small)).transform(*to_panel(small))
    raised = to_panel(1e5 + 1e-3 * small)
    there = Scaler("channel").fit(*raised).transform(*raised)
    torch.testing.assert_close(there.values, panel.values, rtol=1e-3, atol=1e-3)


def test_unknown_scaling():
    with pytest.raises(ValueError, match="unknown scaling 'chanel': did you mean 'channel'"):
        Scaler("chanel")


def test_take_cuts_to_the_longest_of_the_batch():
    panel = Scaler(None).transform(*to_panel(RAGGED))
    x, keep = panel.take(torch.tensor([1, 2]))
    assert x.shape == (2, 3, 2)
    assert keep.tolist() == [[True, True, True], [True, False, False]]
    x, keep = panel.take(torch.tensor([3]))
    assert x.shape == (1, 5, 2)
    assert keep is None
    assert len(panel) == 4
    assert isinstance(panel.to(torch.device("cpu")), Panel)
