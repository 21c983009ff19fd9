"""sktime's own tools around our classifier, on real problems cut down."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import KFold, StratifiedKFold

from tsformer import (
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
    load_dataset,
)

pytest.importorskip("sktime", reason='needs the extra "data"')
from sktime.classification.model_evaluation import evaluate
from sktime.classification.model_selection import TSCGridSearchCV
from sktime.transformations.padder import PaddingTransformer

from tsformer.estimators.frameworks import SktimeTSEnsembleClassifier, SktimeTSTransformerClassifier

SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1, "random_state": 0}

FOLDS = StratifiedKFold(2, shuffle=True, random_state=0)
#: `evaluate` does not tell the splitter the labels, which strata would need.
PLAIN_FOLDS = KFold(2, shuffle=True, random_state=0)


def part(name: str, every: int):
    """Return every `every`-th training series, and the other training series to test on."""
    X, y = load_dataset(name, split="train")
    chosen = np.arange(len(y)) % every == 0
    return (X[chosen], y[chosen]), (X[~chosen], y[~chosen])


@pytest.fixture(scope="module")
def motions():
    return part("BasicMotions", 2)


@pytest.fixture(scope="module")
def italy():
    return part("ItalyPowerDemand", 2)


def make(encoding="lspe", **parameters) -> SktimeTSTransformerClassifier:
    usual = SMALL | {"max_epochs": 12, "batch_size": 8, "learning_rate": 5e-3}
    return SktimeTSTransformerClassifier(encoding, **usual | parameters)


@pytest.mark.slow
def test_evaluate(motions):
    X, y = motions[0]
    scores = evaluate(
        make(), cv=PLAIN_FOLDS, X=X, y=y, scoring=[accuracy_score, log_loss], error_score="raise"
    )
    assert len(scores) == 2
    assert scores["test_accuracy_score"].mean() > 0.6  # of four classes
    assert scores["test_log_loss"].mean() < np.log(4)


@pytest.mark.slow
def test_grid_search_over_the_encoding(italy):
    (X, y), (X_test, y_test) = italy
    grid = {"encoding": ["none", "lspe"]}
    search = TSCGridSearchCV(make(), grid, cv=FOLDS, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 2
    assert search.best_params_["encoding"] in grid["encoding"]
    assert search.best_estimator_.encoding == search.best_params_["encoding"]
    assert np.mean(search.predict(X_test) == y_test) > 0.8


def test_a_fitted_source_stays_fitted_in_every_clone(motions):
    (X, y), (X_test, _) = motions
    source = TSTransformerEncoder(**SMALL, max_epochs=2)
    clf = make(max_epochs=2, init_from=source, freeze="backbone")
    source.fit(X_test)  # after it was passed
    expected = TSTransformerClassifier(**clf.get_params(deep=False)).fit(X, y).transform(X_test)
    for twin in (clf, clf.clone(), clone(clf), clone(clf.clone())):
        np.testing.assert_array_equal(twin.fit(X, y).classifier_.transform(X_test), expected)
    # Inside a composition sktime clones by parameters alone.
    pipeline = PaddingTransformer() * clf
    for each in (pipeline, pipeline.clone()):
        fitted = each.fit(X, y).classifier_.classifier_
        np.testing.assert_array_equal(fitted.transform(X_test), expected)
    with pytest.raises(ValueError, match="is fitted, and the change"):
        clf.clone().set_params(init_from__d_model=8)
    assert source.d_model == 16


def test_transformers_of_an_ensemble_keep_a_fitted_source(motions):
    (X, y), (X_test, _) = motions
    source = TSTransformerEncoder(**SMALL, max_epochs=2).fit(X_test)
    params = {**SMALL, "max_epochs": 2, "init_from": source, "freeze": "backbone"}
    del params["random_state"]
    convolutions = {"n_features": 168, "n_groups": 0}
    ensemble = SktimeTSEnsembleClassifier(
        "fast", transformer_params=params, convolution_params=convolutions, random_state=0
    )
    plain = TSEnsembleClassifier(**ensemble.get_params(deep=False)).fit(X, y)
    expected = plain.transformer_.transform(X_test)
    for each in (ensemble, ensemble.clone(), clone(ensemble)):
        found = each.fit(X, y).classifier_.transformer_.transform(X_test)
        np.testing.assert_array_equal(found, expected)
    assert params["init_from"] is source
