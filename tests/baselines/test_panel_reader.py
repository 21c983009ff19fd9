"""PanelClassifier: the same series for whatever reads them, and what was done to them."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator

from tsformer.baselines import PanelClassifier, UnreadableSeries
from tsformer.baselines.reader import _Reader
from tsformer.baselines.summary import SummaryRidgeClassifier
from tsformer.tracking.scores import classification_scores

KNN = "sklearn.neighbors.KNeighborsClassifier"


def series() -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.str_]]:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(2, 4 + i % 3)) + 5 * (i % 2) for i in range(8)]
    return X, np.array(["a", "b"] * 4)


def read(X: Any, *, layout: str = "panel", gaps: bool = False, shortest: int = 1) -> Any:
    reader = _Reader(layout, gaps, True, shortest)
    return reader.fit(X, "x"), reader


def test_shorter_series_are_padded_with_the_mean_of_each_channel() -> None:
    found, reader = read([np.array([[1.0, 3.0], [5.0, 5.0]]), np.ones((2, 4))])
    np.testing.assert_array_equal(found[0], [[1, 3, 2, 2], [5, 5, 5, 5]])
    assert reader.helped == ["padded"]
    reader.read([np.ones((2, 6))])
    assert reader.helped == ["padded", "cut"]
    flat, _ = read([np.ones((2, 3))], layout="flat")
    assert flat.shape == (1, 6)
    with_gap, _ = read([np.array([[1.0, np.nan, 5.0]]), np.ones((1, 4))], gaps=True)
    np.testing.assert_array_equal(with_gap[0], [[1, np.nan, 5, 3]], "the mean of what is there")


def test_missing_steps_at_the_end_are_an_end_and_others_are_gaps() -> None:
    nan = np.nan
    X = [np.array([[nan, 1.0, nan, 3.0, nan]]), np.array([[1.0, 1.0, 1.0, 1.0, nan]])]
    found, reader = read(X)
    np.testing.assert_array_equal(found[:, 0], [[1, 1, 2, 3], [1, 1, 1, 1]])
    assert reader.helped == ["interpolated"]
    found, reader = read(X, gaps=True)
    assert np.isnan(found).sum() == 2
    assert reader.helped == []
    empty, _ = read([np.array([[nan, nan], [1.0, 2.0]])])
    np.testing.assert_array_equal(empty[0], [[0, 0], [1, 2]])


def test_series_that_are_too_short_for_a_method_are_padded() -> None:
    found, reader = read([np.ones((1, 4))], shortest=9)
    assert found.shape == (1, 1, 9)
    assert reader.helped == ["padded"]


def test_equal_series_are_read_as_they_are() -> None:
    X = np.arange(24.0).reshape(4, 2, 3)
    found, reader = read(X)
    np.testing.assert_array_equal(found, X)
    assert reader.helped == []


@pytest.mark.parametrize("classifier", [PanelClassifier(KNN), SummaryRidgeClassifier()])
def test_y_of_another_order_and_labels_cut_at_a_nul_are_refused(classifier: Any) -> None:
    X = pd.DataFrame(np.eye(4), index=list("abcd"))
    with pytest.raises(ValueError, match="X and y have the same ids in another order"):
        classifier.fit(X, pd.Series([0, 1, 0, 1], index=list("dcba")))
    with pytest.raises(ValueError, match="y has text with a NUL character"):
        classifier.fit(X, ["a\0", "a"] * 2)


def test_ours_get_the_series_themselves() -> None:
    X, y = series()
    classifier = PanelClassifier("summary-ridge").fit(X, y)
    assert isinstance(classifier.estimator_, SummaryRidgeClassifier)
    assert classifier.helped_ == ""
    assert (classifier.predict(X) == y).all()
    assert not classifier.has_probabilities_
    with pytest.raises(AttributeError, match="summary-ridge has no probabilities"):
        classifier.predict_proba(X)


def test_scikit_learns_get_rows_and_their_parameters() -> None:
    X, y = series()
    classifier = PanelClassifier(KNN, {"n_neighbors": 1}, 3).fit(X, y)
    assert classifier.estimator_.n_features_in_ == 12
    assert (classifier.predict(X) == y).all()
    assert classifier.predict_proba(X).shape == (8, 2)
    assert classifier.helped_ == "padded"
    forest = PanelClassifier("sklearn.ensemble.RandomForestClassifier", {}, 3).fit(X, y)
    assert forest.estimator_.random_state == 3, "passed on where there is one"
    reads_gaps = PanelClassifier("sklearn.ensemble.HistGradientBoostingClassifier")
    X[0][0, 1] = np.nan
    assert reads_gaps.fit(X, y).helped_ == "padded", "its tags say so"
    assert PanelClassifier(KNN, {"n_neighbors": 1}).fit(X, y).helped_ == "interpolated, padded"


def test_a_parameter_that_is_not_there_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'n_neighbors'"):
        PanelClassifier(KNN, {"n_neighbor": 1}).fit(*series())


def test_several_channels_are_not_read_by_what_reads_one() -> None:
    pytest.importorskip("sktime", reason='needs the extra "data"')
    forest = PanelClassifier("sktime.classification.interval_based.TimeSeriesForestClassifier")
    with pytest.raises(UnreadableSeries, match="reads one channel; these series have 2"):
        forest.fit(*series())


def test_networks_that_train_on_neighbours_get_the_series_in_random_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sktime", reason='needs the extra "data"')
    from sktime.classification.deep_learning import ResNetClassifierTorch

    seen: list[tuple[Any, Any]] = []
    monkeypatch.setattr(ResNetClassifierTorch, "_fit", lambda _, X, y: seen.append((X, y)))
    X, y = np.arange(40.0)[:, None, None].repeat(9, axis=-1), np.repeat([0, 1], 20)
    for seed in (0, 0, 1):
        assert PanelClassifier("resnet", random_state=seed).fit(X, y).helped_ == "shuffled"
    for series, labels in seen:
        assert sorted(series[:, 0, 0]) == list(range(40))
        np.testing.assert_array_equal(labels, series[:, 0, 0] >= 20)
        assert 0 < labels[:16].sum() < 16, "both classes are in a batch"
    first, again, other = (series[:, 0, 0].tolist() for series, _ in seen)
    assert first == again != other


@pytest.mark.parametrize(
    ("path", "small"),
    [
        ("rocket", {"n_kernels": 8}),
        ("aeon.classification.shapelet_based.RSASTClassifier", {"n_random_points": 2}),
        ("aeon.classification.dictionary_based.WEASEL_V2", {"max_feature_count": 50}),
    ],
)
def test_a_ridge_behind_features_has_no_probabilities(path: str, small: dict[str, Any]) -> None:
    """Its library answers with ones and zeros instead, of which a log loss is nonsense."""
    pytest.importorskip("aeon", reason='needs the extra "baselines"')
    X, y = np.random.default_rng(0).normal(size=(12, 1, 20)), np.array(["a", "b"] * 6)
    classifier = PanelClassifier(path, small, 0).fit(X, y)
    with pytest.raises(AttributeError, match=f"{path} has no probabilities"):
        classifier.predict_proba(X)
    assert not classifier.has_probabilities_
    assert set(classifier.predict(X)) <= {"a", "b"}


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("sklearn.linear_model.SGDClassifier", {"loss": "hinge"}),
        ("sklearn.linear_model.RidgeClassifier", {}),
        ("sklearn.svm.LinearSVC", {"class_weight": {"a": 2.0, "b": 1.0}}),
    ],
)
def test_what_scikit_learn_gives_no_probabilities_has_none(
    path: str, parameters: dict[str, Any]
) -> None:
    classifier = PanelClassifier(path, parameters).fit(*series())
    assert not classifier.has_probabilities_
    with pytest.raises(AttributeError, match="has no probabilities"):
        classifier.predict_proba(series()[0])


def test_an_error_of_the_classifier_is_not_taken_for_a_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(Recorder):
        def predict_proba(self, X: Any) -> Any:
            return X.no_such_thing

    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: Broken)
    X, y = series()
    with pytest.raises(AttributeError, match="no_such_thing"):
        PanelClassifier("a.path").fit(X, y).predict_proba(X)


def test_a_constructor_that_raises_or_exits_is_reported_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fails(Recorder):
        def __init__(self, exits: bool = False):
            if exits:
                raise SystemExit(3)
            raise KeyError("in two\nlines")

    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: Fails)
    with pytest.raises(ValueError, match=r"^a\.b cannot be constructed: KeyError: 'in two"):
        PanelClassifier("a.b").check()
    with pytest.raises(ValueError, match=r"constructed with {'exits': True}: SystemExit: 3"):
        PanelClassifier("a.b", {"exits": True}).check()


class Recorder(BaseEstimator):
    """Keeps what it is fitted to, under the tag of tslearn and of others."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def fit(self, X: Any, y: Any) -> Recorder:
        self.X_ = X
        return self

    def predict(self, X: Any) -> Any: ...

    def predict_proba(self, X: Any) -> Any:
        raise NotImplementedError


