"""Figures of explanations: series coloured by relevance, relevance by class, attention maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer.data.containers import common_names, times_of, to_arrays, to_items
from tsformer.data.series import Padded
from tsformer.data.times import ordered_times, pad_times
from tsformer.explain.summaries import most_relevant_windows, relevance_over_time
from tsformer.plots.figures import (
    Panels,
    abbreviated,
    fewer_ticks,
    is_estimator,
    new_figure,
    of_times,
    place_times,
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
        Times of the steps; by default their numbers, or the index that the classifier reads.
    channels, title : optional
        Names of the channels; title of the figure, such as the class.
    n_windows, width : int, optional
        As in `tsformer.explain.most_relevant_windows`.
    axes : Axes or sequence of Axes, optional
        One panel for each channel that is drawn. By default, a new figure.

    Examples
    --------
    >>> x = np.sin(np.arange(60) / 5)[None]
    >>> plot_relevance(x, np.eye(1, 60, 20), title="class a").axes[0].get_ylabel()
    'channel 0'
    """
    clock = None if times is None else ordered_times(times, "times")
    if is_estimator(x, "explain"):
        classifier, X = x, [relevance]
        keywords = of_times(None if times is None else [times])
        title = title or f"why {classifier.predict(X, **keywords)[0]}"
        x, relevance = to_arrays(X)[0], classifier.explain(X, **keywords)[0]
        (first,) = to_items(X)
        channels = common_names([first]) if channels is None else channels
        clock = _own_times(classifier, first) if clock is None else clock
    values, shown = np.asarray(x, dtype=float), np.asarray(relevance, dtype=float)
    L = values.shape[-1] if values.ndim else 0
    shown = shown[..., :L]  # `explain` pads to the length of the longest series
    if values.ndim != 2 or shown.shape != values.shape or not values.size:
        shapes = f"{values.shape} and {shown.shape}"
        raise ValueError(f"x and relevance must be (channels, length) of one series; got {shapes}")
    if clock is not None and len(clock := clock[:L]) != L:
        raise ValueError(f"times must be one for each of {L} steps; got {len(clock)}")
    C, names = len(values), _names_of(channels, len(values))
    drawn = np.sort(np.argsort(-np.abs(shown).sum(axis=1), kind="stable")[:_MOST_CHANNELS])
    windows = most_relevant_windows(shown, n_windows, width)
    size = _WIDTH, max(1.3, 2.6 / len(drawn))
    panels = Panels(axes, len(drawn), "channel", 1, size, (0.0, 0.9), sharex=True)
    largest = float(np.abs(shown).max()) or 1.0
    style: Any = {"color": "#8A5A00", "fontsize": 9, "fontweight": "bold"}
    style |= {"ha": "center", "va": "top"}
    for ax, channel in zip(panels.axes, drawn, strict=True):
        at, unit = (np.arange(L), "step") if clock is None else place_times(ax.xaxis, clock)
        ax.plot(at, values[channel], color="0.75", linewidth=0.8, zorder=1)
        order = np.argsort(np.abs(shown[channel]), kind="stable")  # the most relevant on top
        dots: Any = {"s": np.clip(2400 / L, 6, 26), "edgecolors": "0.55", "linewidths": 0.3}
        dots |= {"c": shown[channel, order], "vmin": -largest, "vmax": largest}
        x, y = at[order], values[channel, order]
        points = ax.scatter(x, y, cmap=_DIVERGING, zorder=2, **dots)
        for rank, (where, begin, end) in enumerate(windows, start=1):
            if where == channel:
                left, right = _edges(at, 0)[[begin, end]]
                ax.axvspan(left, right, color="#E69F00", alpha=0.18, linewidth=0)
                here = ax.get_xaxis_transform()
                ax.text((left + right) / 2, 0.98, str(rank), transform=here, **style)
        ax.margins(x=0.01, y=0.2)
        ax.set_ylabel(wrapped(abbreviated(names[channel], 24), 1.2, 9), fontsize=9)
        ax.grid(alpha=0.25)
    panels.colorbar(points, "relevance")
    if panels.own:
        left_out = "" if len(drawn) == C else f" ({len(drawn)} of {C} channels)"
        panels.figure.suptitle(wrapped(f"{title}{left_out}", 0.94 * _WIDTH, 11), fontsize=11)
    panels.label(unit)
    return panels.figure


def plot_relevance_of(series: Padded, relevance: Any, title: str, x: Any = None) -> Figure:
    """Draw the first of some series, which is `x`, coloured by relevance."""
    n, times = int(series.lengths[0]), times_of(x)
    clock: Any = series.times[0, :n] if times is None and series.times is not None else times
    named: Any = {"times": clock, "channels": series.channels, "title": title}
    return plot_relevance(series.values[0, :n].T, relevance, **named)


