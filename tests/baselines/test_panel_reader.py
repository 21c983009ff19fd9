"""PanelClassifier: the same series for whatever reads them, and what was done to them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier

from tsformer.baselines import BASELINES, Baseline, PanelClassifier, UnreadableSeries
from tsformer.baselines.summary_ridge import SummaryRidgeClassifier, summary_features

KNN = "sklearn.neighbors.KNeighborsClassifier"


def series() -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.str_]]:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(2, 4 + i % 3)) + 5 * (i % 2) for i in range(8)]
    return X, np.array(["a", "b"] * 4)


nan = np.nan
GAPS = [[[nan, 1.0, nan, 3.0, nan]], [[1.0, 1.0, 1.0, 1.0, nan]]]


@pytest.mark.parametrize(
    ("X", "gaps", "first", "helped"),
    [
        ([[[1.0, 3.0], [5.0, 5.0]], np.ones((2, 4))], False, [[1, 3, 2, 2], [5] * 4], "padded"),
        ([np.arange(6.0).reshape(2, 3)], False, [[0, 1, 2], [3, 4, 5]], ""),
        ([[[1.0, nan, 5.0]], np.ones((1, 4))], True, [[1, nan, 5, 3]], "padded"),
        (GAPS, False, [[1, 1, 2, 3]], "interpolated"),
        (GAPS, True, [[nan, 1, nan, 3]], ""),
        ([[[nan, nan], [1.0, 2.0]]], False, [[0, 0], [1, 2]], "interpolated"),
    ],
)
def test_series_are_padded_and_interpolated(foreign, X, gaps, first, helped):
    cls = type("Reads", (Foreign,), {"gaps": gaps})
    classifier = foreign(cls).fit([np.array(x) for x in X], [0] * len(X))
    np.testing.assert_array_equal(classifier.estimator_.X_[0], first)
    assert classifier.helped_ == helped


def test_longer_series_are_cut_and_short_ones_padded_to_what_is_readable(foreign, monkeypatch):
    monkeypatch.setitem(BASELINES, "a.b", Baseline("a.b", shortest=9))
    classifier = foreign(Foreign, {"labels": (1,)}).fit([np.ones((1, 4))], ["a"])
    assert classifier.estimator_.X_.shape == (1, 1, 9)
    classifier.predict([np.ones((1, 10))])
    assert classifier.helped_ == "padded, cut"


@pytest.mark.parametrize("classifier", [PanelClassifier("summary-ridge"), SummaryRidgeClassifier()])
def test_y_of_another_order_and_labels_cut_at_a_nul_are_refused(classifier):
    X = pd.DataFrame(np.eye(4), index=list("abcd"))
    with pytest.raises(ValueError):
        classifier.fit(X, pd.Series([0, 1, 0, 1], index=list("dcba")))
    with pytest.raises(ValueError):
        classifier.fit(X, ["a\0", "a"] * 2)
    assert (classifier.fit(X, [0, 1, 0, 1]).predict(X) < 2).all()


def test_scikit_learns_get_rows_and_their_parameters():
    X, y = series()
    classifier = PanelClassifier(KNN, {"n_neighbors": 1}, 3).fit(X, y)
    assert classifier.estimator_.n_features_in_ == 12
    assert (classifier.predict(X) == y).all()
    X[0][0, 1] = np.nan
    reads_gaps = PanelClassifier("sklearn.ensemble.HistGradientBoostingClassifier")
    assert reads_gaps.fit(X, y).helped_ == "padded", "its tags say so"
    assert PanelClassifier("majority").fit(X, y).helped_ == "padded", "as its entry says"
    assert PanelClassifier(KNN, {"n_neighbors": 1}).fit(X, y).helped_ == "interpolated, padded"
    listed = {"hidden_layer_sizes": [5], "max_iter": 9}  # of a file, which has no tuples
    network = PanelClassifier("sklearn.neural_network.MLPClassifier", listed)
    assert network.fit(X, y).estimator_.hidden_layer_sizes == (5,)
    with pytest.raises(ValueError, match="'n_neighbors'"):
        PanelClassifier(KNN, {"n_neighbor": 1}).fit(X, y)


def test_groups_go_where_they_are_read(foreign):
    class Grouped(Foreign):
        def fit(self, X: Any, y: Any, groups: Any = None) -> Grouped:
            self.groups_ = groups
            return self

    (X, y), groups = series(), np.arange(8) // 2
    assert foreign(Grouped).fit(X, y, groups).estimator_.groups_ is groups
    foreign(Foreign).fit(X, y, groups)


def test_networks_that_train_on_neighbours_get_the_series_in_random_order(monkeypatch):
    pytest.importorskip("sktime", reason='needs the extra "data"')
    from sktime.classification.deep_learning import ResNetClassifierTorch

    seen: list[tuple[Any, Any]] = []
    monkeypatch.setattr(ResNetClassifierTorch, "fit", lambda _, X, y: seen.append((X, y)))
    X, y = np.arange(40.0)[:, None, None].repeat(9, axis=-1), np.repeat([0, 1], 20)
    for seed in (0, 0, 1):
        assert PanelClassifier("resnet", random_state=seed).fit(X, y).helped_ == "shuffled"
    for series, labels in seen:
        assert sorted(series[:, 0, 0]) == list(range(40))
        np.testing.assert_array_equal(labels, series[:, 0, 0] >= 20)
        assert 0 < labels[:16].sum() < 16, "both classes are in a batch"
    first, again, reseeded = (series[:, 0, 0].tolist() for series, _ in seen)
    assert first == again != reseeded


def test_a_summary_is_means_deviations_slopes_and_the_length():
    x = np.array([[1.0, 2.0, np.nan, 4.0], [3.0, 3.0, 3.0, 3.0]])
    there = np.array([1.0, 2.0, 4.0])
    slope = np.polyfit([0, 1, 3], there, 1)[0]
    expected = [there.mean(), 3, there.std(), 0, slope, 0, 4]
    np.testing.assert_allclose(summary_features(x), expected, atol=1e-12)
    assert summary_features(np.array([[2.0]])).tolist() == [2, 0, 0, 1]


class Foreign(BaseEstimator):
    """Answers with arrays of these shapes, under the tag of three-dimensional input."""

    def __init__(self, labels: tuple[int, ...] = (8,), shares: tuple[int, ...] = (8, 2)):
        self.labels, self.shares = labels, shares

    gaps = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.gaps
        return tags

    def fit(self, X: Any, y: Any) -> Foreign:
        self.X_ = X
        return self

    def predict(self, X: Any) -> Any:
        return np.full(self.labels, "a")

    def predict_proba(self, X: Any) -> Any:
        return np.full(self.shares, 0.5)


@pytest.fixture
def foreign(monkeypatch):
    """Return a function that makes the classifier of a class, called `a.b`."""

    def of(cls: type[Any], *options: Any) -> PanelClassifier:
        monkeypatch.setattr("tsformer.baselines.resolve.load_class", lambda name: cls)
        return PanelClassifier("a.b", *options)

    return of


def test_what_answers_with_ones_and_zeros_or_not_at_all_has_no_probabilities(foreign):
    """The base class of sktime and aeon substitutes them, of which a log loss is nonsense."""

    class Ones(Foreign):
        def get_tag(self, name: str, **options: Any) -> bool:
            return True

        def predict_proba(self, X: Any) -> Any:
            return np.eye(2).repeat(4, axis=0)

    class Unfinished(Foreign):
        def predict_proba(self, X: Any) -> Any:
            raise NotImplementedError

    X, y = series()
    hinge = PanelClassifier("sklearn.linear_model.SGDClassifier", {"loss": "hinge"})
    for classifier in (hinge.fit(X, y), foreign(Ones).fit(X, y), foreign(Unfinished).fit(X, y)):
        with pytest.raises(AttributeError):
            classifier.predict_proba(X)
        assert not classifier.has_probabilities_


def test_tslearn_reads_steps_before_channels_and_some_read_one(foreign):
    class OneChannel(Foreign):
        def get_tag(self, name: str, **options: Any) -> bool:
            return False

    mixin = type("TimeSeriesMixin", (), {"__module__": "tslearn.bases.bases"})
    theirs = type("Theirs", (mixin, Foreign), {})
    X, y = np.arange(24.0).reshape(2, 3, 4), np.array(["a", "b"])
    for cls, expected in ((theirs, X.transpose(0, 2, 1)), (Foreign, X)):
        np.testing.assert_array_equal(foreign(cls).fit(X, y).estimator_.X_, expected)
    tags = type("Several", (Foreign,), {"get_tag": lambda *_, **__: True})
    gaps = np.where(X == 5, np.nan, X)
    assert np.isfinite(foreign(tags).fit(gaps, y).estimator_.X_).all(), "whatever its tags say"
    with pytest.raises(UnreadableSeries):
        foreign(OneChannel).fit(X, y)


def test_columns_are_in_the_order_of_sorted_labels(foreign):
    class Reversed(KNeighborsClassifier):
        def fit(self, X: Any, y: Any) -> Any:
            super().fit(X, y)
            self.classes_ = self.classes_[::-1]
            return self

    X, y = series()
    plain = PanelClassifier(KNN, {"n_neighbors": 3}).fit(X, y)
    reverse = foreign(Reversed, {"n_neighbors": 3}).fit(X, y)
    assert reverse.classes_.tolist() == plain.classes_.tolist()
    np.testing.assert_array_equal(reverse.predict_proba(X), plain.predict_proba(X)[:, ::-1])


def test_an_answer_of_another_shape_is_that_of_the_classifier(foreign):
    X, y = series()
    column = foreign(Foreign, {"labels": (8, 1)}).fit(X, y)
    assert column.predict(X).shape == (8,), "as CatBoost's answers for several classes"
    with pytest.raises(ValueError):
        foreign(Foreign, {"labels": (7,)}).fit(X, y).predict(X)
    with pytest.raises(ValueError):
        foreign(Foreign, {"shares": (8, 3)}).fit(X, y).predict_proba(X)


class Draws(Foreign):
    """Draws from the global generators and sets the number of threads, as some classifiers do."""

    def __init__(self) -> None:
        self.drawn: list[float] = []

    def fit(self, X: Any, y: Any) -> Draws:
        torch.set_num_threads(3)
        self.drawn = [random.random(), np.random.random(), torch.rand(1).item()]  # noqa: NPY002
        return self

    def predict_proba(self, X: Any) -> Any:
        torch.set_num_threads(3)
        raise ArithmeticError


def state() -> list[Any]:
    numpy = str(np.random.get_state())  # noqa: NPY002
    return [random.getstate(), numpy, torch.get_rng_state().tolist(), torch.get_num_threads()]


def test_global_state_is_seeded_for_a_call_and_then_as_it_was(foreign):
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = state()
    fitted = [foreign(Draws, {}, seed).fit(*series()) for seed in (0, 0, 1)]
    first, again, reseeded = (classifier.estimator_.drawn for classifier in fitted)
    assert first == again
    assert not set(first) & set(reseeded)
    with pytest.raises(ArithmeticError):
        fitted[0].predict_proba(series()[0])
    assert before == state()
