"""Explanations are right where the answer is known."""

import numpy as np
import pytest
from marks import exhaustive_except

from experiments.explanations import known_windows

pytest.importorskip("captum", reason='needs the extra "explain"')
pytestmark = pytest.mark.slow


def hits(relevance: np.ndarray, decisive: np.ndarray) -> float:
    """Return the share of series whose largest relevance is in the window."""
    largest = relevance.reshape(len(relevance), -1).argmax(axis=1)
    return float(decisive.reshape(len(decisive), -1)[np.arange(len(largest)), largest].mean())


@pytest.mark.parametrize("seed", exhaustive_except([0, 1, 2], [0]))
@pytest.mark.parametrize("problem", exhaustive_except(["window", "twice"], ["window"]))
def test_the_largest_relevance_is_in_a_decisive_window(problem, seed):
    classifier = known_windows.solved(problem, seed)
    X, y, decisive = known_windows.draw(problem, 60, 300 + seed)
    right = classifier.predict(X) == y
    assert right.mean() > 0.95
    assert decisive.mean() == pytest.approx({"window": 8, "twice": 16}[problem] / (3 * 32))
    for method in ("integrated_gradients", "occlusion"):
        assert hits(classifier.explain(X[right], method), decisive[right]) >= 0.95
