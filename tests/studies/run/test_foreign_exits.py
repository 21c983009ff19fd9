"""A classifier of somebody else's that ends its process ends its own fit and nothing else."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
        "interrupt": {"estimator": "foreign_classifiers.Interrupts"},
        "recursion": {"estimator": "foreign_classifiers.Recurses"},
        "majority": {},
    }
    study = Study(("ItalyPowerDemand",), methods=methods, seeds=1)
    found = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert found.results.method.tolist() == ["majority"]
    errors = dict(zip(found.failures.method, found.failures.error, strict=True))
    said = "RuntimeError: its code called sys.exit({}), which ended this fit only"
    assert errors.pop("recursion").startswith("RecursionError: ")
    assert errors == {
        "fit": said.format(3),
        "predict": said.format("'no more'"),
        "interrupt": "RuntimeError: its code raised KeyboardInterrupt, which ended this fit only",
    }
    store = prepare_store(uri, experiment)
    assert not store.runs("KILLED", {"tsformer.kind": "fit"})
    runs = store.runs("FAILED", {"tsformer.kind": "fit"})
    assert {run.data.tags["tsformer.error"] for run in runs} >= set(errors.values())
    assert len(runs) == 4


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Handle Ctrl-C as a program does; a test of workers may have left it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("no_figures", "ctrl_c")
def test_ctrl_c_in_the_code_of_others_stops_the_comparison(
    uri: str, experiment: str, tmp_path: Path
) -> None:
    methods = {
        "signal": {"estimator": "foreign_classifiers.Interrupts", "where": "signal"},
        "majority": {},
    }
    study = Study(("ItalyPowerDemand",), methods=methods, seeds=1)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert signal.getsignal(signal.SIGINT) is before
    store = prepare_store(uri, experiment)
    assert len(store.runs("KILLED", {"tsformer.kind": "fit"})) == 1
    assert not store.runs("RUNNING")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("Hangs", {"fit_time_limit": 5}, "FitTimeLimit: the fit had not ended after 5 seconds"),
        (
            "Interrupts",
            {"jobs": 2},
            "RuntimeError: its code raised KeyboardInterrupt, which ended this fit only",
        ),
    ],
)
def test_in_a_worker_a_fit_that_hangs_or_interrupts_has_failed(
    uri: str, tmp_path: Path, name: str, options: dict[str, Any], error: str
) -> None:
    methods = {"foreign": {"estimator": f"foreign_classifiers.{name}"}}
    study = Study(("ItalyPowerDemand",), methods=methods, seeds=1)
    found = compare(study, out=tmp_path, tracking_uri=uri, experiment=name, **options)
    assert found.failures.error.tolist() == [error]
    store = prepare_store(uri, name)
    assert not store.runs("RUNNING", {"tsformer.kind": "fit"})
    (run,) = store.runs("FAILED", {"tsformer.kind": "fit"})
    assert run.data.tags["tsformer.error"] == error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit_time_limit": 0}, "fit_time_limit must be a number of seconds > 0; got 0"),
        ({"fit_time_limit": 9, "scheduler": "tcp://127.0.0.1:9"}, "Give only one of the two"),
    ],
)
def test_an_impossible_time_limit_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        compare(Study(("ItalyPowerDemand",), ("none",), seeds=1), out=tmp_path, **options)


def test_attributes_of_others_are_not_taken_for_ours() -> None:
    keras = SimpleNamespace(history={"loss": [1.0]})
    assert not _interrupted(SimpleNamespace(histories_=[keras], transformer_=None))
