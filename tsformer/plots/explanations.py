"""Figures of explanations: series coloured by relevance, relevance by class, attention maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._optional import require
from tsformer.data.containers import common_names, times_of, to_arrays, to_items
from tsformer.data.series import Padded
from tsformer.data.times import ordered_times, pad_times
from tsformer.explain.summaries import most_relevant_windows, relevance_over_time
from tsformer.plots.figures import (
    Panels,
    fewer_ticks,
    is_estimator,
    new_figure,
    of_times,
    shortened,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Against the class, neither, for it: blue and red are told apart by colour-blind readers.
_DIVERGING = "RdBu_r"
_WIDTH = 8.0
_MOST_CHANNELS = 8


def plot_relevance(
    x: Any,
    relevance: npt.ArrayLike,
    *,
    times: npt.ArrayLike | None = None,
    channels: Sequence[object] | None = None,
    n_windows: int = 3,
    width: int | None = None,
    title: str = "",
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw a series coloured by relevance, its channels below one another.

    The most relevant windows are shaded, and numbered from the most relevant. Of more than eight
    channels, the eight with the largest relevance are drawn. Called as
    ``plot_relevance(x, relevance)``, or ``plot_relevance(classifier, x)`` for the predicted class.

    Parameters
    ----------
    x : array-like (channels, length)
        The series; NaN where a value is missing. Or a fitted classifier.
    relevance : array-like (channels, length)
        What `explain` returned for it. With a classifier, the series.
    times : array-like (length,), optional
        Times of the steps; by default their numbers, or with a classifier the times in the index
        of the series.
    channels : sequence, optional
        Names of the channels.
    n_windows, width : int, optional
        As in `tsformer.explain.most_relevant_windows`.
    title : str, optional
        Title of the figure, such as the class.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each channel that is drawn. By default, a new figure.

    Raises
    ------
    ValueError
        If shapes do not fit or are empty, or `axes` has another number of panels.

    Examples
    --------
    >>> x = np.sin(np.arange(60) / 5)[None]
    >>> figure = plot_relevance(x, np.eye(1, 60, 20), title="class a")
    >>> figure.axes[0].get_ylabel()
    'channel 0'
    """
    if is_estimator(x, "explain"):
        classifier, X = x, [relevance]
        own = of_times(None if times is None else [times])
        title = title or f"why {classifier.predict(X, **own)[0]}"
        x, relevance = to_arrays(X)[0], classifier.explain(X, **own)[0]
        (first,) = to_items(X)
        channels = common_names([first]) if channels is None else channels
        times = _own_times(classifier, first) if times is None else times
    values, shown = np.asarray(x, dtype=float), np.asarray(relevance, dtype=float)
    L = values.shape[-1] if values.ndim else 0
    shown = shown[..., :L]  # `explain` pads to the length of the longest series
    if values.ndim != 2 or shown.shape != values.shape or not values.size:
        raise ValueError(
            "x and relevance must be (channels, length), one or more of each, of one series; got "
            f"{values.shape} and {shown.shape}"
        )
    C = len(values)
    clock: Any = times
    steps, unit = (np.arange(L), "step") if times is None else _numbers(pd.Index(clock)[:L])
    if len(steps) != L:
        raise ValueError(f"times must be one for each of {L} steps; got {len(steps)}")
    names = _names_of(channels, C)
    drawn = np.sort(np.argsort(-np.abs(shown).sum(axis=1), kind="stable")[:_MOST_CHANNELS])
    windows = most_relevant_windows(shown, n_windows, width)
    panels = Panels(
        axes,
        len(drawn),
        "channel",
        n_columns=1,
        panel=(_WIDTH, max(1.3, 2.6 / len(drawn))),
        around=(0.0, 0.9),
        sharex=True,
    )
    largest = float(np.abs(shown).max()) or 1.0
    for ax, channel in zip(panels.axes, drawn, strict=True):
        points = _line(ax, steps, values[channel], shown[channel], largest)
        for place, (where, begin, end) in enumerate(windows, start=1):
            if where == channel:
                left, right = _edges(steps, 0)[[begin, end]]
                ax.axvspan(left, right, color="#E69F00", alpha=0.18, linewidth=0)
                number = ax.text(left + (right - left) / 2, 0.98, str(place), ha="center", va="top")
                number.set(transform=ax.get_xaxis_transform(), color="#8A5A00")
                number.set(fontsize=9, fontweight="bold")
        ax.margins(x=0.01, y=0.2)
        ax.set_ylabel(wrapped(shortened(names[channel], 24), 1.2, 9), fontsize=9)
        ax.grid(alpha=0.25)
    panels.colorbar(points, "relevance")
    if panels.own:
        left_out = "" if len(drawn) == C else f" ({len(drawn)} of {C} channels)"
        title = wrapped(f"{title}{left_out}".strip(), 0.94 * _WIDTH, 11)
        panels.figure.suptitle(title, fontsize=11)
    panels.label(unit)
    return panels.figure


