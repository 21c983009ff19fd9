"""Pictures of explanations have the right values at the right places, and are legible."""

import numpy as np
import pandas as pd
import pytest
from marks import slow_except
from picture_checks import assert_legible, assert_readable, panels
from small_estimators import classifier

from tsformer.plots import plot_attention, plot_class_relevance, plot_relevance

num2date = pytest.importorskip("matplotlib.dates", reason='needs the extra "plots"').num2date
RNG = np.random.default_rng(0)


def example(n_channels: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.cumsum(RNG.normal(size=(n_channels, length)), axis=1)
    relevance = 0.01 * RNG.normal(size=x.shape)
    relevance[-1, length // 2] = 2.0
    return x, relevance


@pytest.mark.parametrize(
    ("n_channels", "length"), slow_except([(1, 24), (3, 400), (8, 60), (30, 100), (2, 1)], [3])
)
def test_series_are_legible(n_channels, length):
    names = [f"a channel with a long name, number {i}" for i in range(n_channels)]
    title = "the reasons for a class whose name is long enough to need two lines " * 2
    figure = plot_relevance(*example(n_channels, length), channels=names, title=title)
    assert_legible(figure)
    assert_readable(figure)
    assert len(panels(figure)) == min(n_channels, 8)


def test_the_channels_with_most_relevance_of_either_sign_are_drawn_in_their_order():
    relevance = np.tile([1.0, 0, 0, 0], (10, 1))
    relevance[[0, 1]], relevance[3, 0], relevance[7, :2] = 0.1, -5, (9, -9)
    figure = plot_relevance(np.ones((10, 4)), relevance)
    assert [ax.get_ylabel() for ax in panels(figure)] == [f"channel {i}" for i in range(2, 10)]


def test_each_value_has_its_colour_and_the_best_window_is_marked():
    x, relevance = example(2, 40)
    x[0, 5:9] = np.nan
    figure = plot_relevance(x, relevance, width=4)
    first, second = panels(figure)
    (dots,) = first.collections[:1]
    assert dots.get_clim() == (-2.0, 2.0)
    steps = np.flatnonzero(~np.isnan(x[0]))
    order = np.argsort(dots.get_offsets()[:, 0].data)
    points = np.c_[dots.get_offsets().data, dots.get_array().data][order][steps]
    np.testing.assert_array_equal(points, np.c_[steps, x[0, steps], relevance[0, steps]])
    assert not first.patches
    (window,) = second.patches
    assert window.get_x() <= 20 <= window.get_x() + window.get_width()
    assert window.get_width() == pytest.approx(4)


class Explained:
    """The methods of a fitted classifier that a picture calls."""

    fit = get_params = None

    def predict(self, X, times=None):
        return ["a"] * len(X)

    def explain(self, X, times=None):
        return np.ones((len(X), 1, 30))


def hourly(start, n=30, freq="h", tz=None):
    index = pd.date_range(start, freq=freq, periods=n, tz=tz)
    return pd.DataFrame({"pulse": range(n)}, index=index)


def test_series_are_drawn_at_their_times():
    x, relevance = example(1, 30)
    times = np.cumsum(RNG.uniform(0.1, 5, 30))
    figure = plot_relevance(x, np.pad(relevance, ((0, 0), (0, 9))), times=times)
    (ax,) = panels(figure)
    np.testing.assert_allclose(np.sort(ax.collections[0].get_offsets()[:, 0]), times)
    assert_legible(figure)
    x = hourly("2024-03-31", tz="Europe/Berlin")
    figure = plot_relevance(Explained(), x)
    (ax,) = panels(figure)
    drawn = num2date(np.sort(ax.collections[0].get_offsets()[:, 0]), x.index.tz)
    assert [time.strftime("%d %H:%M") for time in drawn] == list(x.index.strftime("%d %H:%M"))
    assert figure.get_supxlabel() == "time"
    rows = pd.DataFrame({"pulse": range(30)}, index=range(100, 130))
    assert plot_relevance(Explained(), rows).get_supxlabel() == "step"


def columns(X, times=None):
    """The edges of the columns of a class, the label of their axis, and the mean relevance."""
    figure = plot_class_relevance(Explained(), X, times=times)
    (mesh,) = panels(figure)[0].collections
    return mesh.get_coordinates()[0, :, 0], figure.get_supxlabel(), mesh.get_array().data[0]


def test_columns_of_classes_are_at_the_times_that_all_series_share():
    at, label, _ = columns([hourly("2024-10-26 20:00", tz="Europe/Berlin", n=n) for n in (30, 9)])
    ends = [num2date(end, "Europe/Berlin").strftime("%d %H:%M") for end in at[[0, 1, -1]]]
    assert ends == ["26 19:30", "26 20:30", "28 00:30"]  # where clocks go back
    assert label == "time"
    at, label, mean = columns([hourly("2024-01-01"), hourly("2024-03-05 07:00")])
    np.testing.assert_allclose(at, np.linspace(0, 29 * 3600, 31))
    np.testing.assert_allclose(mean, 1)
    assert label == "seconds since the first step"
    times = np.array([np.arange(30.0), np.sqrt(np.arange(30.0))])
    at, label, mean = columns(np.zeros((2, 1, 30)), times)  # adds up over spans
    np.testing.assert_allclose(at, np.linspace(0, 29, 31))
    assert label == "time since the first step"
    np.testing.assert_allclose(mean, np.mean([np.histogram(t, at)[0] for t in times], axis=0))


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "n_channels"), [(2, 40), (5, 1)])
def test_classes_are_legible_and_are_means(n_classes, n_channels):
    relevance = RNG.normal(size=(2 * n_classes, n_channels, 50))
    labels = [f"a class with a long name {i}" for i in range(n_classes)] * 2
    figure = plot_class_relevance(relevance, labels)
    assert_legible(figure)
    assert_readable(figure)
    meshes = [ax.collections[0] for ax in panels(figure)]
    means = relevance.reshape(2, n_classes, n_channels, 50).mean(axis=0)
    np.testing.assert_allclose([mesh.get_array().data for mesh in meshes], means)
    limit = np.abs(means).max()
    assert {mesh.get_clim() for mesh in meshes} == {(-limit, limit)}


