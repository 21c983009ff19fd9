"""Relevance at real times."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer.explain import relevance_over_time


def test_sums_over_spans_keep_the_total():
    rng = np.random.default_rng(0)
    relevance = rng.normal(size=(3, 2, 20))
    times = [np.sort(rng.uniform(0, 10, n)) for n in (20, 7, 15)]
    for i, own in enumerate(times):
        relevance[i, :, len(own) :] = 0
    edges = np.array([0, 1, 4, 4.5, 10])
    found = relevance_over_time(relevance, times, edges)
    assert found.shape == (3, 2, 4)
    np.testing.assert_allclose(found.sum(axis=2), relevance.sum(axis=2))
    for i, own in enumerate(times):
        for k in range(4):
            within = (own >= edges[k]) & (own < edges[k + 1])
            expected = relevance[i][:, : len(own)][:, within].sum(axis=1)
            np.testing.assert_allclose(found[i, :, k], expected)


def test_ends_and_what_is_outside():
    found = relevance_over_time([[[1.0, 2, 4, 8, 16]]], [-1, 0, 1, 2, 3], [0, 1, 2])
    assert found.tolist() == [[[2, 12]]]


@pytest.mark.parametrize(
    ("relevance", "times", "edges", "message"),
    [
        (np.zeros((2, 3)), np.arange(3), [0, 1], r"got \(2, 3\)"),
        (np.zeros((1, 1, 3)), np.arange(3), [0, 1, 1], "increasing"),
        (np.zeros((1, 1, 3)), np.arange(4), [0, 1], "series 0 has 4 times"),
        (np.zeros((2, 1, 3)), [np.arange(3)], [0, 1], "of 2 series, but times has 1"),
    ],
)
def test_what_does_not_fit_is_refused(relevance, times, edges, message):
    with pytest.raises(ValueError, match=message):
        relevance_over_time(relevance, times, edges)
