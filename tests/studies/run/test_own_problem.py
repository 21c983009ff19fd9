"""Series of one's own become a problem with a name that no other series have."""

import contextlib

import numpy as np
import pandas as pd
import pytest

from tsformer.data import list_datasets, load_dataset
from tsformer.data.sources import Source
from tsformer.studies import Study, which_encoding
from tsformer.studies.run.problem import (
    Problem,
    cross_validation_folds,
    n_train,
    own_problem,
)
from tsformer.studies.run.trial import Task
from tsformer.tracking import RunStore, TrackedRun


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def series(n: int = 20, n_channels: int = 2, labels: str = "abbb") -> Source:
    rng = np.random.default_rng(n)
    X = [rng.normal(size=(n_channels, length)) for length in rng.integers(3, 9, size=n)]
    return Source(X, np.array([labels[i % len(labels)] for i in range(n)]))


def grouped(n: int = 24) -> Source:
    """Two series of each of n / 2 patients, who have two classes."""
    return series(n, labels="aabb")._replace(groups=np.array([f"p{i // 2}" for i in range(n)]))


def test_the_problem_is_found_by_name_and_holds_each_series_once():
    source = series()
    problem = own_problem("my table (2)", source, n_folds=5)
    assert problem.name.startswith("my-table-2-")
    X, y = load_dataset(problem.name, "train")
    X_test, y_test = load_dataset(problem.name, "test")
    assert sorted(y) == ["a"] * 4 + ["b"] * 12
    assert sorted(y_test) == ["a"] + ["b"] * 3
    pairs = {(x.tobytes(), label) for x, label in zip([*X, *X_test], [*y, *y_test], strict=True)}
    assert pairs == {(x.tobytes(), label) for x, label in zip(source.X, source.y, strict=True)}
    listed = list_datasets().set_index("name").loc[problem.name]
    assert (listed["train_size"], listed["test_size"]) == (16, 4)


def test_the_same_series_are_the_same_problem_and_others_are_another():
    original, changed = grouped(), grouped()
    changed.X[7][1, 2] += 1e-12
    variants = [changed, original._replace(y=original.y[::-1]), original._replace(groups=None)]
    variants += [original._replace(groups=np.char.add(original.groups, "x"))]
    names = [own_problem("x", source, n_folds=3).name for source in (original, *variants)]
    names += [own_problem("x", original, n_folds=2).name]
    assert len(set(names)) == 6
    assert own_problem("x", grouped(), n_folds=3).name == names[0]


def test_what_cannot_be_a_problem_leaves_nothing(tmp_path):
    original = grouped()
    apart = original._replace(groups=np.where(original.y == "a", "one", original.groups))
    for source, n_folds, message in [
        (series(4), 3, "'a'.* 3 folds"),
        (series(8, labels=["a b", "a:b"]), 2, "are equal"),
        (series(8, labels="a"), 2, "'a'"),
        (original, 13, "n_splits=13"),
        (apart, 3, "'a'.* 3 folds"),
    ]:
        with pytest.raises(ValueError, match=message):
            own_problem("x", source, n_folds=n_folds)
    assert list(tmp_path.iterdir()) == []


def test_times_are_written_if_fits_read_them(monkeypatch):
    series_of = lambda study, **_: load_dataset(study.datasets[0], "train")[0]  # noqa: E731
    monkeypatch.setattr("tsformer.studies.run.compare.compare", series_of)
    X = [pd.DataFrame({"v": [i, 1, 2]}, index=[1.5, 2.0, 5.0]) for i in range(8)]
    bare, timed = (
        which_encoding(X, [*"abababab"], budget=1, n_folds=2, parameters={"timestamps": times})
        for times in (None, "index")
    )
    assert [tuple(x.index) for x in timed] == [(1.5, 2.0, 5.0)] * 4
    assert not hasattr(bare[0], "index")


def test_labels_that_no_file_can_hold():
    with pytest.warns(UserWarning, match="'slow_walk'"):
        problem = own_problem("x", series(20, labels=["slow walk", "run"]), n_folds=2)
    assert sorted(load_dataset(problem.name, "test")[1]) == ["run"] * 5 + ["slow_walk"] * 5


def test_missing_rows_of_frames_give_a_warning():
    minutes = pd.date_range("2026-01-01", periods=40, freq="min")
    frames = [pd.DataFrame({"x": np.arange(36.0) + i}, index=minutes[4:]) for i in range(20)]
    holes = [frame.drop(frame.index[8:12]) for frame in frames]
    with pytest.warns(UserWarning, match="missing"):
        own_problem("mine", Source(holes, series().y), n_folds=2)


def test_copies_in_other_folds_give_a_warning():
    source = series()
    source.X[:3] = source.X[4:7]
    with pytest.warns(UserWarning, match="6 of the 20"):
        own_problem("mine", source, n_folds=20 // 2)


def told_apart(X) -> set[bytes]:
    return {x.tobytes() for x in X}


def test_every_series_is_tested_on_once_and_no_group_is_in_both_parts():
    source = grouped()
    problem = own_problem("x", source, n_folds=3)
    group_of = {x.tobytes(): group for x, group in zip(source.X, source.groups, strict=True)}
    tested = []
    for number in range(3):
        fold = Problem.load(problem.name, number)
        assert {len(fold.X_train), len(fold.X_test)} == {16, 8}
        assert sorted(fold.y_test) == ["a"] * 4 + ["b"] * 4, "stratified"
        train, test = told_apart(fold.X_train), told_apart(fold.X_test)
        assert not {group_of[x] for x in train} & {group_of[x] for x in test}
        assert [group_of[x.tobytes()] for x in fold.X_train] == fold.groups_train.tolist()
        tested += test
    assert sorted(tested) == sorted(told_apart(source.X))
    some = Problem.load(problem.name, 1, "50%")
    assert [group_of[x.tobytes()] for x in some.X_train] == some.groups_train.tolist()
    with pytest.raises(ValueError):
        Problem.load(problem.name, 3)


def test_folds_without_groups_are_stratified_and_shuffled():
    source = series(24)._replace(y=np.repeat(["a", "b"], [6, 18]))
    problem = own_problem("x", source, n_folds=3)
    folds = [Problem.load(problem.name, number) for number in range(3)]
    assert [sorted(fold.y_test) for fold in folds] == [["a"] * 2 + ["b"] * 6] * 3
    assert {x.tobytes() for fold in folds for x in fold.X_test} == told_apart(source.X)
    assert all(fold.groups_train is None for fold in folds)
    assert [n_train(problem.name, number, "100%") for number in range(3)] == [16] * 3
    numbers = cross_validation_folds(np.zeros(20, dtype=int), n_folds=2)
    assert numbers.tolist() != sorted(numbers), "series may be sorted"


def test_fit_gets_the_groups(monkeypatch):
    name = own_problem("x", grouped(), n_folds=3).name
    problem, seen = Problem.load(name), []

    def fit(self, X, y, groups=None):
        seen.append(groups)
        raise ArithmeticError

    methods = {"ensemble": {}, "near": {"estimator": "sklearn.svm.SVC"}}
    study = Study((name,), ("none",), seeds=1, methods=methods)
    for name in ("TSTransformerClassifier", "TSEnsembleClassifier"):
        monkeypatch.setattr(f"tsformer.{name}.fit", fit)
    for trial in study.trials():
        task = Task(trial, study, RunStore("sqlite:///none.db", ""), "")
        with contextlib.suppress(ArithmeticError):
            task.fit(problem, TrackedRun(None, ""))
    assert [groups.tolist() for groups in seen] == [problem.groups_train.tolist()] * 2
