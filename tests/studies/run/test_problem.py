"""Resamples of a problem: stratified, and the same as those of sktime."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer.data import write_ts
from tsformer.studies.run import problem
from tsformer.studies.run.problem import Problem, stratified_resample

NAMES = ("ItalyPowerDemand", "JapaneseVowels")  # of one length, and of many


def series(X: object) -> list[bytes]:
    return sorted(np.asarray(x).tobytes() for x in X)


@pytest.mark.parametrize("name", NAMES)
def test_every_series_is_in_one_part_and_classes_keep_their_sizes(name):
    official, drawn = Problem.load(name), Problem.load(name, 3)
    assert series([*drawn.X_train, *drawn.X_test]) == series([*official.X_train, *official.X_test])
    none, two, three = (series(Problem.load(name, number).X_train) for number in (0, 2, 3))
    assert none == series(official.X_train)
    assert none != three != two
    assert three == series(drawn.X_train)
    assert type(drawn.X_train) is type(official.X_train)
    for part in ("y_train", "y_test"):
        assert sorted(getattr(drawn, part)) == sorted(getattr(official, part))


def test_series_at_other_times_are_other_series(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for times in ([0, 1, 3], [0, 1, 4]):
        for part in ("TRAIN", "TEST"):
            (tmp_path / "data/Timed").mkdir(parents=True, exist_ok=True)
            X = [pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=times)] * 2
            write_ts(tmp_path / f"data/Timed/Timed_{part}.ts", X, ["a", "b"])
        problem._official.cache_clear()
        problem.series_digest.cache_clear()
        found.append(problem.series_digest("Timed"))
    assert len(set(found)) == 2


def test_they_are_those_of_sktime():
    sampling = pytest.importorskip("sktime.utils.sampling", reason='needs the extra "data"')
    p = Problem.load("ItalyPowerDemand")
    n = len(p.y_train)
    frames = [pd.DataFrame({"i": range(n)}), pd.DataFrame({"i": range(n, n + len(p.y_test))})]
    train, y_train, test, y_test = sampling.stratified_resample(
        frames[0], p.y_train, frames[1], p.y_test, 5
    )
    ours = stratified_resample(
        np.arange(n), p.y_train, np.arange(n, n + len(p.y_test)), p.y_test, seed=5
    )
    for found, expected in zip(ours, (train.i, y_train, test.i, y_test), strict=True):
        np.testing.assert_array_equal(found, expected)
