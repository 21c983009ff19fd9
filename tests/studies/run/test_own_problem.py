"""Series of one's own become a problem with a name that no other series have."""

import contextlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsformer.data import list_datasets, load_dataset
from tsformer.data.sources import Source
from tsformer.data.table import TableSchema
from tsformer.studies import Progress, Study
from tsformer.studies.run.lock import StudyBusyError
from tsformer.studies.run.own_problem import OwnProblem, own_problem
from tsformer.studies.run.problem import Problem
from tsformer.studies.run.trial import fit_trial
from tsformer.tracking import TrackedRun


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def series(n: int = 20, n_channels: int = 2, labels: str = "abbb") -> Source:
    rng = np.random.default_rng(n)
    X = [rng.normal(size=(n_channels, length)) for length in rng.integers(3, 9, size=n)]
    return Source(X, np.array([labels[i % len(labels)] for i in range(n)]))


def told_apart(X) -> set[bytes]:
    return {x.tobytes() for x in X}


def grouped(n: int = 24) -> Source:
    """Two series of each of n / 2 patients, who have two classes."""
    found = series(n, labels="aabb")
    return found._replace(groups=np.array([f"p{i // 2}" for i in range(n)]))


def framed(names: str) -> Source:
    """Series as tables with named channels."""
    given = series()
    return given._replace(X=[pd.DataFrame(x.T, columns=list(names)) for x in given.X])


def others() -> Source:
    """Eight series to test on, each of its own patient."""
    return series(8)._replace(groups=np.array(list("qrstuvwx")))


def test_the_problem_is_found_by_name_and_holds_each_series_once():
    given = series()
    problem = own_problem("my table (2)", given)
    assert problem.name.startswith("my-table-2-")
    X, y = load_dataset(problem.name, "train")
    X_test, y_test = load_dataset(problem.name, "test")
    assert sorted(y) == ["a"] * 3 + ["b"] * 11
    assert sorted(y_test) == ["a"] * 2 + ["b"] * 4
    found = {(x.tobytes(), label) for x, label in zip([*X, *X_test], [*y, *y_test], strict=True)}
    assert found == {(x.tobytes(), label) for x, label in zip(given.X, given.y, strict=True)}
    listed = list_datasets().set_index("name").loc[problem.name]
    sizes = listed["train_size"], listed["test_size"]
    assert sizes == (problem.n_train, problem.n_test) == (14, 6)


def test_the_same_series_are_the_same_problem_and_others_are_another():
    given, changed = series(), series()
    changed.X[7][1, 2] += 1e-12
    relabelled = series()._replace(y=series().y[::-1])
    bare = grouped()._replace(groups=None)
    calls = [
        *((train,) for train in (given, changed, relabelled)),
        *((train, series(8)) for train in (given, relabelled)),
        *((grouped(), None, n_folds) for n_folds in (2, 3)),
        (bare, None, 3),
    ]
    names = [own_problem("x", *call[:2], n_folds=sum(call[2:])).name for call in calls]
    assert len(set(names)) == len(calls)
    assert own_problem("x", series()).name == names[0]
    assert own_problem("x", grouped(), n_folds=3).name == names[6]


def test_what_cannot_be_a_problem_leaves_nothing(tmp_path):
    given = grouped()
    bare = given._replace(groups=None)
    apart = given._replace(groups=np.where(given.y == "a", "one", given.groups))
    for train, test, n_folds, message in [
        (series(4), None, 0, "class 'a' has a single series"),
        (series(), series(8, labels="ac"), 0, r"labels that no training series has: \['c'\]"),
        (series(), series(8, n_channels=3), 0, "training series have 2 channels, the test series"),
        (framed("xy"), framed("yx"), 0, r"series 0 has \['x', 'y'\], series 20 has \['y', 'x'\]"),
        (series(8, labels=["a b", "a:b"]), None, 0, "would both be 'a_b'"),
        (series(8, labels="a"), None, 0, "all training series have the label 'a'.*two labels"),
        (given, grouped(8), 0, r"4 groups have both training and test series.*'p0'"),
        (given, given, 3, "either a test part or n_folds"),
        (given, None, 0, "series with groups are split by cross-validation"),
        (given, None, 13, "from 2 to 12, the number of groups; got 13"),
        (bare, None, 1, "from 2 to"),
        (bare, None, 13, "at most 12, the number of series of the largest class"),
        (apart, None, 3, "class 'a' has series in only one of the 3 folds.*one group only"),
    ]:
        with pytest.raises(ValueError, match=message):
            own_problem("x", train, test, n_folds=n_folds)
    assert list(tmp_path.iterdir()) == []


def test_test_series_of_their_own_and_labels_that_no_file_can_hold():
    labels = ["slow walk", "run"]
    with pytest.warns(UserWarning, match="'slow walk' is written as 'slow_walk'"):
        problem = own_problem("x", series(20, labels=labels), series(8, labels=labels))
    np.testing.assert_array_equal(load_dataset(problem.name, "train")[0][3], series(20).X[3])
    X, y = load_dataset(problem.name, "test")
    assert y.tolist() == ["slow_walk", "run"] * 4
    np.testing.assert_array_equal(X[5], series(8).X[5])


