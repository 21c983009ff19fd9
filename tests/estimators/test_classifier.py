"""What a fitted classifier answers, on real problems."""

from __future__ import annotations

import copy
import pickle
import random

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

from tsformer import TSTransformerClassifier, load_dataset

METHODS = ["predict", "predict_proba", "decision_function", "transform"]


@pytest.mark.parametrize("problem", ["italy", "motions", "vowels"])
def test_answers_have_their_shapes(problem, make, request):
    X, y = request.getfixturevalue(problem)
    clf = make()
    assert clf.fit(X, y) is clf
    n, n_classes = len(X), len(set(y))
    proba = clf.predict_proba(X)
    assert proba.shape == (n, n_classes)
    assert proba.dtype == np.float64
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
    np.testing.assert_array_equal(clf.classes_, np.unique(y))
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[proba.argmax(1)])
    decision = clf.decision_function(X)
    assert decision.shape == ((n,) if n_classes == 2 else (n, n_classes))
    if n_classes == 2:
        np.testing.assert_array_equal(clf.predict(X), clf.classes_[(decision > 0).astype(int)])
    else:
        np.testing.assert_array_equal(clf.predict(X), clf.classes_[decision.argmax(1)])
    embedding = clf.transform(X)
    assert embedding.shape == (n, 16)
    assert embedding.dtype == np.float32
    assert len(clf.get_feature_names_out()) == 16
    assert clf.score(X, y) == np.mean(clf.predict(X) == y)
    assert clf.n_iter_ == len(clf.history_) == 3
    assert clf.n_channels_ == X[0].shape[0]
    assert clf.device_.type in ("cpu", "cuda", "mps")
    assert list(clf.history_.to_frame().columns) == ["loss", "lr", "seconds"]


def test_a_real_problem_is_learned(make, italy):
    X, y = italy
    clf = make(max_epochs=25, learning_rate=5e-3).fit(X, y)
    X_test, y_test = load_dataset("ItalyPowerDemand", split="test")
    assert clf.score(X_test[:300], y_test[:300]) > 0.85


@pytest.mark.slow
def test_class_sorted_series_of_unequal_length_are_learned_like_shuffled_ones(make):
    X, y = load_dataset("JapaneseVowels", split="train")
    assert (np.diff(y.astype(int)) >= 0).all(), "the file comes sorted by class"
    order = np.random.default_rng(0).permutation(len(X))
    X_test, y_test = load_dataset("JapaneseVowels", split="test")
    scores = []
    for rows in (np.arange(len(X)), order):
        clf = make(max_epochs=12, d_model=32, learning_rate=3e-3).fit([X[i] for i in rows], y[rows])
        scores.append(clf.score(X_test[:200], y_test[:200]))
    assert min(scores) > 0.85
    assert abs(scores[0] - scores[1]) < 0.06


def test_one_channel_in_two_or_three_dimensions_is_the_same(make, italy):
    X, y = italy
    flat, deep = make().fit(X[:, 0], y), make().fit(X, y)
    for a in (flat, deep):
        for b in (X[:, 0], X, list(X), [x[0] for x in X]):
            np.testing.assert_array_equal(a.predict_proba(b), flat.predict_proba(X[:, 0]))
    assert (flat.n_features_in_, flat.n_channels_) == (24, 1)
    assert (deep.n_features_in_, deep.n_channels_) == (1, 1)


def test_a_list_of_equal_lengths_is_the_array(make, motions):
    X, y = motions
    np.testing.assert_array_equal(
        make().fit(list(X), y).predict_proba(X), make().fit(X, y).predict_proba(list(X))
    )


def test_a_frame_gives_its_column_names(make, italy):
    X, y = italy
    frame = pd.DataFrame(X[:, 0], columns=[f"hour {i}" for i in range(24)])
    clf = make().fit(frame, pd.Series(y))
    assert clf.feature_names_in_[1] == "hour 1"
    np.testing.assert_array_equal(clf.predict_proba(frame), make().fit(X[:, 0], y).predict_proba(X))
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frame.rename(columns=str.upper))
    assert not hasattr(clf.fit(list(X), y), "feature_names_in_")


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
    with pytest.raises(ValueError, match=r"X has 10 features, but .* is expecting 24 features"):
        flat.predict(italy[0][:3, 0, :10])


