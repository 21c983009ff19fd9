"""Synthetic problems: their classes differ only as their docstrings say."""

import numpy as np
import pytest

from tsformer.data import make_order_task, make_window_task
from tsformer.data.synthetic import ORDER_TASKS

CLASSES = {
    "order": ["down first", "up first"],
    "lag": ["first leads", "second leads"],
    "direction": ["falling", "rising"],
}


@pytest.mark.parametrize("kind", ORDER_TASKS)
@pytest.mark.parametrize("n_cases", [2, 7, 100])
def test_shapes_and_classes(kind, n_cases):
    X, y = make_order_task(kind, n_cases, 30, random_state=0)
    assert X.shape == (n_cases, 2 if kind == "lag" else 1, 30)
    assert X.dtype == float
    values, counts = np.unique(y, return_counts=True)
    assert list(values) == CLASSES[kind]
    assert abs(counts[0] - counts[1]) == n_cases % 2


@pytest.mark.parametrize("kind", ORDER_TASKS)
def test_a_seed_gives_the_same_problem_and_leaves_the_global_generator_alone(kind):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, new = (make_order_task(kind, random_state=seed) for seed in (0, 0, 1))
    for ours, theirs in zip(first, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(first[0], new[0])
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_what_the_classes_say():
    X, y = make_order_task("order", noise=0.0, random_state=0)
    up, down = X[:, 0].argmax(axis=1), X[:, 0].argmin(axis=1)
    assert np.array_equal(up < down, y == "up first")
    assert np.abs(up - down).min() == 8
    X, y = make_order_task("lag", lag=5, noise=0.0, random_state=0)
    X[y != "first leads"] = X[y != "first leads", ::-1]
    np.testing.assert_allclose(X[:, 0, :-5], X[:, 1, 5:], atol=0.02)
    X, y = make_order_task("direction", noise=0.0, random_state=0)
    assert np.array_equal(X[:, 0, -1] > X[:, 0, 0], y == "rising")
    assert 0.5 <= np.abs(X[:, 0, 0]).min() < np.abs(X[:, 0, 0]).max() <= 1.5


@pytest.mark.parametrize("kind", ORDER_TASKS)
def test_the_reverse_of_one_class_is_the_other(kind):
    """In all means of steps and of their products."""
    X, y = make_order_task(kind, 20000, 20, lag=3, random_state=0)
    flat = [X[y == name].reshape(10000, -1) for name in CLASSES[kind]]
    reverse = X[y == CLASSES[kind][0]][..., ::-1].reshape(10000, -1)
    moments = [np.vstack([a.mean(axis=0), a.T @ a / len(a)]) for a in (reverse, *flat)]
    assert np.abs(moments[0] - moments[2]).max() < 0.04
    assert np.abs(moments[1] - moments[2]).max() > 0.15


def test_what_cannot_be_made_is_refused():
    for make, options in (
        (make_order_task, {"kind": "ordr"}),
        (make_order_task, {"kind": "lag", "lag": 0}),
        (make_window_task, {"window": 33}),
    ):
        with pytest.raises(ValueError):
            make(**options)


@pytest.mark.parametrize(("kind", "least"), [("order", 13), ("lag", 11), ("direction", 2)])
def test_a_task_needs_room(kind, least):
    assert make_order_task(kind, length=least)[0].shape[2] == least
    with pytest.raises(ValueError):
        make_order_task(kind, length=least - 1)


def test_the_window_alone_tells_the_classes_apart():
    X, y, decisive = make_window_task(400, 40, n_channels=2, window=6, random_state=0)
    assert X.shape == decisive.shape == (400, 2, 40)
    assert (decisive.sum(axis=(1, 2)) == 6).all()
    assert not decisive[:, 1].any()
    assert decisive[:, 0, [0, -1]].any(axis=0).all(), "a window may begin or end a series"
    assert np.unique(y, return_counts=True)[1].tolist() == [200, 200]
    windows = X[decisive].reshape(400, 6)
    first = windows[:, :3].mean(axis=1) > windows[:, 3:].mean(axis=1)
    assert ((y == "up first") == first).mean() > 0.95
    outside = np.where(decisive, np.nan, X)
    assert np.nanstd(outside) == pytest.approx(0.3, rel=0.02)
    X, y, decisive = make_window_task(4, noise=0.0, random_state=0)
    assert (X[~decisive] == 0).all()
    down, up = (X[y == label][0][0][decisive[y == label][0][0]] for label in sorted(set(y)))
    np.testing.assert_allclose(down, -up)
