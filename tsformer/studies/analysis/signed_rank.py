"""Wilcoxon's signed-rank test, exact for any number of ties, zeros and data sets.

Not `scipy.stats.wilcoxon` (1.17): its exact method ignores ties and zeros, which accuracies have,
and its permutation test is exact for up to 13 data sets only, at nearly five seconds per pair.
"""

import numpy as np
import numpy.typing as npt


def signed_rank_p(differences: npt.ArrayLike) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test (Biometrics Bulletin 1945).

    This is the fraction of all assignments of signs to the differences whose sum of positive ranks
    is at least as far from its mean as the observed one. Ties share their mean rank; the rank of a
    zero is split between both sides, as by ``zero_method="zsplit"`` of `scipy.stats.wilcoxon`.
    """
    from scipy.stats import rankdata

    differences = np.asarray(differences, dtype=float)
    # Doubled ranks are integers, ties or not, so their sums can be counted.
    ranks = np.rint(2 * rankdata(np.abs(differences))).astype(int)
    signed = ranks[differences != 0]
    if not len(signed):
        return 1.0
    chance = np.ones(1)  # chance[s]: probability that the positive ranks so far sum to s
    for rank in signed:
        chance = 0.5 * (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0)))
    seen = int(ranks[differences > 0].sum())
    tail = min(chance[: seen + 1].sum(), chance[seen:].sum())
    return float(min(1.0, 2 * tail))