def clock_of(x: Any) -> pd.Index | None:
    """Return the times in the index of a series, by the local clock."""
    times: Any = times_of(x)
    if isinstance(times, pd.PeriodIndex):
        return times.to_timestamp()
    return times.tz_localize(None) if getattr(times, "tz", None) is not None else times


def _own_times(classifier: Any, x: Any) -> pd.Index | None:
    """Return the times of a series that a classifier reads, or that its index has."""
    return x.index if getattr(classifier, "timestamps", None) == "index" else clock_of(x)


def _clocks(classifier: Any, X: Any, times: Any) -> list[pd.Index] | None:
    """Return the times of each series, passed or in its index."""
    if times is not None:
        each = [times] * len(X) if np.ndim(times[0]) == 0 else times
        return [_steady(ordered_times(clock, "times")) for clock in each]
    if not isinstance(X, (list, tuple, pd.DataFrame, pd.Series)):
        return None
    indexed = getattr(classifier, "timestamps", None) == "index"
    items: Any = to_items(X)
    clocks = [x.index if indexed else times_of(x) for x in items]
    return None if any(clock is None for clock in clocks) else [_steady(each) for each in clocks]


def _steady(times: Any) -> pd.Index:
    """Return times by the clock of the first: a local one goes back in autumn."""
    if isinstance(times, pd.PeriodIndex):
        return times.to_timestamp()
    if getattr(times, "tz", None) is None:
        return times
    return times.tz_convert(None) + times[0].utcoffset()


def _over_time(
    relevance: npt.NDArray[np.float64], clocks: list[pd.Index]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any], str]:
    """Return relevance over common columns, their edges and the label of the axis."""
    longest = max(clocks, key=len)
    if all(clock.equals(longest[: len(clock)]) for clock in clocks):
        drawn, label = _numbers(longest)
        return relevance, _edges(drawn), label
    passed = [clock - clock[0] for clock in clocks]
    longest = max(passed, key=len)
    unit, name = _unit(max(clock[-1] for clock in passed))
    numbers = [np.asarray(clock / unit, dtype=float) for clock in passed]
    label = f"{name} since the first step"
    if all(clock.equals(longest[: len(clock)]) for clock in passed):
        return relevance, _edges(max(numbers, key=len)), label
    edges = np.linspace(0, max(clock[-1] for clock in numbers) or 1.0, relevance.shape[2] + 1)
    return relevance_over_time(relevance, numbers, edges), edges, label


def _unit(longest: Any) -> tuple[Any, str]:
    """Return a unit for times of this length, and its name."""
    if not isinstance(longest, pd.Timedelta):
        return 1, "time"
    for name in ("days", "hours", "minutes", "seconds"):
        unit = pd.Timedelta(1, name)
        if longest >= 2 * unit:
            break
    return unit, name


