"""The difference view: against plain loops, under shifts and scales, with gaps and times."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler
from tsformer.data.views import Difference, make_difference, views_in

GENERATOR = np.random.default_rng(0)


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
        np.array(
            [
                [0.0 if isnan(s) else scale * s / std for s in row]
                for row, std in zip(own, views, strict=True)
            ]
        )
        for own in steps
    ]


def ragged() -> list[np.ndarray]:
    return [GENERATOR.normal(size=(2, length)).cumsum(axis=1) for length in (9, 5, 2)]


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


@pytest.mark.parametrize("scaling", ["channel", "series", None])
def test_offset_and_unit_of_a_channel_do_not_matter(scaling):
    X = GENERATOR.normal(size=(6, 2, 30)).cumsum(axis=2)
    moved = X * np.array([[3.0], [0.01]]) + np.array([[100.0], [-7.0]])
    views = []
    for each in (X, moved):
        series = to_padded(each)
        scaler = Scaler(scaling, views="difference").fit(series)
        views.append(scaler.transform(series).values)
    torch.testing.assert_close(views[0], views[1], rtol=1e-4, atol=1e-5)


def test_differences_follow_the_values_and_flags_come_last():
    X = with_gaps()
    series = to_padded(X)
    both = Scaler("channel", views="values+difference").fit(series)
    values, difference = (Scaler("channel", views=v).fit(series) for v in ("values", "difference"))
    assert (both.n_inputs, values.n_inputs, difference.n_inputs) == (6, 4, 4)
    panel = both.transform(series).values
    torch.testing.assert_close(panel[..., [0, 1, 4, 5]], values.transform(series).values)
    torch.testing.assert_close(panel[..., [2, 3, 4, 5]], difference.transform(series).values)


def test_constants_lines_and_single_steps_have_finite_differences():
    X = np.stack([np.full((3, 8), 5.0), np.tile(np.arange(8.0) * 1e3, (3, 1))], axis=1)
    series = to_padded(X)
    values = Scaler(None, views="difference").fit(series).transform(series).values
    assert values.isfinite().all()
    assert not values[..., 0].any()
    torch.testing.assert_close(values[..., 1], torch.full((3, 8), 250.0))
    series = to_padded(np.array([[[1.0]], [[2.0]]]))
    assert not Scaler(None, views="difference").fit(series).transform(series).values.any()
    lonely = torch.tensor([[nan, 3.0, nan]])[..., None]
    difference = Difference()
    difference.std = torch.ones(1, dtype=torch.float64)
    assert not difference(lonely).any()


def test_names():
    assert views_in("values + difference") == ("values", "difference")
    with pytest.raises(ValueError, match="unknown view 'diference': did you mean 'difference'"):
        views_in("values+diference")
    with pytest.raises(ValueError, match="names 'values' twice"):
        views_in("values+values")
    with pytest.raises(ValueError, match="unknown option of the difference 'scal'"):
        make_difference({"scal": 1.0})
    with pytest.raises(ValueError, match="scale of the difference must be a float > 0; got 0"):
        make_difference({"scale": 0})