def test_tslearn_reads_steps_before_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    mixin = type("TimeSeriesMixin", (), {"__module__": "tslearn.bases.bases"})
    theirs = type("Theirs", (mixin, Recorder), {})
    X, y = np.arange(24.0).reshape(2, 3, 4), np.array(["a", "b"])
    for cls, expected in ((theirs, X.transpose(0, 2, 1)), (Recorder, X)):
        monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name, cls=cls: cls)
        fitted = PanelClassifier("a.path").fit(X, y)
        np.testing.assert_array_equal(fitted.estimator_.X_, expected)


def test_a_method_that_is_not_implemented_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: Recorder)
    X, y = np.zeros((2, 3, 4)), np.array(["a", "b"])
    classifier = PanelClassifier("a.path").fit(X, y)
    with pytest.raises(AttributeError, match=r"a\.path has no probabilities"):
        classifier.predict_proba(X)
    assert not classifier.has_probabilities_


def test_columns_are_in_the_order_of_sorted_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    class Reversed(KNeighborsClassifier):
        def fit(self, X: Any, y: Any) -> Any:
            super().fit(X, y)
            self.classes_ = self.classes_[::-1]
            return self

    X, y = series()
    plain = PanelClassifier(KNN, {"n_neighbors": 3}).fit(X, y)
    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: Reversed)
    other = PanelClassifier("a.path", {"n_neighbors": 3}).fit(X, y)
    assert other.classes_.tolist() == plain.classes_.tolist()
    own = other.estimator_.predict_proba(np.stack([x.ravel() for x in other._reader.read(X)]))
    np.testing.assert_array_equal(other.predict_proba(X), own[:, ::-1])


