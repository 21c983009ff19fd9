"""Subsets of train splits: nested, stratified, the same for every method."""

import itertools

import numpy as np
import pandas as pd
import pytest

from tsformer.data import DatasetError, write_ts
from tsformer.studies import Study, compare
from tsformer.studies.run import problem
from tsformer.studies.run.problem import (
    Problem,
    n_train,
    nested_order,
    nested_subset,
    stratified_resample,
    subset_size,
)

COUNTS = [(1, 1), (5, 1), (4, 4), (9, 3, 1), (2, 7, 5), (1, 1, 1, 6), (10, 1, 1, 1)]


def labels(counts: tuple[int, ...], seed: int = 0) -> np.ndarray:
    y = np.repeat([f"class {label}" for label in range(len(counts))], counts)
    return np.random.default_rng(seed).permutation(y)


def distance(drawn: tuple[int, ...], counts: tuple[int, ...]) -> float:
    """Return how far the numbers drawn are from those due in proportion."""
    due = np.array(counts) * sum(drawn) / sum(counts)
    return float(((np.array(drawn) - due) ** 2 / due).sum())


@pytest.mark.parametrize("counts", COUNTS)
def test_no_subset_with_every_class_is_better_stratified(counts):
    """Against all ways to take so many series with one of each class."""
    every = list(itertools.product(*(range(1, count + 1) for count in counts)))
    for seed in range(3):
        y = labels(counts, seed)
        order = nested_order(y, seed=seed)
        assert sorted(order) == list(range(len(y)))
        for n in range(len(counts), len(y) + 1):
            _, drawn = np.unique(y[order[:n]], return_counts=True)
            assert len(drawn) == len(counts), "one of each class at least"
            best = min(distance(way, counts) for way in every if sum(way) == n)
            assert distance(tuple(drawn), counts) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    ("size", "n"), [("3", 3), ("40", 40), ("10%", 4), ("1%", 3), ("14%", 6), ("100%", 40)]
)
def test_sizes_are_numbers_of_series(size, n):
    y = labels((30, 8, 2))
    subset = nested_subset(y, size, seed=0)
    assert subset_size(y, size) == n == len(subset)
    np.testing.assert_array_equal(subset, nested_subset(y, size, seed=0))
    np.testing.assert_array_equal(subset, np.sort(subset))
    for wrong in ("2", "41"):
        with pytest.raises(ValueError):
            subset_size(y, wrong)


@pytest.mark.parametrize("name", ["ItalyPowerDemand", "JapaneseVowels"])  # array and list
def test_a_problem_has_part_of_the_train_split_and_the_whole_test_split(name):
    whole, subset = Problem.load(name), Problem.load(name, 0, "50%", 3)
    indices = nested_subset(whole.y_train, "50%", seed=3)
    assert len(subset.y_train) == len(subset.X_train) == len(indices) == n_train(name, 0, "50%")
    np.testing.assert_array_equal(subset.y_train, whole.y_train[indices])
    for index, series in zip(indices, subset.X_train, strict=True):
        np.testing.assert_array_equal(series, whole.X_train[index])
    assert type(subset.X_train) is type(whole.X_train)
    assert subset.X_test is whole.X_test


@pytest.mark.parametrize("name", ["ItalyPowerDemand", "ItalyPowr"])  # of 67 series, and unknown
def test_data_that_a_study_cannot_have_are_said_before_any_fit(name, tmp_path):
    study = Study([name], ["none"], 1, train_sizes=[10, 100])
    with pytest.raises((ValueError, DatasetError)):
        compare(study, out=tmp_path / "out", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    assert list(tmp_path.iterdir()) == []


NAMES = ("ItalyPowerDemand", "JapaneseVowels")  # of one length, and of many


def series(X: object) -> list[bytes]:
    return sorted(np.asarray(x).tobytes() for x in X)


@pytest.mark.parametrize("name", NAMES)
def test_every_series_is_in_one_part_and_classes_keep_their_sizes(name):
    official, drawn, second = (Problem.load(name, number) for number in (0, 3, 2))
    assert series([*drawn.X_train, *drawn.X_test]) == series([*official.X_train, *official.X_test])
    assert series(official.X_train) != series(drawn.X_train) != series(second.X_train)
    assert type(drawn.X_train) is type(official.X_train)
    assert not official.X_train[0].flags.writeable, "all fits of a process share it"
    for split in ("y_train", "y_test"):
        assert sorted(getattr(drawn, split)) == sorted(getattr(official, split))


def test_other_times_labels_or_test_series_are_other_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/Timed").mkdir(parents=True)
    digests = []
    for end, labels, tested in ((3, "ab", 2.0), (4, "ab", 2.0), (3, "ba", 2.0), (3, "ab", 5.0)):
        for split, value in (("TRAIN", 2.0), ("TEST", tested)):
            X = [pd.DataFrame({"a": [1.0, value, 3.0]}, index=[0, 1, end])] * 2
            write_ts(tmp_path / f"data/Timed/Timed_{split}.ts", X, list(labels))
        problem.official_split.cache_clear()
        problem.series_digest.cache_clear()
        digests.append(problem.series_digest("Timed"))
    assert len(set(digests)) == 4


def test_they_are_those_of_sktime():
    sampling = pytest.importorskip("sktime.utils.sampling", reason='needs the extra "data"')
    p = Problem.load("ItalyPowerDemand")
    n, m = len(p.y_train), len(p.y_train) + len(p.y_test)
    frames = [pd.DataFrame({"i": range(n)}), pd.DataFrame({"i": range(n, m)})]
    train, y_train, test, y_test = sampling.stratified_resample(
        frames[0], p.y_train, frames[1], p.y_test, 5
    )
    ours = stratified_resample(np.arange(n), p.y_train, np.arange(n, m), p.y_test, seed=5)
    for drawn, expected in zip(ours, (train.i, y_train, test.i, y_test), strict=True):
        np.testing.assert_array_equal(drawn, expected)
