"""A classifier of somebody else's that ends its process ends its own fit and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tsformer.studies import Study, compare
from tsformer.studies.run.trial import _interrupted
from tsformer.tracking import prepare_store

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')


@pytest.mark.usefixtures("no_figures")
def test_an_exit_is_a_failed_fit_like_any_other(
    uri: str, experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tsformer.studies.run.finalize._report", lambda *args: None)
    exits = "foreign_classifiers.Exits"
    methods = {
        "fit": {"estimator": exits},
        "predict": {"estimator": exits, "where": "predict"},
        "majority": {},
    }
    study = Study(("ItalyPowerDemand",), methods=methods, seeds=1)
    found = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert found.results.method.tolist() == ["majority"]
    errors = dict(zip(found.failures.method, found.failures.error, strict=True))
    said = "RuntimeError: its code called sys.exit({}), which ended this fit only"
    assert errors == {"fit": said.format(3), "predict": said.format("'no more'")}
    store = prepare_store(uri, experiment)
    assert not store.runs("KILLED", {"tsformer.kind": "fit"})
    runs = store.runs("FAILED", {"tsformer.kind": "fit"})
    assert {run.data.tags["tsformer.error"] for run in runs} == set(errors.values())


def test_attributes_of_others_are_not_taken_for_ours() -> None:
    keras = SimpleNamespace(history={"loss": [1.0]})
    assert not _interrupted(SimpleNamespace(histories_=[keras], transformer_=None))