class Answers:
    """Answers with arrays of these shapes."""

    def __init__(self, labels: tuple[int, ...] = (8,), shares: tuple[int, ...] = (8, 2)):
        self.labels, self.shares = labels, shares

    def fit(self, X: Any, y: Any) -> Answers:
        return self

    def predict(self, X: Any) -> Any:
        return np.full(self.labels, "a")

    def predict_proba(self, X: Any) -> Any:
        return np.full(self.shares, 0.5)


def test_an_answer_of_another_shape_is_that_of_the_classifier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: Answers)
    X, y = series()
    right = PanelClassifier("a.b").fit(X, y)
    assert right.predict(X).shape == (8,)
    assert right.predict_proba(X).shape == (8, 2)
    column = PanelClassifier("a.b", {"labels": (8, 1)}).fit(X, y)
    assert column.predict(X).shape == (8,), "as CatBoost's answers for several classes"
    for shape in ((), (7,), (8, 2)):
        wrong = PanelClassifier("a.b", {"labels": shape}).fit(X, y)
        said = f"predict of a.b must return an array of shape (8,) for 8 series; got shape {shape}"
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            wrong.predict(X)
    for shape in ((8,), (7, 2), (8, 3)):
        wrong = PanelClassifier("a.b", {"shares": shape}).fit(X, y)
        said = (
            "predict_proba of a.b must return an array of shape (8, 2) for 8 series and 2 classes"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(f'{said}; got shape {shape}')}$"):
            wrong.predict_proba(X)


