"""What an evaluation adds to a run: scores, and explanations as pictures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss

from tsformer import TSTransformerClassifier, TSTransformerRegressor
from tsformer.tracking.model_run import track_evaluation
from tsformer.tracking.scores import classification_scores, scored

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1, "random_state": 0}


def test_scores_of_a_classifier_without_a_class_and_of_a_regressor():
    random = np.random.default_rng(0)
    classes = np.array(["a", "b", "c"])
    p = random.dirichlet(np.ones(3), size=40)
    y = random.choice(classes, size=40)
    scores = classification_scores(y, p, classes)
    predicted = classes[p.argmax(axis=1)]
    assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert scores["log_loss"] == pytest.approx(log_loss(y, p, labels=classes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = classification_scores(np.full(40, "a"), p, classes)
    assert alone["balanced_accuracy"] == pytest.approx((predicted == "a").mean())
    X = np.random.default_rng(0).normal(size=(10, 1, 12))
    y = X.mean(axis=(1, 2))
    regressor = TSTransformerRegressor(**SMALL).fit(X, y)
    scores, predicted, probabilities = scored(regressor, X, y)
    assert probabilities is None
    assert scores["r2"] == pytest.approx(regressor.score(X, y))
    assert scores["rmse"] == pytest.approx(np.sqrt(((predicted - y) ** 2).mean()))
    assert scores["mae"] == pytest.approx(np.abs(predicted - y).mean())


def test_some_series_of_each_class_are_explained_if_requested(store, uri):
    for library in ("mlflow", "matplotlib", "captum"):
        pytest.importorskip(library, reason='needs the extra "all"')
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(2, size)) for size in (20, 12, 15, 20)], ["a/b", "c", "c", "c"]
    classifier = TSTransformerClassifier(**SMALL).fit(X * 2, y * 2)
    where = {"dataset": "own", "tracking_uri": uri, "experiment": "explanations"}
    client, drawn = store.client(), []
    for n in (0, 2):
        run = track_evaluation(classifier, X, y, **where, explanations=n).run.run_id
        folders = [each.path for each in client.list_artifacts(run, "explanations")]
        found = [each.path for folder in folders for each in client.list_artifacts(run, folder)]
        drawn.append([path.removeprefix("explanations/") for path in found])
    assert drawn == [[], ["a_b/0.png", "c/1.png", "c/2.png"]]