def _numbers(times: pd.Index) -> tuple[npt.NDArray[Any], str]:
    """Return times that matplotlib draws, and the label of their axis."""
    if isinstance(times, pd.TimedeltaIndex):
        unit, name = _unit(times[-1])
        return np.asarray(times / unit, dtype=float), f"time ({name})"
    return times.to_numpy(), "time"


def _edges(times: npt.NDArray[Any], outer: int = 1) -> npt.NDArray[Any]:
    """Return the edges of steps; `outer=0` ends at the first and last time."""
    half = (times[1:] - times[:-1]) / 2
    if len(times) == 1:
        half = np.array([np.timedelta64(12, "h") if times.dtype.kind == "M" else 0.5])
    ends = outer * half[:1], outer * half[-1:]
    middles = times[:-1] + half[: len(times) - 1]
    return np.concatenate([times[:1] - ends[0], middles, times[-1:] + ends[1]])


def _date_ticks(axis: Any) -> None:
    """Label dates in full where they change, and short in between."""
    dates = require("matplotlib.dates", extra="plots", purpose="drawing a figure")
    locator = dates.AutoDateLocator(minticks=2, maxticks=5)
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.ConciseDateFormatter(locator))


def plot_relevance_of(
    series: Padded, relevance: npt.ArrayLike, title: str, x: Any = None
) -> Figure:
    """Draw the first of some series, which is `x`, coloured by relevance."""
    length = int(series.lengths[0])
    times: Any = clock_of(x)
    if times is None and series.times is not None:
        times = series.times[0, :length]
    values, names = series.values[0, :length].T, series.channels
    return plot_relevance(values, relevance, times=times, channels=names, title=title)


