"""Explanations as pictures of the run of an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tsformer import TSTransformerClassifier
from tsformer.tracking import RunStore
from tsformer.tracking.model_run import track_evaluation

for library in ("mlflow", "matplotlib", "captum"):
    pytest.importorskip(library, reason='needs the extra "all"')


def explained(store: RunStore, uri: str, classifier: Any, n: int) -> dict[str, list[str]]:
    """Return the pictures of each class in the run of an evaluation."""
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(2, size)) for size in (20, 12, 15, 20)], ["a/b", "c", "c", "c"]
    tracked = track_evaluation(
        classifier.fit(X * 2, y * 2),
        X,
        y,
        dataset="own",
        tracking_uri=uri,
        experiment="explanations",
        explanations=n,
    )
    client = store.client()
    folders = [each.path for each in client.list_artifacts(tracked.run.run_id, "explanations")]
    return {
        folder: [each.path for each in client.list_artifacts(tracked.run.run_id, folder)]
        for folder in folders
    }


def test_some_series_of_each_class_are_drawn(store: RunStore, uri: str) -> None:
    small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1, "random_state": 0}
    drawn = explained(store, uri, TSTransformerClassifier(**small), 2)
    assert drawn == {
        "explanations/a_b": ["explanations/a_b/0.png"],
        "explanations/c": ["explanations/c/1.png", "explanations/c/2.png"],
    }


def test_none_are_drawn_unless_asked_for(store: RunStore, uri: str) -> None:
    small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1, "random_state": 0}
    assert explained(store, uri, TSTransformerClassifier(**small), 0) == {}
