"""Figures take an estimator in place of the arrays that it gives."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from small_estimators import classifier, convolutions, ensemble, regressor

from tsformer import TSTransformerClassifier
from tsformer.plots import (
    plot_attention,
    plot_class_relevance,
    plot_confusion,
    plot_encoding,
    plot_history,
    plot_relevance,
    plot_reliability,
)

for library in ("matplotlib", "captum"):
    pytest.importorskip(library, reason='needs the extra "all"')

X = np.random.default_rng(0).normal(size=(12, 2, 20))
Y = np.array(["a", "b", "c"] * 4)


@pytest.fixture(scope="module")
def clf() -> TSTransformerClassifier:
    return classifier().fit(X, Y)


def drawn(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="raw", dpi=40)
    return file.getvalue()


def test_a_classifier_is_drawn_as_its_arrays_are(clf):
    predicted, maps, encoding = clf.predict(X), clf.attention(X[3:4]), clf.model_.encoding.at(0)
    sizes = {"d_model": 8, "n_heads": 2, "name": "lspe"}
    for figure, expected in (
        (plot_history(clf), plot_history(clf.history_)),
        (plot_confusion(clf, X, list(Y)), plot_confusion(Y, predicted, clf.classes_)),
        (plot_reliability(clf, X, Y), plot_reliability(Y, clf.predict_proba(X), clf.classes_)),
        (
            plot_relevance(clf, X[3]),
            plot_relevance(X[3], clf.explain(X[3:4])[0], title=f"why {predicted[3]}"),
        ),
        (plot_class_relevance(clf, X), plot_class_relevance(clf.explain(X), predicted)),
        (plot_attention(clf, X[3]), plot_attention(maps.weights[0], maps.times[0], X[3])),
        (plot_encoding(clf), plot_encoding(encoding, clf.model_.max_tokens, **sizes)),
    ):
        assert drawn(figure) == drawn(expected)


def test_other_estimators_are_drawn_where_they_have_what_is_drawn(clf):
    rocket, mixed, numbers = convolutions().fit(X, Y), ensemble().fit(X, Y), regressor()
    assert plot_relevance(rocket, X[0]).axes
    losses = [row["loss"] for row in mixed.transformer_.history_]
    assert plot_history(mixed).axes[0].lines[0].get_ydata().tolist() == losses
    labels = pd.Series(Y, index=[f"s{i}" for i in range(12)])
    with pytest.raises(ValueError, match="ids"):
        plot_confusion(labels, labels[::-1])
    foreign = DummyClassifier(strategy="constant", constant="a").fit(X[:, 0], Y)
    assert plot_confusion(foreign, X[:, 0], pd.Series(Y)).axes[0].get_title().startswith("4 of 12")
    search = GridSearchCV(rocket, {"n_groups": [2]}, cv=2).fit(X, Y)
    for plot, arguments, name in (
        (plot_history, (rocket,), "history_"),
        (plot_attention, (rocket, X[0]), "attention"),
        (plot_relevance, (search, X[0]), "best_estimator_"),
        (plot_confusion, (numbers.fit(X, np.arange(12.0)), X, Y), "classes_"),
        (plot_confusion, (clf, X), "y is"),
        (plot_encoding, ("lspe",), "n_positions"),
        (plot_attention, (np.eye(3), np.arange(3)), "x is"),
    ):
        with pytest.raises(TypeError, match=name):
            plot(*arguments)
    with pytest.raises(NotFittedError):
        plot_history(TSTransformerClassifier())
