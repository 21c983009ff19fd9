"""Predictions on real problems."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer import load_dataset


@pytest.mark.slow
def test_class_sorted_series_of_unequal_length_are_learned_like_shuffled_ones(make):
    X, y = load_dataset("JapaneseVowels", split="train")
    X, y = X[::2], y[::2]
    assert (np.diff(y.astype(int)) >= 0).all(), "the file comes sorted by class"
    order = np.random.default_rng(0).permutation(len(X))
    X_test, y_test = load_dataset("JapaneseVowels", split="test")
    scores = []
    for rows in (np.arange(len(X)), order):
        clf = make(max_epochs=6, learning_rate=1e-2, scaling="channel").fit(
            [X[i] for i in rows], y[rows]
        )
        scores.append(clf.score(X_test[:200], y_test[:200]))
    assert min(scores) > 0.85
    assert abs(scores[0] - scores[1]) < 0.06


def test_predicting_series_of_other_lengths(make, vowels, italy):
    X, y = vowels
    clf = make("learnable").fit(X, y)
    long = [np.tile(x, 4) for x in X[:5]]
    for series in ([x[:, :1] for x in X[:5]], long, [*X[:2], *long]):
        assert np.isfinite(clf.predict_proba(series)).all()
    np.testing.assert_allclose(
        clf.predict_proba([X[0], *long])[0], clf.predict_proba(X[:1])[0], atol=1e-6
    )
    flat = make().fit(italy[0][:, 0], italy[1])
    assert flat.predict(italy[0][:3, :, :10]).shape == (3,)
