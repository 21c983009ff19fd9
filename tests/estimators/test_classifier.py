"""What a fitted classifier answers, on real problems."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer import load_dataset


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
