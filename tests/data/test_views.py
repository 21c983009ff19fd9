"""Views against plain loops and formulas: moments part by part, sizes of series, differences.

tests/estimators/test_series.py tests that units change no input of a model.
"""

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Moments, Scaler, make_difference, merged, views_in
from tsformer.data.series import Padded

nan = np.nan
RNG = np.random.default_rng(0)


def moments_of(x: torch.Tensor, sizes: list[int]) -> Moments:
    summary = None
    for chunk in x.split(sizes):
        summary = merged(summary, chunk, ~chunk.isnan())
    return summary


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("sizes", [[30], [1] * 30, [3, 20, 7]])
def test_moments_of_parts_are_those_of_the_whole(sizes, offset):
    x = torch.randn(30, 11, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x * torch.tensor([1.0, 1e-3, 1e3, 1.0]) + offset
    x[4:9, :, 0] = x[20, 3:, 1] = nan
    x[:3, :, 2] = nan  # the first part knows nothing of this channel
    x[:, :, 3] = nan
    moments = moments_of(x, sizes)
    values = x[..., :3].flatten(0, 1).numpy().astype(np.longdouble)
    mean, std = (np.append(f(values, axis=0), 0) for f in (np.nanmean, np.nanstd))
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(moments.std, std, rtol=1e-9)
    assert moments.n_known.tolist() == [*(~np.isnan(values)).sum(axis=0), 0]


@pytest.mark.parametrize("offset", [0.0, -1.0, 1e9])
def test_a_constant_has_values_that_are_equal_to_rounding(offset):
    ulp = max(np.spacing(abs(offset)), 1e-300)
    x = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64).view(1, 4, 1).repeat(1, 1, 3)
    x = x * torch.tensor([0.0, ulp, 100 * ulp], dtype=x.dtype) + offset
    moments = moments_of(x, [1])
    assert (moments.deviation(0.0) == 0).tolist() == [True, offset != 0, False]
    np.testing.assert_allclose(moments.std[2], 50 * ulp, rtol=1e-6)


#: Series [L, C] of several lengths, whose sizes span six decades.
SERIES = [
    10.0 ** RNG.uniform(-3, 3) * (RNG.standard_normal((n, 2)) + RNG.normal(size=2))
    for n in (9, 14, 20, 11, 17)
]


def padded(X: list[np.ndarray]) -> Padded:
    return to_padded([x.T for x in X])