def test_series_in_both_parts_give_a_warning():
    apart = series(8)
    apart.X[:3] = series().X[4:7]
    with pytest.warns(UserWarning, match="^3 of the 8 series to test on are series to train on"):
        own_problem("mine", series(), apart)


def test_every_series_is_tested_on_once_and_no_group_is_in_both_parts():
    given = grouped()
    problem = own_problem("x", given, n_folds=3)
    group_of = {x.tobytes(): group for x, group in zip(given.X, given.groups, strict=True)}
    tested = []
    for number in range(3):
        part = Problem.load(problem.name, number)
        assert {len(part.X_train), len(part.X_test)} == {16, 8}
        assert sorted(part.y_test) == ["a"] * 4 + ["b"] * 4, "stratified"
        train, test = told_apart(part.X_train), told_apart(part.X_test)
        assert not {group_of[x] for x in train} & {group_of[x] for x in test}
        assert [group_of[x.tobytes()] for x in part.X_train] == part.groups_train.tolist()
        tested += test
    assert sorted(tested) == sorted(told_apart(given.X))
    np.testing.assert_array_equal(
        load_dataset(problem.name, "test")[0][0], Problem.load(problem.name).X_test[0]
    )
    with pytest.raises(ValueError, match=r"has 3 folds.*got number 3"):
        Problem.load(problem.name, 3)

    # Without groups.
    y = np.repeat(["a", "b"], [6, 18])
    problem = own_problem("x", series(24)._replace(y=y), n_folds=3)
    parts = [Problem.load(problem.name, number) for number in range(3)]
    assert [sorted(part.y_test) for part in parts] == [["a"] * 2 + ["b"] * 6] * 3
    tested = [x.tobytes() for part in parts for x in part.X_test]
    assert sorted(tested) == sorted(told_apart(series(24).X))


def test_it_says_how_its_series_were_split():
    named = grouped()._replace(schema=TableSchema(group="patient"))
    folds = "cross-validated in 3 stratified folds, each tested on by a fit to the others"
    assert own_problem("x", series(24), n_folds=3).split == folds
    said = f"{folds}; all series of one {{}}, of 12, are in one fold"
    assert own_problem("x", grouped(), n_folds=3).split == said.format("group")
    assert own_problem("x", named, n_folds=3).split == said.format("'patient'")
    assert "30 % of the series of each class" in own_problem("x", series()).split
    assert own_problem("x", series(), series(8)).split == "its test split is a file of its own"
    whose = "in which no 'patient' of the train split has series"
    assert own_problem("x", named, others()).split.endswith(whose)


def test_a_part_of_a_train_split_has_the_groups_of_its_series():
    given = grouped()
    problem = own_problem("x", given, others())
    group_of = {x.tobytes(): group for x, group in zip(given.X, given.groups, strict=True)}
    for size in ("100%", "50%"):
        part = Problem.load(problem.name, 0, size)
        assert [group_of[x.tobytes()] for x in part.X_train] == part.groups_train.tolist()
    with pytest.raises(ValueError, match="has groups, which resamples would divide"):
        Problem.load(problem.name, 1)
    assert Problem.load(own_problem("x", series()).name).groups_train is None


def test_fit_gets_the_groups(monkeypatch):
    problem = Problem.load(own_problem("x", grouped(), n_folds=3).name)
    seen = []

    def fit(self, X, y, groups=None):
        seen.append(groups)
        raise ArithmeticError

    methods = {
        "ensemble": {"estimator": "tsformer.TSEnsembleClassifier"},
        "near": {"estimator": "sklearn.svm.SVC"},
    }
    study = Study((problem.name,), ("none",), seeds=1, methods=methods)
    for name in ("TSTransformerClassifier", "TSEnsembleClassifier"):
        monkeypatch.setattr(f"tsformer.{name}.fit", fit)
    for trial in study.trials():
        run = TrackedRun(None, "")
        with contextlib.suppress(ArithmeticError):
            fit_trial(trial, study, problem, run)
    assert [groups.tolist() for groups in seen] == [problem.groups_train.tolist()] * 2


def test_a_new_problem_of_a_refused_comparison_is_deleted_and_others_stay(tmp_path):
    def refuse(problem: OwnProblem, *events: Progress, error: Any = ArithmeticError) -> list[str]:
        heard: list[Progress] = []
        with contextlib.suppress(error), problem.kept_if_begun(heard.append) as listener:
            for event in events:
                listener(event)
            raise error
        assert heard == list(events)
        return sorted(each.name for each in (tmp_path / "data").glob("*"))

    first, again = own_problem("x", series()), own_problem("x", series())
    assert refuse(again) == [first.name]
    assert refuse(first, error=StudyBusyError) == [first.name], "the other call reads it"
    begun = own_problem("y", series())
    assert refuse(begun, Progress("start", 1, 0, 0, 0)) == [first.name, begun.name]
    assert refuse(own_problem("x", series(8))) == [first.name, begun.name]
    assert refuse(first) == [begun.name]
    assert refuse(begun) == []
    assert list(tmp_path.iterdir()) == []