@pytest.mark.parametrize("problem", ["motions", "vowels"])
def test_predictions_do_not_depend_on_company(problem, make, request):
    X, y = request.getfixturevalue(problem)
    clf = make().fit(X, y)
    together = clf.predict_proba(X)
    alone = np.concatenate([clf.predict_proba(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(alone, together, atol=1e-6)
    np.testing.assert_allclose(clf.predict_proba(X[::-1])[::-1], together, atol=1e-6)


@pytest.mark.parametrize("problem", ["motions", "vowels"])
def test_same_seed_same_predictions_bit_for_bit(problem, make, request):
    X, y = request.getfixturevalue(problem)
    probas = []
    for _ in range(2):
        torch.randn(1), np.random.rand(1)  # the global generators must not matter  # noqa: NPY002
        probas.append(make(early_stopping=True).fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(*probas)
    other = make(random_state=1).fit(X, y).predict_proba(X)
    assert not np.array_equal(other, probas[0])


@pytest.mark.slow
def test_random_state_may_be_a_generator_or_none(make, italy):
    X, y = italy
    one, two = (
        make(random_state=np.random.RandomState(3)).fit(X, y).predict_proba(X) for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)
    one, two = (make(random_state=None).fit(X, y).predict_proba(X) for _ in range(2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("seed", [0, None])
def test_global_generators_are_left_alone(seed, make, italy):
    X, y = italy

    def states():
        numpy = np.random.get_state()  # noqa: NPY002
        return torch.random.get_rng_state().tolist(), numpy[1].tolist(), numpy[2], random.getstate()

    before = states()
    clf = make(random_state=seed, early_stopping=True).fit(X, y)
    assert states() == before
    clf.predict(X), clf.transform(X), pickle.dumps(clf)
    assert states() == before


@pytest.mark.parametrize("problem", ["italy", "vowels"])
def test_the_callers_data_are_unchanged(problem, make, request):
    X, y = request.getfixturevalue(problem)
    kept = copy.deepcopy((list(X), y))
    arrays = [X] if isinstance(X, np.ndarray) else X
    for array in arrays:
        array.setflags(write=False)
    try:
        make(scaling="series").fit(X, y).predict(X)
        make(scaling=None).fit(X, y).predict(X)
    finally:
        for array in arrays:
            array.setflags(write=True)
    np.testing.assert_array_equal(y, kept[1])
    for x, before in zip(X, kept[0], strict=True):
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        np.array(["no", "yes"], dtype=object),
        [-5, 3],
        [10**12, -(10**12)],
        [1.0, 2.0],
        [True, False],
        np.array([3, 200], dtype=np.uint8),
        pd.Series(["a", "b"], dtype="category"),
        pd.Series(["a", "b"], dtype="string"),
        pd.Series([1, 2], dtype="Int64"),
    ],
    ids=lambda labels: (
        f"{type(labels).__name__}-{getattr(labels, 'dtype', type(labels[0]).__name__)}"
    ),
)
def test_labels_of_any_type(labels, make, italy):
    X, y = italy
    index = (y == "2").astype(int)
    given = labels.iloc[index] if isinstance(labels, pd.Series) else np.asarray(labels)[index]
    clf = make(max_epochs=6, learning_rate=5e-3, augmentation=None).fit(X, given)
    assert set(clf.predict(X)) == set(given)
    assert clf.score(X, np.asarray(given, dtype=clf.classes_.dtype)) > 0.8
    assert clf.classes_.tolist() == sorted(set(given))


def test_one_class(make, italy):
    X, _ = italy
    clf = make().fit(X, np.full(len(X), "only"))
    np.testing.assert_array_equal(clf.predict_proba(X), np.ones((len(X), 1)))
    assert set(clf.predict(X)) == {"only"}


@pytest.mark.parametrize("method", METHODS)
def test_not_fitted(method, make, italy):
    X, y = italy
    with pytest.raises(NotFittedError):
        getattr(TSTransformerClassifier(), method)(X)
    refused = make("lpse")
    with pytest.raises(ValueError, match="did you mean 'lspe'"):
        refused.fit(X, y)
    with pytest.raises(NotFittedError):
        getattr(refused, method)(X)


@pytest.mark.parametrize(
    "through", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), "joblib"]
)
def test_copies_predict_the_same(through, make, vowels, tmp_path):
    X, y = vowels
    clf = make("tape+erpe").fit(X, y)
    if through == "joblib":
        joblib.dump(clf, tmp_path / "clf")
        twin = joblib.load(tmp_path / "clf")
    else:
        twin = through(clf)
    np.testing.assert_array_equal(twin.predict_proba(X), clf.predict_proba(X))
    assert twin.history_ == clf.history_
    assert twin.history_.to_frame().equals(clf.history_.to_frame())