def _names_of(channels: Sequence[Any] | None, n: int) -> list[Any]:
    names = list(channels) if channels is not None else [f"channel {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"channels must be {n} names; got {len(names)}")
    return names


def _line(
    ax: Axes,
    steps: npt.NDArray[Any],
    values: npt.NDArray[np.float64],
    relevance: npt.NDArray[np.float64],
    largest: float,
) -> Any:
    """Draw a channel as a grey line with coloured dots."""
    ax.plot(steps, values, color="0.75", linewidth=0.8, zorder=1)
    there = np.isfinite(values)
    order = np.argsort(np.abs(relevance[there]), kind="stable")  # the most relevant on top
    return ax.scatter(
        steps[there][order],
        values[there][order],
        c=relevance[there][order],
        s=np.clip(2400 / len(values), 6, 26),
        cmap=_DIVERGING,
        vmin=-largest,
        vmax=largest,
        edgecolors="0.55",
        linewidths=0.3,
        zorder=2,
    )


def plot_class_relevance(
    relevance: Any,
    y: Any,
    *,
    times: Any = None,
    edges: npt.ArrayLike | None = None,
    channels: Sequence[object] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw the mean relevance of each class, channels over time, on one colour scale.

    Means are informative where series are aligned; a window at random positions is smeared.
    Called as ``plot_class_relevance(relevance, y)`` or
    ``plot_class_relevance(classifier, X)``, which draws the predicted classes.

    Parameters
    ----------
    relevance : array-like (n, channels, length)
        What `explain` returned, or for irregular times, what
        `tsformer.explain.relevance_over_time` made of it. Or a fitted classifier.
    y : array-like (n,)
        The class of each series. With a classifier, the series.
    times : optional
        With a classifier, times of the steps, as in `predict`; by default those in the index of
        each series. Columns are steps if all series have the same times, or the same since their
        first step, and otherwise spans of time, over which relevance is added up.
    edges : array-like (length + 1,), optional
        The times between the columns; by default the numbers of steps.
    channels : sequence, optional
        Names of the channels.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each class, in order. By default, a new figure.

    Raises
    ------
    ValueError
        If shapes do not fit or are empty, or `axes` has another number of panels.

    Examples
    --------
    >>> relevance = np.random.default_rng(0).normal(size=(6, 2, 30))
    >>> figure = plot_class_relevance(relevance, ["a", "b"] * 3)
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['a: 3 series', 'b: 3 series']
    """
    unit = "step" if edges is None else "time"
    if is_estimator(relevance, "explain"):
        classifier, X = relevance, y
        keyword = of_times(times)
        channels = common_names(to_items(X)) if channels is None else channels
        relevance, y = classifier.explain(X, **keyword), classifier.predict(X, **keyword)
        if edges is None and (clocks := _clocks(classifier, X, times)) is not None:
            relevance, edges, unit = _over_time(np.asarray(relevance), clocks)
    values, labels = np.asarray(relevance, dtype=float), np.asarray(y)
    if values.ndim != 3 or labels.shape != values.shape[:1] or not values.size:
        raise ValueError(
            "relevance must be (n, channels, length), one or more of each, and y (n,); got "
            f"{values.shape} and {labels.shape}"
        )
    _, C, L = values.shape
    ends = np.arange(L + 1) - 0.5 if edges is None else np.asarray(edges)
    if len(ends) != L + 1:
        raise ValueError(f"edges must be {L + 1}, one more than there are columns; got {len(ends)}")
    names = _names_of(channels, C)
    classes = np.unique(labels)
    means = [values[labels == label].mean(axis=0) for label in classes]
    largest = max(float(np.abs(mean).max()) for mean in means) or 1.0
    columns = 1 if len(classes) < 3 else 2
    panels = Panels(
        axes,
        len(classes),
        "class",
        n_columns=columns,
        panel=(_WIDTH / columns, min(1.2 + 0.22 * C, 4.0)),
        around=(1.0, 0.4),
        sharex=True,
        sharey=True,
    )
    every = max(1, -(-C // 12))
    for ax, label, mean in zip(panels.axes, classes, means, strict=True):
        image = ax.pcolormesh(
            ends, np.arange(C + 1) - 0.5, mean, cmap=_DIVERGING, vmin=-largest, vmax=largest
        )
        n = int((labels == label).sum())
        ax.set_title(f"{shortened(label, 24)}: {n} series", fontsize=10)
        shown = range(0, C, every)
        ax.set_yticks(list(shown), [shortened(names[i], 16) for i in shown], fontsize=8)
        ax.set_ylim(C - 0.5, -0.5)
        if ends.dtype.kind == "M":
            _date_ticks(ax.xaxis)
        else:
            fewer_ticks(ax)
    panels.colorbar(image, "mean relevance")
    panels.label(unit)
    return panels.figure


def plot_attention(
    weights: Any,
    times: npt.ArrayLike,
    x: npt.ArrayLike | None = None,
    *,
    series_times: npt.ArrayLike | None = None,
    title: str = "",
) -> Figure:
    """Draw an attention map with the series at its edges.

    Rows are queries, columns are keys. The series is drawn above the columns and beside the rows,
    each channel standardised.
    Called as ``plot_attention(weights, times, x)``, or as ``plot_attention(classifier, x)`` for the
    mean over blocks and heads.

    Parameters
    ----------
    weights : array-like (..., N, N)
        Of one series, as in ``classifier.attention(X).weights[0, 0, 0]``; the mean over further
        axes, such as blocks and heads. Padding and missing tokens, with rows of zeros, are left
        out. Or a fitted classifier.
    times : array-like (N,)
        Times of the tokens, as in ``classifier.attention(X).times[0]``; each later than the one
        before, or as late. With a classifier, the series.
    x : array-like (channels, length)
        The series.
    series_times : array-like (length,), optional
        Times of its steps, counted as `times` are; by default their numbers, or with a classifier
        the times in the index of the series.
    title : str, optional
        Title of the figure.

    Raises
    ------
    ValueError
        If shapes do not fit or are empty, a number is not finite, times decrease, or no token
        attends to any.

    Examples
    --------
    >>> figure = plot_attention(np.eye(30), np.arange(30), np.sin(np.arange(30.0))[None])
    >>> len(figure.axes)
    4
    """
    unit = "step" if series_times is None else "time"
    dates = False
    if is_estimator(weights, "attention"):
        X = [times]
        maps = weights.attention(X, None if series_times is None else [series_times])
        clocks = _clocks(weights, X, None if series_times is None else [series_times])
        timed = weights.preprocessor_.time_step is not None
        weights, times, x = maps.weights[0], maps.times[0], to_arrays(X)[0]
        if clocks is not None:
            (clock,) = clocks
            series_times, unit = _numbers(clock)
            if dates := series_times.dtype.kind == "M":
                module = require("matplotlib.dates", extra="plots", purpose="drawing a figure")
                series_times = module.date2num(series_times)
            # Tokens are counted in steps, or in seconds or numbers since the first step.
            passed: Any = np.arange(len(clock))
            if timed:
                passed = pad_times([clock], np.array([len(clock)]))[0][0]
            times = np.interp(maps.times[0], passed, np.asarray(series_times, dtype=float))
    elif x is None:
        raise TypeError("x is missing: pass plot_attention(weights, times, x) or (classifier, x)")
    values, at = np.asarray(weights, dtype=float), np.asarray(times, dtype=float)
    series = np.asarray(x, dtype=float)
    N = len(at)
    square = values.ndim > 1 and values.shape[-2:] == (N, N)
    if not (square and series.ndim == 2 and values.size and series.size):
        raise ValueError(
            "weights must be (..., N, N), times (N,) and x (channels, length), one or more of "
            f"each; got {values.shape}, {at.shape} and {series.shape}"
        )
    steps = np.arange(series.shape[1]) if series_times is None else np.asarray(series_times)
    if len(steps) != series.shape[1]:
        raise ValueError(f"series_times must be {series.shape[1]} times; got {len(steps)}")
    if not (np.isfinite(values).all() and np.isfinite(at).all()):
        raise ValueError("weights and times must be finite; got NaN or infinity")
    mean = values.reshape(-1, N, N).mean(axis=0)
    attends = mean.any(axis=1)
    if not attends.any():
        raise ValueError("weights are 0 for all tokens, as in a series without any value")
    mean, at = mean[np.ix_(attends, attends)], at[attends]
    if (np.diff(at) < 0).any():
        raise ValueError("times must not decrease; sort tokens, rows and columns by their times")
    figure = new_figure(6.8, 6.4)
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 4), width_ratios=(1, 4))
    matrix = figure.add_subplot(grid[1, 1])
    top = figure.add_subplot(grid[0, 1], sharex=matrix)
    left = figure.add_subplot(grid[1, 0], sharey=matrix)
    ends = _edges(at, outer=len(at) == 1)
    image = matrix.pcolormesh(ends, ends, mean, cmap="viridis", vmin=0)
    spread = np.nanstd(series, axis=1, keepdims=True)
    level = (series - np.nanmean(series, axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    for channel in level:
        top.plot(steps, channel, linewidth=0.9)
        left.plot(-channel, steps, linewidth=0.9)
    if dates:
        for axis in (matrix.xaxis, matrix.yaxis):
            _date_ticks(axis)
    matrix.set(xlim=(ends[0], ends[-1]), ylim=(ends[-1], ends[0]))
    matrix.set_xlabel(f"attended to, at {unit}")
    matrix.tick_params(labelleft=False)
    for ax in (top, left):
        ax.grid(alpha=0.25)
    top.tick_params(labelbottom=False)
    top.set(yticks=[], ylabel="series")
    left.set(xticks=[], xlabel="series", ylabel=f"attends, at {unit}")
    figure.colorbar(image, ax=[matrix, top], aspect=40, pad=0.02).set_label("attention weight")
    if title:
        figure.suptitle(wrapped(title, 6.3, 11), fontsize=11)
    return figure
