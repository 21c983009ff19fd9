"""Wilcoxon's signed-rank test against scipy's own, where that is exact, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer.studies.analysis.signed_rank import signed_rank_p

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_with_ties_and_zeros_as_scipys_permutations(n):
    rng = np.random.default_rng(n)
    for _ in range(4):
        apart = rng.integers(-3, 4, n) / 10
        expected = stats.wilcoxon(apart, zero_method="zsplit").pvalue if apart.any() else 1.0
        assert signed_rank_p(apart) == pytest.approx(expected, abs=1e-12)


def test_by_hand():
    assert signed_rank_p(np.ones(12)) == 2 / 2**12
    assert signed_rank_p(np.zeros(5)) == 1.0
    # Ranks 1, 2, 3: of eight ways to set signs two are as far out as +, +, + with -, -, -.
    assert signed_rank_p([0.1, 0.2, 0.3]) == 0.25
    assert signed_rank_p([0.1, -0.2, 0.3]) == signed_rank_p([-0.1, 0.2, -0.3])
    apart = np.random.default_rng(0).normal(0.3, size=45)
    assert signed_rank_p(apart) == pytest.approx(stats.wilcoxon(apart, method="exact").pvalue)
    apart = np.repeat([1.0, -1.0], [80, 40])
    # All ranks are tied, so that the test is the sign test.
    assert signed_rank_p(apart) == pytest.approx(stats.binomtest(80, 120).pvalue)
