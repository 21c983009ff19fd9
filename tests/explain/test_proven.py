"""Explanations are right where the answer is known, and depend on what was learned."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from marks import exhaustive_except
from scipy.stats import spearmanr

from experiments.explanations import known_windows
from tsformer.data import make_window_task

pytest.importorskip("captum", reason='needs the extra "explain"')
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def solved():
    return known_windows.solved("window", 0)


@pytest.fixture(scope="module")
def asked(solved):
    X, y, decisive = make_window_task(60, random_state=1)
    right = solved.predict(X) == y
    assert right.mean() > 0.95
    return X[right], decisive[right]


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


@pytest.mark.parametrize("method", ["integrated_gradients", "occlusion", "gradient_x_input"])
def test_a_randomised_model_gives_other_explanations(method, solved, asked):
    """Adebayo et al., "Sanity Checks for Saliency Maps", NeurIPS 2018: the model randomisation."""
    X, decisive = asked
    drawn = copy.deepcopy(solved)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for weight in drawn.model_.parameters():
            weight.data = weight.data.flatten()[torch.randperm(weight.numel())].view_as(weight)
    labels = solved.predict(X)
    learned = solved.explain(X, method, labels)
    random = drawn.explain(X, method, labels)
    alike = [abs(spearmanr(a.ravel(), b.ravel())[0]) for a, b in zip(learned, random, strict=True)]
    assert np.median(alike) < 0.5
    assert hits(random, decisive) < 0.6
