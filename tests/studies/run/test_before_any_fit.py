"""What no fit could be is said before any: of methods, and of data with folds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tsformer.data.sources import Source
from tsformer.studies import Study, compare
from tsformer.studies.run.own_problem import own_problem

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')


def refused(study: Study, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(study, out="out", tracking_uri="sqlite:///new.db")
    assert not Path("out").exists()
    assert not Path("new.db").exists()


def test_what_cannot_be_constructed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    methods = {"votes": {"estimator": "sklearn.ensemble.VotingClassifier"}, "majority": {}}
    refused(
        Study(("ItalyPowerDemand",), methods=methods),
        r"VotingClassifier cannot be constructed: TypeError: .*'estimators'",
    )


def test_more_resamples_than_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = Source(list(np.random.default_rng(0).normal(size=(12, 1, 5))), np.array(["a", "b"] * 6))
    name = own_problem("own", given, n_folds=3).name
    study = Study((name,), methods={"majority": {}}, resamples=4)
    refused(study, f"{name} has 3 folds, .* got number 3. A study of it has at most 3 resamples")
