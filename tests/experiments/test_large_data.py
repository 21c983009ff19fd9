"""large_data.py: the generated problems, and which budgets are fitted."""

import numpy as np
import pytest

from experiments.accuracy import large_data


def test_classes_are_the_same_for_every_seed_and_the_series_are_not():
    X, y = large_data.generated(400, 1)
    other, of_other = large_data.generated(400, 2)
    assert X.shape == (400, 1, large_data.LENGTH)
    assert set(y) <= set(range(large_data.N_CLASSES))
    assert not np.array_equal(X, other)
    np.testing.assert_array_equal(X, large_data.generated(400, 1)[0])
    # The mean of a class in one is nearer to its mean in the other than to another class's.
    shared = sorted(set(y) & set(of_other))
    here, there = (
        np.stack([series[labels == k].mean(axis=(0, 1)) for k in shared])
        for series, labels in ((X, y), (other, of_other))
    )
    distances = ((here[:, None] - there) ** 2).sum(axis=-1)
    assert (distances.argmin(axis=1) == np.arange(len(shared))).mean() > 0.5


@pytest.mark.archive
def test_what_is_scored_was_not_trained_on_and_comes_from_the_train_split():
    from tsformer import load_dataset

    X, y, X_scored, y_scored = large_data.split_of("FaceAll", 0)
    whole, _ = load_dataset("FaceAll", split="train")
    assert len(y) + len(y_scored) == len(whole)
    rows = {x.tobytes() for x in np.concatenate([X, X_scored])}
    assert rows == {x.tobytes() for x in whole}


def test_budgets_are_neither_all_passes_nor_none(monkeypatch):
    monkeypatch.setattr(large_data, "ARCHIVE", ())
    monkeypatch.setattr(large_data, "GENERATED", {"small": 1000, "large": 100_000})
    found = list(large_data.cells(["small", "large"], 1))
    budgets = {
        p: [cell[2:4] for cell in found if cell[:2] == (p, "budget")] for p in ("small", "large")
    }
    assert budgets["small"] == [(40_000, 16), (40_000, 64)]
    assert budgets["large"] == [(160_000, 16), (160_000, 64), (400_000, 64)]