def expected_sizes(X: list[np.ndarray]) -> np.ndarray:
    logs = np.log([np.nanstd(x, axis=0) for x in X])
    means = np.array([np.nanmean(x, axis=0) for x in X])
    low, high = np.sort(np.abs(means), axis=0)[[0, -1]]
    wide = (np.ptp(np.sign(means), axis=0) == 0) & (high > 10 * low)
    center = np.where(wide, 0, np.sort(means, axis=0)[(len(X) - 1) // 2])
    levels = np.arcsinh((means - center) / np.exp(logs.mean(axis=0)))
    both = np.concatenate([logs, levels], axis=1)
    return (both - both.mean(axis=0)) / both.std(axis=0)


def sizes(X: list[np.ndarray], training: list[np.ndarray] | None = None) -> np.ndarray:
    """Return the sizes at the first step, after checking that they are equal at all steps."""
    views = "values+difference"
    scaler = Scaler("series+size", views=views).fit(padded(training or X))
    panel = scaler.transform(padded(X)).with_mask()
    first = scaler.n_inputs - len(scaler.gap_channels) - 4
    inputs = panel.values[..., first : first + 4]
    masks = torch.ones_like(inputs[..., 0], dtype=torch.bool) if panel.mask is None else panel.mask
    for row, mask in zip(inputs, masks, strict=True):
        assert (row[mask] == row[0]).all(), "the same at all steps"
        assert not row[~mask].any()
    plain = Scaler("series", views=views).fit(padded(training or X)).transform(padded(X)).values
    assert torch.equal(panel.values[..., :first], plain[..., :first])
    return inputs[:, 0].numpy()


@pytest.mark.parametrize("factors", [np.zeros(5), np.logspace(0, 3, 5), np.ones(5)])
def test_sizes_are_decades_and_levels_too_or_distances_from_a_typical_level(factors):
    X = [5 * factor + x for factor, x in zip(factors, SERIES, strict=True)]
    np.testing.assert_allclose(sizes(X), expected_sizes(X), rtol=1e-4, atol=1e-5)


def test_an_offset_of_all_series_changes_no_size():
    np.testing.assert_allclose(sizes([x + 1e9 for x in SERIES]), sizes(SERIES), atol=1e-5)


def test_constants_have_the_least_size_in_training():
    constant = np.full((10, 2), 3.0)
    read = sizes([*SERIES, constant])
    np.testing.assert_allclose(read[-1, :2], read[:-1, :2].min(axis=0), rtol=1e-6)
    constant[:, 1] = nan
    assert np.isfinite(sizes([*SERIES, constant])).all()
    np.testing.assert_allclose(sizes([np.zeros((5, 2))] * 3), 0, atol=1e-12)


def test_sizes_that_training_had_not_are_five_deviations_at_most():
    assert np.abs(sizes([1e30 * x for x in SERIES], SERIES)).max() == 5


def expected(X: list[np.ndarray], times: list[np.ndarray], scale: float) -> list[np.ndarray]:
    """Divide differences by their deviation; the first difference repeats the second."""
    differences = []
    for x, t in zip(X, times, strict=True):
        apart = np.diff(t[: x.shape[1]])
        apart = np.where(apart > 0, apart, nan)
        differences.append(np.hstack([np.full((2, 1), nan), np.diff(x, axis=1) / apart]))
    std = np.nanstd(np.concatenate(differences, axis=1), axis=1)
    for x, rows in zip(X, differences, strict=True):
        for channel, row in zip(x, rows, strict=True):
            first = int(np.flatnonzero(~np.isnan(channel))[0])
            if first + 1 < len(row):
                row[first] = row[first + 1]
    return [scale * np.nan_to_num(rows / std[:, None]) for rows in differences]


def ragged() -> list[np.ndarray]:
    return [RNG.normal(size=(2, length)).cumsum(axis=1) for length in (9, 5, 2)]


def with_gaps() -> list[np.ndarray]:
    X = ragged()
    X[0][0, 3:5] = X[0][1, :2] = X[1][:, 0] = nan
    return X


TIMES = [np.array([0.0, 2, 4, 6, 7, 7, 9, 13, 15]), np.arange(5) * 2.0, np.array([1.0, 3.0])]


@pytest.mark.parametrize("make", [ragged, with_gaps])
@pytest.mark.parametrize("times", [None, TIMES], ids=["regular", "irregular"])
def test_against_plain_loops(make, times):
    X = make()
    scaler = Scaler(None, views="difference", gap_flag=None, view_params={"scale": 0.5})
    series = to_padded(X, times)
    panel = scaler.fit(series).transform(series)
    # Times count in median steps, which are 2 apart here.
    steps = [np.arange(9)] * 3 if times is None else [t / 2.0 for t in times]
    for i, wanted in enumerate(expected(X, steps, 0.5)):
        valid = ~np.isnan(X[i]).all(axis=0)
        got = panel.values[i, : X[i].shape[1]].numpy().T
        np.testing.assert_allclose(got[:, valid], wanted[:, valid], rtol=1e-5, atol=1e-6)


def test_differences_follow_the_values_and_flags_come_last():
    series = to_padded(with_gaps())
    both, values, difference = (
        Scaler("channel", views=views).fit(series).transform(series).values
        for views in ("values + difference", "values", "difference")
    )
    assert (both.shape[2], values.shape[2], difference.shape[2]) == (6, 4, 4)
    torch.testing.assert_close(both[..., [0, 1, 4, 5]], values)
    torch.testing.assert_close(both[..., [2, 3, 4, 5]], difference)


def test_unknown_views_and_options_are_refused():
    for make, value in (
        (views_in, "values+diference"),
        (views_in, "values+values"),
        (make_difference, {"scal": 1.0}),
        (make_difference, {"scale": 0}),
    ):
        with pytest.raises(ValueError):
            make(value)
