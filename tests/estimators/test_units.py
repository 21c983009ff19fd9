"""The unit of a channel changes nothing: a factor that is a power of two gives the same bits."""

import warnings
from typing import Any

import numpy as np
import pytest
from small_estimators import classifier, convolutions

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler

RNG = np.random.default_rng(0)
Y = np.arange(16) % 2
WHOLE = RNG.normal(size=(16, 3, 24)) + 2 * np.sin(np.arange(24)) * Y[:, None, None]
WHOLE[:, 1] += 1e6
WHOLE[:, 2] = 0.1  # a constant
GAPS = np.where(RNG.random(WHOLE.shape) < 0.1, np.nan, WHOLE)
RAGGED = [x[:, : 10 + i % 14] for i, x in enumerate(GAPS)]
POWERS = (-300, -40, 37, 300)


def scaled(X: Any, power: int, channels: slice) -> Any:
    """Multiply channels by a power of two."""
    series = [x.copy() for x in X]
    for x in series:
        x[channels] *= 2.0**power
    return series if isinstance(X, list) else np.stack(series)


@pytest.mark.parametrize("channels", [slice(None), slice(1, 2)], ids=["all", "one"])
@pytest.mark.parametrize("views", ["values", "values+difference"])
@pytest.mark.parametrize("scaling", ["channel", "series", "series+size"])
def test_scaled_series_have_no_unit(scaling, views, channels):
    def read(X: Any) -> np.ndarray:
        series = to_padded(X)
        return Scaler(scaling, views=views).fit(series).transform(series).values.numpy()

    for X in (WHOLE, GAPS, RAGGED):
        wanted = read(X)
        for power in POWERS:
            found = read(scaled(X, power, channels))
            tolerance = 1e-6 if scaling == "series+size" else 0
            np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("power", [0, *POWERS])
def test_a_channel_that_never_varied_is_not_read(power):
    """Its values in another unit would be any number."""
    constant, noise = np.ones((4, 1, 9)), RNG.normal(size=(2, 1, 9))
    train, new = (to_padded(x * 2.0**power) for x in (constant, noise))
    assert not Scaler("channel").fit(train).transform(new).values.any()


@pytest.mark.parametrize(
    ("power", "message"),
    [(-300, "too small for float32; use scaling='channel'"), (300, "too large for float32")],
)
def test_without_scaling_float32_is_the_limit(power, message):
    for make in (classifier, convolutions):
        with pytest.raises(ValueError, match=message):
            make(scaling=None).fit(WHOLE * 2.0**power, Y)


@pytest.mark.parametrize(("power", "warned"), [(-40, True), (0, False), (20, True)])
def test_without_scaling_magnitudes_far_from_1_are_warned_of(power, warned):
    X = WHOLE[:, :1] * 2.0**power
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Scaler(None).fit(to_padded(X))
    assert [str(each.message)[:13] for each in caught] == ["scaling=None:"] * warned


def test_a_difference_too_large_for_float32_is_refused():
    series = to_padded(WHOLE[:, :1])
    scaler = Scaler("channel", views="difference", view_params={"scale": 9.0}).fit(series)
    x = WHOLE[:, :1].copy()
    x[3, 0, 4:6] = 3e38, -3e38
    with pytest.raises(ValueError, match=r"too large for float32.* series 3"):
        scaler.transform(to_padded(x))