class Rounds(Answers):
    """Answers in single precision, with rows that are off from a sum of one by so much."""

    def __init__(self, off: float = 0.0):
        self.off = off

    def predict_proba(self, X: Any) -> Any:
        rows = np.array([[0.1, 0.3, 0.6]]) * (1 + self.off)
        return rows.repeat(9, axis=0).astype(np.float32)


@pytest.mark.parametrize("off", [0.0, 1e-6, 0.01])
def test_probabilities_that_are_rounded_sum_to_one(
    monkeypatch: pytest.MonkeyPatch, off: float
) -> None:
    """Else scikit-learn's scores warn of each network in single precision."""
    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: Rounds)
    X, y = np.zeros((9, 1, 5)), np.array(["a", "b", "c"] * 3)
    classifier = PanelClassifier("a.b", {"off": off}).fit(X, y)
    probabilities = classifier.predict_proba(X)
    if off == 0.01:  # not rounding: as it came, and refused by the scores
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.01, rtol=1e-6)
        with (
            pytest.warns(UserWarning, match="do not sum to one"),
            pytest.raises(ValueError, match="must be probabilities"),
        ):
            classification_scores(y, probabilities, classifier.classes_)
        return
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(probabilities[0], [0.1, 0.3, 0.6], atol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classification_scores(y, probabilities, classifier.classes_)


class Draws:
    """Draws from the global generators, as some classifiers of others do."""

    def __init__(self) -> None:
        self.drawn: list[float] = []

    def fit(self, X: Any, y: Any) -> Draws:
        self.drawn = [random.random(), np.random.random(), torch.rand(1).item()]  # noqa: NPY002
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), "a")


def test_the_global_generators_are_seeded_for_a_fit_and_then_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: Draws)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]  # noqa: NPY002
    drawn = [PanelClassifier("a.b", {}, seed).fit(*series()).estimator_.drawn for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1]
    assert not set(drawn[0]) & set(drawn[2])
    after = [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]  # noqa: NPY002
    assert before == after


class SetsThreads(Draws):
    """Sets the number of threads, as those do that compile with numba."""

    def fit(self, X: Any, y: Any) -> SetsThreads:
        torch.set_num_threads(3)
        return self

    def predict(self, X: Any) -> Any:
        torch.set_num_threads(3)
        return super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        torch.set_num_threads(3)
        raise ArithmeticError


def test_the_number_of_threads_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another one, what is trained next is not what it was, though all seeds are."""
    monkeypatch.setattr("tsformer.baselines.reader.load_class", lambda name: SetsThreads)
    classifier = PanelClassifier("a.b", {}, 0).fit(*series())
    assert torch.get_num_threads() == 1
    classifier.predict(series()[0])
    assert torch.get_num_threads() == 1
    with pytest.raises(ArithmeticError):
        classifier.predict_proba(series()[0])
    assert torch.get_num_threads() == 1


def test_a_summary_is_means_deviations_slopes_and_the_length() -> None:
    from tsformer.baselines.summary import _summary

    x = np.array([[1.0, 2.0, np.nan, 4.0], [3.0, 3.0, 3.0, 3.0]])
    there = np.array([1.0, 2.0, 4.0])
    slope = np.polyfit([0, 1, 3], there, 1)[0]
    expected = [there.mean(), 3, there.std(), 0, slope, 0, 4]
    np.testing.assert_allclose(_summary(x), expected, atol=1e-12)
