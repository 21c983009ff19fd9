"""The windows in which most of the relevance is, and relevance at real times."""

import numpy as np
import pytest

from tsformer.explain import most_relevant_windows, relevance_over_time


def test_windows_against_plain_loops():
    rng = np.random.default_rng(0)
    relevance = rng.normal(size=(3, 40))
    windows = most_relevant_windows(relevance, 4, width=5)
    left = {(c, b): sum(relevance[c, b + k] for k in range(5)) for c in range(3) for b in range(36)}
    largest = max(left.values())
    for channel, begin, end in windows:
        best = max(left, key=left.get)
        assert (channel, begin, end) == (*best, best[1] + 5)
        assert left[best] >= largest / 4
        left = {at: s for at, s in left.items() if at[0] != channel or abs(at[1] - begin) >= 5}
    assert len(windows) == 4


def test_windows_below_quarter_are_left_out():
    relevance = np.zeros((1, 20))
    relevance[0, [3, 10, 17]] = 8, 2, 1.9
    assert most_relevant_windows(relevance, 3, width=1) == [(0, 3, 4), (0, 10, 11)]
    assert most_relevant_windows(-relevance) == []
    # By signed sums: what speaks against the class is not relevant for it.
    signed = [[-9.0, 9, 0, 0], [0, 0, 2, 0], [-9, -9, 0, 0], [1, 0, 0, 3]]
    assert most_relevant_windows(signed, 3, width=2) == [(0, 1, 3), (3, 2, 4)]
    neighbours = [[4.0, 4, 3, 3, 2, 2]]
    assert most_relevant_windows(neighbours, 3, width=2) == [(0, 0, 2), (0, 2, 4), (0, 4, 6)]
    assert most_relevant_windows(relevance)[0][2] - most_relevant_windows(relevance)[0][1] == 2


def test_sums_over_spans_keep_the_total():
    rng = np.random.default_rng(0)
    relevance = rng.normal(size=(3, 2, 20))
    times = [np.sort(rng.uniform(0, 10, n)) for n in (20, 7, 15)]
    for i, clock in enumerate(times):
        relevance[i, :, len(clock) :] = 0
    edges = np.array([0, 1, 4, 4.5, 10])
    sums = relevance_over_time(relevance, times, edges)
    assert sums.shape == (3, 2, 4)
    np.testing.assert_allclose(sums.sum(axis=2), relevance.sum(axis=2))
    for i, clock in enumerate(times):
        for k in range(4):
            within = (clock >= edges[k]) & (clock < edges[k + 1])
            expected = relevance[i][:, : len(clock)][:, within].sum(axis=1)
            np.testing.assert_allclose(sums[i, :, k], expected)
    ends = relevance_over_time([[[1.0, 2, 4, 8, 16]]], [-1, 0, 1, 2, 3], [0, 1, 2])
    assert ends.tolist() == [[[2, 12]]], "what is outside does not count"


ZEROS = np.zeros((1, 1, 3))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (most_relevant_windows, (np.zeros(5),), "channels"),
        (most_relevant_windows, (ZEROS[0], 3, 6), "width"),
        (most_relevant_windows, (ZEROS[0], 0.5), "n_windows"),
        (relevance_over_time, (np.zeros((2, 3)), np.arange(3), [0, 1]), "channels"),
        (relevance_over_time, (ZEROS, np.arange(3), [0, 1, 1]), "increasing"),
        (relevance_over_time, (ZEROS, np.arange(4), [0, 1]), "series 0 "),
    ],
)
def test_what_does_not_fit_is_refused(function, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        function(*arguments)
