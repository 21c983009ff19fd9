"""Synthetic problems whose decisive feature is known."""

import numpy as np
from numpy.typing import NDArray

from tsformer._checks import check_known, check_number

ORDER_TASKS = ("order", "lag", "direction")
#: Steps from its centre within which a bump of width 1 is visible.
_REACH = 3


def make_order_task(
    kind: str,
    n_cases: int = 200,
    length: int = 32,
    *,
    lag: int = 4,
    noise: float = 0.1,
    random_state: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Make series of two classes that differ only in the order of their steps.

    The reverse of a series of one class is equally likely in the other: a model that sees a bag of
    steps, or only the distances between steps, is at chance level.

    Parameters
    ----------
    kind : {"order", "lag", "direction"}
        "order" has a bump ``exp(-(t - m)^2 / 2)`` up and one down, at random steps `m` at least a
        quarter of the length apart. "lag" has two channels with the same three bumps, in one `lag`
        steps later. "direction" has a line from ``-a`` to `a` or back, `a` uniform in 0.5 to 1.5.
    n_cases, length, lag : int
        Series, equally of both classes, steps, and steps between the two channels of "lag".
    noise : float, default=0.1
        Standard deviation of Gaussian noise added to every value.
    random_state : int, optional
        Seed of all random draws.

    Returns
    -------
    X, y : ndarray (n_cases, n_channels, length) and (n_cases,) of str
        The series, and their classes, such as "up first" and "down first".

    Examples
    --------
    >>> X, y = make_order_task("lag", n_cases=4, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((4, 2, 32), ['first leads', 'second leads'])
    """
    check_known("order task", kind, ORDER_TASKS)
    check_number("n_cases", n_cases, 2, whole=True)
    check_number("noise", noise, 0)
    check_number("lag", lag, 1, whole=True)
    rng = np.random.default_rng(random_state)
    forward = rng.permutation(n_cases) % 2 == 0
    apart = max(length // 4, 2 * _REACH)
    first = {"order": _REACH + apart, "lag": _REACH, "direction": 1}[kind]
    last = length - 1 - {"order": _REACH, "lag": _REACH + lag, "direction": 0}[kind]
    if first > last:
        needed = length + first - last
        raise ValueError(f"the {kind} task does not fit into {length} steps; it needs {needed}")
    if kind == "order":
        earlier, later = np.triu_indices(last + 1 - first)  # all pairs, equally likely
        drawn = rng.integers(len(earlier), size=n_cases)
        early, late = earlier[drawn] + _REACH, later[drawn] + first
        up, down = np.where(forward, early, late), np.where(forward, late, early)
        X, classes = (_bump(up, length) - _bump(down, length))[:, None], ("up first", "down first")
    elif kind == "lag":
        leading = rng.integers(first, last + 1, size=(n_cases, 3))
        channels = [_bump(leading + shift, length).sum(axis=1) for shift in (0, lag)]
        X, classes = np.stack(channels, axis=1), ("first leads", "second leads")
        X[~forward] = X[~forward, ::-1]
    else:
        height = rng.uniform(0.5, 1.5, size=n_cases) * np.where(forward, 1.0, -1.0)
        X = (height[:, None] * np.linspace(-1.0, 1.0, length))[:, None]
        classes = ("rising", "falling")
    X = X + noise * rng.standard_normal(X.shape)
    return X, np.where(forward, *classes)


def make_window_task(
    n_cases: int = 200,
    length: int = 32,
    *,
    n_channels: int = 3,
    window: int = 8,
    noise: float = 0.3,
    random_state: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.str_], NDArray[np.bool_]]:
    """Make series of two classes that differ in one window of one channel, whose place is random.

    It holds one period of a sine, upwards first or downwards first; all else is Gaussian noise.

    Parameters
    ----------
    n_cases, length, n_channels, window : int
        Series, equally of both classes, steps, channels, and steps of the window in the first.
    noise : float, default=0.3
        Standard deviation of the noise; the sine's amplitude is 1.
    random_state : int, optional
        Seed of all random draws.

    Returns
    -------
    X, y : ndarray (n_cases, n_channels, length) and (n_cases,) of str
        The series, and "up first" or "down first".
    decisive : ndarray (n_cases, n_channels, length) of bool
        True in the window.

    Examples
    --------
    >>> X, y, decisive = make_window_task(4, random_state=0)
    >>> X.shape, decisive.sum(axis=(1, 2)).tolist(), decisive[:, 1:].any()
    ((4, 3, 32), [8, 8, 8, 8], np.False_)
    """
    check_number("n_cases", n_cases, 2, whole=True)
    check_number("noise", noise, 0)
    check_number("n_channels", n_channels, 1, whole=True)
    check_number("window", window, 2, length, whole=True)
    rng = np.random.default_rng(random_state)
    up = rng.permutation(n_cases) % 2 == 0
    begin = rng.integers(length - window + 1, size=n_cases)
    X = noise * rng.standard_normal((n_cases, n_channels, length))
    step = np.arange(length) - begin[:, None]
    within = (step >= 0) & (step < window)
    sine = np.sin(2 * np.pi * (step + 0.5) / window) * within
    X[:, 0] += np.where(up, 1.0, -1.0)[:, None] * sine
    decisive = np.zeros(X.shape, dtype=np.bool_)
    decisive[:, 0] = within
    return X, np.where(up, "up first", "down first"), decisive


def _bump(middle: NDArray[np.int64], length: int) -> NDArray[np.float64]:
    """Return a bump around each centre ``[...]``, as ``[..., length]``."""
    return np.exp(-((np.arange(length) - middle[..., None]) ** 2) / 2)