def _own_times(classifier: Any, x: Any) -> pd.Index | None:
    """Return the times of a series that a classifier reads, or that its index has."""
    return x.index if getattr(classifier, "timestamps", None) == "index" else times_of(x)


def _edges(at: npt.NDArray[Any], outer: float = 1) -> npt.NDArray[Any]:
    """Return the edges of steps; `outer=0` ends at the first and last time."""
    half = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
    first, last = at[:1] - outer * half[:1], at[-1:] + outer * half[-1:]
    return np.concatenate([first, (at[1:] + at[:-1]) / 2, last])


def _names_of(channels: Sequence[Any] | None, n: int) -> list[Any]:
    names = list(channels) if channels is not None else [f"channel {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"channels must be {n} names; got {len(names)}")
    return names


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

    Means are informative where series are aligned. Called as
    ``plot_class_relevance(relevance, y)``, or ``plot_class_relevance(classifier, X)`` for the
    predicted classes.

    Parameters
    ----------
    relevance : array-like (n, channels, length)
        What `explain` or, for irregular times, `tsformer.explain.relevance_over_time` returned.
        Or a fitted classifier.
    y : array-like (n,)
        The class of each series. With a classifier, the series.
    times : optional
        With a classifier, times of the steps, as in `predict`; by default the index that it reads.
        Columns are steps if all series share the times, else spans of time since the first step.
    edges : array-like (length + 1,), optional
        The times between the columns; by default the numbers of steps.
    channels : sequence, optional
        Names of the channels.
    axes : Axes or sequence of Axes, optional
        One panel for each class, in order. By default, a new figure.

    Examples
    --------
    >>> figure = plot_class_relevance(np.ones((6, 2, 30)), ["a", "b"] * 3)
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['a: 3 series', 'b: 3 series']
    """
    unit, clock = "step" if edges is None else "time", None
    if is_estimator(relevance, "explain"):
        classifier, X, items, keywords = relevance, y, to_items(y), of_times(times)
        relevance, y = classifier.explain(X, **keywords), classifier.predict(X, **keywords)
        channels = common_names(items) if channels is None else channels
        clocks: Any = [_own_times(classifier, x) for x in items]
        if times is not None:
            clocks = [times] * len(items) if np.ndim(times[0]) == 0 else times
            clocks = [ordered_times(index, "times") for index in clocks]
        if edges is None and all(index is not None for index in clocks):
            longest = max(clocks, key=len)
            if all(index.equals(longest[: len(index)]) for index in clocks):
                clock = longest
            else:
                lengths = np.array(list(map(len, clocks)))
                passed, kind = pad_times(clocks, lengths)
                edges = np.linspace(0, passed.max() or 1.0, np.shape(relevance)[2] + 1)
                rows = [row[:n] for row, n in zip(passed, lengths, strict=True)]
                relevance = relevance_over_time(relevance, rows, edges)
                unit = f"{'seconds' if kind == 'dates' else 'time'} since the first step"
    values, labels = np.asarray(relevance, dtype=float), np.asarray(y)
    if values.ndim != 3 or labels.shape != values.shape[:1] or not values.size:
        shapes = f"{values.shape} and {labels.shape}"
        raise ValueError(f"relevance must be (n, channels, length), and y (n,); got {shapes}")
    _, C, L = values.shape
    ends = np.arange(L + 1) - 0.5 if edges is None else np.asarray(edges)
    if len(ends) != L + 1:
        raise ValueError(f"edges must be {L + 1}, one more than there are columns; got {len(ends)}")
    names = _names_of(channels, C)
    classes, counts = np.unique(labels, return_counts=True)
    means = [values[labels == label].mean(axis=0) for label in classes]
    largest = max(float(np.abs(mean).max()) for mean in means) or 1.0
    columns, shared = 1 if len(classes) < 3 else 2, {"sharex": True, "sharey": True}
    size = _WIDTH / columns, min(1.2 + 0.22 * C, 4.0)
    panels = Panels(axes, len(classes), "class", columns, size, (1.0, 0.4), **shared)
    shown = range(0, C, max(1, -(-C // 12)))
    for ax, label, n, mean in zip(panels.axes, classes, counts, means, strict=True):
        fewer_ticks(ax)
        if clock is not None:
            at, unit = place_times(ax.xaxis, clock)
            ends = _edges(at)
        scale: Any = {"cmap": _DIVERGING, "vmin": -largest, "vmax": largest}
        image = ax.pcolormesh(ends, np.arange(C + 1) - 0.5, mean, **scale)
        ax.set_title(f"{abbreviated(label, 24)}: {n} series", fontsize=10)
        ax.set_yticks(list(shown), [abbreviated(names[i], 16) for i in shown], fontsize=8)
        ax.set_ylim(C - 0.5, -0.5)
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
    """Draw an attention map, queries by keys, with the standardised series at its edges.

    Called as ``plot_attention(weights, times, x)``, or as ``plot_attention(classifier, x)`` for the
    mean over blocks and heads.

    Parameters
    ----------
    weights : array-like (..., N, N)
        Of one series, as in ``classifier.attention(X).weights[0]``; the mean over further axes is
        drawn, without tokens whose rows are zeros. Or a fitted classifier.
    times : array-like (N,)
        Times of the tokens, as in ``classifier.attention(X).times[0]``, not decreasing. With a
        classifier, the series.
    x : array-like (channels, length)
        The series.
    series_times : array-like (length,), optional
        Times of its steps, counted as `times` are; by default their numbers, or the index that the
        classifier reads.
    title : str, optional
        Title of the figure.

    Examples
    --------
    >>> figure = plot_attention(np.eye(30), np.arange(30), np.sin(np.arange(30.0))[None])
    >>> len(figure.axes)
    4
    """
    clock = None if series_times is None else ordered_times(series_times, "series_times")
    passed = None
    if is_estimator(weights, "attention"):
        classifier, X = weights, [times]
        maps = classifier.attention(X, None if series_times is None else [series_times])
        weights, times, x = maps.weights[0], maps.times[0], to_arrays(X)[0]
        clock = _own_times(classifier, to_items(X)[0]) if clock is None else clock
        if clock is not None:  # tokens are counted in steps, or in the unit of the times
            passed = np.arange(len(clock), dtype=float)
            if classifier.preprocessor_.time_step is not None:
                passed = pad_times([clock], np.array([len(clock)]))[0][0]
    elif x is None:
        raise TypeError("x is missing: pass plot_attention(weights, times, x) or (classifier, x)")
    values, at = np.asarray(weights, dtype=float), np.asarray(times, dtype=float)
    series, N = np.asarray(x, dtype=float), len(at)
    square = values.ndim > 1 and values.shape[-2:] == (N, N)
    if not (square and series.ndim == 2 and values.size and series.size):
        raise ValueError(
            "weights must be (..., N, N), times (N,) and x (channels, length); got "
            f"{values.shape}, {at.shape} and {series.shape}"
        )
    if clock is not None and len(clock) != series.shape[1]:
        raise ValueError(f"series_times must be {series.shape[1]} times; got {len(clock)}")
    mean = values.reshape(-1, N, N).mean(axis=0)
    attends = mean.any(axis=1)
    mean, at = mean[np.ix_(attends, attends)], at[attends]
    for wrong, problem in (
        (not np.isfinite([values.sum(), *at]).all(), "weights and times must be finite"),
        (not attends.any(), "weights are 0 for all tokens, as in a series without any value"),
        ((np.diff(at) < 0).any(), "times must not decrease; sort tokens by their times"),
    ):
        if wrong:
            raise ValueError(problem)
    figure = new_figure(6.8, 6.4)
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 4), width_ratios=(1, 4))
    matrix = figure.add_subplot(grid[1, 1])
    top = figure.add_subplot(grid[0, 1], sharex=matrix)
    left = figure.add_subplot(grid[1, 0], sharey=matrix)
    steps, unit = np.arange(series.shape[1], dtype=float), "step"
    if clock is not None:
        for axis in (matrix.xaxis, matrix.yaxis):
            steps, unit = place_times(axis, clock)
    if passed is not None:
        at = np.interp(at, passed, steps)
    ends = _edges(at, outer=len(at) == 1)
    image = matrix.pcolormesh(ends, ends, mean, cmap="viridis", vmin=0)
    spread = np.nanstd(series, axis=1, keepdims=True)
    level = (series - np.nanmean(series, axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    top.plot(steps, level.T, linewidth=0.9)
    left.plot(-level.T, steps, linewidth=0.9)
    matrix.set(xlim=(ends[0], ends[-1]), ylim=(ends[-1], ends[0]), xlabel=f"attended to, at {unit}")
    matrix.tick_params(labelleft=False)
    top.set(yticks=[], ylabel="series")
    top.tick_params(labelbottom=False)
    left.set(xticks=[], xlabel="series", ylabel=f"attends, at {unit}")
    for ax in (top, left):
        ax.grid(alpha=0.25)
    figure.colorbar(image, ax=[matrix, top], aspect=40, pad=0.02).set_label("attention weight")
    figure.suptitle(wrapped(title, 6.3, 11), fontsize=11)
    return figure
