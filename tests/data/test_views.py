"""Views against plain loops and formulas: moments part by part, sizes of series, differences.

That a unit changes nothing of what a model reads is tested in tests/estimators/test_series.py.
"""

from math import isnan, nan

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import (
    Scaler,
    Summary,
    make_difference,
    merged,
    views_in,
)
from tsformer.data.series import Padded

# --- moments -------------------------------------------------------------------------------------


def moments_of(x: torch.Tensor, sizes: list[int]) -> Summary:
    summary = None
    for part in x.split(sizes):
        summary = merged(summary, part, ~part.isnan())
    return summary


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("sizes", [[30], [1] * 30, [3, 20, 7]])
def test_parts_and_the_whole(sizes, offset):
    x = torch.randn(30, 11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x * torch.tensor([1.0, 1e-3, 1e3]) + offset
    x[4:9, :, 0] = x[20, 3:, 1] = torch.nan
    x[:3, :, 2] = torch.nan  # the first part knows nothing of this channel
    moments = moments_of(x, sizes)
    values = x.flatten(0, 1).numpy().astype(np.longdouble)
    np.testing.assert_allclose(moments.mean, np.nanmean(values, axis=0), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(moments.std, np.nanstd(values, axis=0), rtol=1e-9)
    assert moments.n_known.tolist() == (~np.isnan(values)).sum(axis=0).tolist()


@pytest.mark.parametrize("offset", [0.0, -1.0, 1e9])
def test_a_constant_has_values_that_are_equal_to_rounding(offset):
    ulp = max(np.spacing(abs(offset)), 1e-300)
    x = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64).view(1, 4, 1).repeat(1, 1, 3)
    x = x * torch.tensor([0.0, ulp, 100 * ulp], dtype=x.dtype) + offset
    moments = moments_of(x, [1])
    assert (moments.deviation(0.0) == 0).tolist() == [True, offset != 0, False]
    np.testing.assert_allclose(moments.std[2], 50 * ulp, rtol=1e-6)


def test_a_channel_without_values():
    moments = moments_of(torch.full((4, 3, 1), torch.nan, dtype=torch.float64), [2, 2])
    assert (moments.mean.item(), moments.std.item(), moments.n_known.item()) == (0, 0, 0)


# --- sizes ----------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
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


def sizes(scaler: Scaler, X: list[np.ndarray]) -> np.ndarray:
    """Return what the model reads of the sizes at the first step, having checked the others."""
    panel = scaler.transform(padded(X)).with_mask()
    first = scaler.n_inputs - len(scaler.gap_channels) - 4
    found = panel.values[..., first : first + 4]
    masks = torch.ones_like(found[..., 0], dtype=torch.bool) if panel.mask is None else panel.mask
    for row, mask in zip(found, masks, strict=True):
        assert (row[mask] == row[0]).all(), "the same at all steps"
        assert not row[~mask].any()
    return found[:, 0].numpy()


def test_sizes_and_levels_are_standardised_on_a_scale_of_decades():
    scaler = Scaler("series+size", views="values+difference").fit(padded(SERIES))
    assert scaler.n_inputs == 8
    np.testing.assert_allclose(sizes(scaler, SERIES), expected_sizes(SERIES), rtol=1e-5, atol=1e-6)
    plain = Scaler("series", views="values+difference").fit(padded(SERIES))
    both = scaler.transform(padded(SERIES)).values, plain.transform(padded(SERIES)).values
    assert torch.equal(both[0][..., :4], both[1])


def test_levels_are_decades_of_one_sign_or_distances_from_a_typical_level():
    for factors in (np.logspace(0, 3, len(SERIES)), np.ones(len(SERIES))):
        X = [5 * factor + x for factor, x in zip(factors, SERIES, strict=True)]
        scaler = Scaler("series+size").fit(padded(X))
        np.testing.assert_allclose(sizes(scaler, X), expected_sizes(X), rtol=1e-4, atol=1e-5)
    far = [x + 1e9 for x in SERIES]
    np.testing.assert_allclose(
        sizes(Scaler("series+size").fit(padded(far)), far),
        sizes(Scaler("series+size").fit(padded(SERIES)), SERIES),
        atol=1e-5,
    )


def test_constants_have_the_least_size_in_training():
    X = [*SERIES, np.full((10, 2), 3.0)]
    scaler = Scaler("series+size").fit(padded(X))
    found = sizes(scaler, X)[:, :2]
    np.testing.assert_allclose(found[-1], found[:-1].min(axis=0), rtol=1e-6)
    assert np.isfinite(found).all()
    missing = [*SERIES, np.full((10, 2), np.nan)]
    missing[-1][:, 0] = 1.0
    assert np.isfinite(sizes(Scaler("series+size").fit(padded(missing)), missing)).all()
    X = [np.sin(np.arange(12.0) + k)[:, None].repeat(2, axis=1) for k in (0.0, 0.0, 0.0)]
    for same in (X, [np.zeros((5, 2))] * 3):
        found = sizes(Scaler("series+size").fit(padded(same)), same)
        np.testing.assert_allclose(found, 0, atol=1e-12)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_sizes_that_training_had_not_are_five_deviations_at_most(factor):
    scaler = Scaler("series+size").fit(padded(SERIES))
    found = sizes(scaler, [factor * x for x in SERIES])
    assert np.abs(found).max() == 5 if factor > 1 else np.abs(found).max() <= 5
    assert np.isfinite(found).all()


# --- differences ----------------------------------------------------------------------------------


def by_hand(series: np.ndarray, times: np.ndarray | None) -> list[list[float]]:
    """Return the difference over time of one series (C, L), nan where there is none."""
    rows = []
    for channel in series:
        steps = [nan]
        for i in range(1, len(channel)):
            apart = 1.0 if times is None else times[i] - times[i - 1]
            steps.append((channel[i] - channel[i - 1]) / apart if apart > 0 else nan)
        observed = [i for i, value in enumerate(channel) if not isnan(value)]
        if observed and observed[0] + 1 < len(channel):
            steps[observed[0]] = steps[observed[0] + 1]
        rows.append(steps)
    return rows


def expected(X: list[np.ndarray], times: list | None, scale: float) -> list[np.ndarray]:
    when = [None] * len(X) if times is None else times
    steps = [by_hand(x, t) for x, t in zip(X, when, strict=True)]
    views = []
    for channel in range(len(X[0])):
        # The first value's difference is a copy and does not count twice.
        known = []
        for x, own in zip(X, steps, strict=True):
            first = int(np.flatnonzero(~np.isnan(x[channel]))[0])
            known += [s for i, s in enumerate(own[channel]) if i != first and not isnan(s)]
        views.append(np.std(known))
    return [
        scale * np.nan_to_num(np.array(own) / np.array(views)[:, None], nan=0.0) for own in steps
    ]


def ragged() -> list[np.ndarray]:
    return [RNG.normal(size=(2, length)).cumsum(axis=1) for length in (9, 5, 2)]


def with_gaps() -> list[np.ndarray]:
    X = ragged()
    X[0][0, 3:5] = nan
    X[0][1, :2] = nan
    X[1][:, 0] = nan
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
    scaled = None if times is None else [t / 2.0 for t in times]
    for i, wanted in enumerate(expected(X, scaled, 0.5)):
        valid = ~np.isnan(X[i]).all(axis=0)
        got = panel.values[i, : X[i].shape[1]].numpy().T
        np.testing.assert_allclose(got[:, valid], wanted[:, valid], rtol=1e-5, atol=1e-6)


def test_differences_follow_the_values_and_flags_come_last():
    X = with_gaps()
    series = to_padded(X)
    both = Scaler("channel", views="values+difference").fit(series)
    values, difference = (Scaler("channel", views=v).fit(series) for v in ("values", "difference"))
    assert (both.n_inputs, values.n_inputs, difference.n_inputs) == (6, 4, 4)
    panel = both.transform(series).values
    torch.testing.assert_close(panel[..., [0, 1, 4, 5]], values.transform(series).values)
    torch.testing.assert_close(panel[..., [2, 3, 4, 5]], difference.transform(series).values)


@pytest.mark.parametrize(
    ("make", "value", "message"),
    [
        (views_in, "values+diference", "'diference'.*'difference'"),
        (views_in, "values+values", "'values' twice"),
        (make_difference, {"scal": 1.0}, "'scal'"),
        (make_difference, {"scale": 0}, "scale.*0"),
    ],
)
def test_unknown_views_and_options_are_refused(make, value, message):
    assert views_in("values + difference") == ("values", "difference")
    with pytest.raises(ValueError, match=message):
        make(value)