@pytest.mark.parametrize("timed", [False, True])
def test_attention_is_legible_and_its_mean(timed):
    weights, x = RNG.uniform(size=(2, 4, 16, 16)), example(3, 64)[0]
    steps = np.linspace(0, 1000, 64) if timed else None
    times = np.linspace(0, 1000, 16) if timed else np.arange(16) * 4.0
    figure = plot_attention(weights, times, x, series_times=steps, title="both blocks")
    assert_legible(figure)
    matrix, top, left = panels(figure)
    np.testing.assert_allclose(matrix.collections[0].get_array().data, weights.mean(axis=(0, 1)))
    assert len(top.lines) == len(left.lines) == 3
    np.testing.assert_allclose([line.get_ydata().std() for line in top.lines], 1)
    assert matrix.get_ylim()[0] > matrix.get_ylim()[1], "time runs down"


@pytest.mark.parametrize("timed", [False, True])
def test_attention_is_drawn_at_the_times_of_the_series(timed):
    X = [hourly(f"2024-01-{day:02} 06:00", freq="min") * day for day in range(1, 13)]
    clf = classifier(stem="linear", timestamps="index" if timed else None).fit(X, ["a", "b"] * 6)
    matrix, top, _ = panels(plot_attention(clf, X[2]))
    assert top.get_position().y0 >= matrix.get_position().y1
    ends = [num2date(end).strftime("%d %H:%M") for end in (*matrix.get_xlim(), *matrix.get_ylim())]
    assert ends == ["03 06:00", "03 06:29", "03 06:29", "03 06:00"]
    assert num2date(top.lines[0].get_xdata()[7]).strftime("%H:%M") == "06:07"


def test_attention_of_a_shorter_series_is_drawn_without_padding():
    X = [np.cumsum(RNG.normal(size=(1, length)), axis=1) for length in [20, 60, 40] * 4]
    X[0][:, 8:12] = np.nan
    maps = classifier(stem="linear").fit(X, ["a", "b"] * 6).attention(X)
    matrix, top, _ = panels(plot_attention(maps.weights[0], maps.times[0], X[0]))
    there = maps.mask[0]
    expected = maps.weights[0].mean(axis=(0, 1))[np.ix_(there, there)]
    np.testing.assert_allclose(matrix.collections[0].get_array().data, expected)
    assert matrix.get_xlim() == top.get_xlim() == (0, 19)
    assert matrix.get_ylim() == (19, 0)
    alone = plot_attention(np.eye(1), [3.0], np.ones((1, 4)))
    assert panels(alone)[0].get_xlim() == (2.5, 3.5)


EYE, AT, X = np.eye(3), np.arange(3), np.zeros((1, 9))


@pytest.mark.parametrize(
    ("draw", "arguments", "options", "message"),
    [
        (plot_relevance, (X[0], X[0]), {}, "one series"),
        (plot_relevance, (X, X), {"times": [1]}, "9 steps"),
        (plot_class_relevance, (X[None], ["a"]), {"edges": [1]}, "edges"),
        (plot_attention, (EYE, [0, 2, 1], X), {}, "decrease"),
        (plot_attention, (EYE * 0, AT, X), {}, "0"),
    ],
)
def test_what_does_not_fit_is_refused(draw, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        draw(*arguments, **options)
