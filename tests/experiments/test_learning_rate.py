"""learning_rate.py: what starts from an encoder is scored on the rest of the train split."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.pretraining import few_labels, learning_rate
from tsformer import load_dataset


def test_no_test_split_is_read_and_the_rest_is_scored(tmp_path, monkeypatch):
    X, y = load_dataset("ItalyPowerDemand", split="train")

    def only_train(name, split):
        assert split == "train"
        return X, y

    asked = []

    class Noted(few_labels.TSTransformerClassifier):
        def fit(self, X, y):
            asked.append((self.pretrained_lr_scale, sum(label is not None for label in y)))
            return super().fit(X, y)

        def predict(self, X):
            asked.append(len(X))
            return super().predict(X)

    monkeypatch.setattr(few_labels, "load_dataset", only_train)
    monkeypatch.setattr(learning_rate, "load_dataset", only_train)
    monkeypatch.setattr(few_labels, "TSTransformerClassifier", Noted)
    row = learning_rate.measure("ItalyPowerDemand", 0, "masked", 0.3, 1, tmp_path)
    n_train = round(0.2 * len(y))
    assert asked == [(0.3, n_train), len(y) - n_train]
    assert row["n_train"] == n_train
    right = row["accuracy"] * (len(y) - n_train)
    assert right == pytest.approx(np.rint(right), abs=1e-3)
