"""Tasks in this process, in worker processes and on a cluster, and what a crash costs."""

from __future__ import annotations

import faulthandler
import pickle
import re
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from small_estimators import X, Y, ensemble

from tsformer.studies import Study, compare
from tsformer.studies.run import fits as run_fits
from tsformer.studies.run.events import ProgressReporter
from tsformer.studies.run.fits import Fits
from tsformer.studies.run.trial import Task, TrialResult, run_task, was_interrupted
from tsformer.tracking import RunStore, prepare_store

ENDS = "foreign_classifiers.Ends"


def tasks(store: RunStore | None = None, **options: Any) -> list[Task]:
    study = Study(("ItalyPowerDemand",), seeds=1, **options)
    return [Task(trial, study, cast("RunStore", store), "") for trial in study.trials()]


class KilledWorker(Exception):
    """Raised by Dask for a task whose workers were lost."""


class Scripted:
    """A pool that answers with results, or loses its process, by the name of the method."""

    def __init__(self, outcomes: dict[str, Any]):
        self.outcomes = outcomes
        self.pure: bool | None = None

    def submit(self, run: Any, seconds: float | None, task: Task) -> Future[TrialResult]:
        future: Future[TrialResult] = Future()
        if error := self.outcomes[task.trial.method]:
            future.set_exception(error)
        else:
            future.set_result(TrialResult(task.trial, {"accuracy": 1.0}))
        return future

    def get_executor(self, *, pure: bool) -> Scripted:
        self.pure = pure
        return self

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        assert n_workers == 1


def test_a_lost_worker_of_a_cluster_fails_its_fit_and_no_other(monkeypatch):
    ended: list[str] = []
    monkeypatch.setattr(run_fits, "end_left_over", lambda store, study, keys: ended.extend(keys))
    monkeypatch.setattr(Task, "failed", lambda task, error: TrialResult(task.trial, None, error))
    outcomes = {"crash": KilledWorker("{SIGSEGV(-11)}"), "late": KilledWorker("{EXIT(1)}")}
    outcomes["good"] = None
    pool: Any = Scripted(outcomes)
    planned = tasks(methods={name: {"estimator": ENDS, "how": name} for name in outcomes})
    fits: Any = Fits("", time_limit=9, client=pool)
    monkeypatch.setattr(
        run_fits, "require", lambda *_, **__: SimpleNamespace(KilledWorker=KilledWorker)
    )
    errors = {result.trial.method: result.error for result in fits.results_of(planned)}
    assert set(ended) == {task.key for task in planned[:2]}
    assert re.match("ProcessLost: .*crash.*SIGSEGV", errors.pop("crash"))
    assert re.match("FitTimeLimit: late .* 9 seconds", errors.pop("late"))
    assert errors == {"good": ""}
    assert pool.pure is False, "Dask would take equal tasks for one"


def test_methods_of_other_libraries_run_in_a_worker(monkeypatch):
    methods = {"flat-ridge": {}, "random-convolutions": {}, "svc": {"estimator": "sklearn.svm.SVC"}}
    planned = tasks(encodings=("none",), methods=methods)
    here: list[str] = []
    monkeypatch.setattr(run_fits, "run_task", lambda task, _: here.append(task.trial.method))
    fits: Any = Fits("")
    fits.pools = [Scripted(dict.fromkeys(methods))]
    fits.progress = ProgressReporter(None, [task.trial for task in planned], set())
    fitted = [result and result.trial.method for result in fits.results_of(planned)]
    assert fitted == [None, "flat-ridge", None, "svc"]
    assert here == ["none", "random-convolutions"]


@pytest.mark.usefixtures("no_figures")
def test_code_that_exits_fails_its_fit(uri, experiment):
    ways = ("exit", "in predict", "recurse")
    methods = {how: {"estimator": ENDS, "how": how} for how in ways}
    store = prepare_store(uri, experiment)
    errors = {task.trial.method: run_task(task).error for task in tasks(store, methods=methods)}
    assert errors["recurse"].startswith("RecursionError: ")
    assert errors["exit"] == "SystemExit: 3"
    assert errors["in predict"] == "SystemExit: no more"
    runs = store.runs("FAILED", {"tsformer.kind": "fit"})
    assert {run.data.tags["tsformer.error"] for run in runs} >= set(errors.values())
    assert len(runs) == 3


@pytest.mark.processes
@pytest.mark.usefixtures("no_report")
def test_a_crash_or_a_hang_costs_one_fit(uri, experiment, tmp_path):
    methods = {how: {"estimator": ENDS, "how": how} for how in ("segfault", "hang")}
    methods["near"] = {"estimator": "foreign_classifiers.Nearest"}
    study = Study(("ItalyPowerDemand",), methods=methods, seeds=1)
    done = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment, fit_time_limit=5)
    assert done.results["method"].tolist() == ["near"]
    errors = dict(zip(done.failures["method"], done.failures["error"], strict=True))
    assert re.match("ProcessLost: .*segfault.*SIGSEGV", errors["segfault"])
    assert re.match("FitTimeLimit: hang .* 5 seconds", errors["hang"])
    store = prepare_store(uri, experiment)
    assert len(store.runs("FAILED", {"tsformer.kind": "fit"})) == 2
    assert len(store.runs("KILLED", {"tsformer.kind": "fit"})) == 2
    assert not store.runs("RUNNING")


def test_the_limit_of_a_fit_begins_with_it_and_ends_with_it(monkeypatch):
    limits: list[float | None] = []
    later, cancel = "dump_traceback_later", "cancel_dump_traceback_later"
    monkeypatch.setattr(faulthandler, later, lambda seconds, **options: limits.append(seconds))
    monkeypatch.setattr(faulthandler, cancel, lambda: limits.append(None))
    monkeypatch.setattr(run_fits, "run_task", lambda task, on_begin: on_begin())
    (task,) = tasks(methods={"majority": {}})
    run_fits.run_within(5, task)
    assert limits == [305, 5, None], "imports and compilation before it have five minutes"


@pytest.mark.parametrize("options", [{"fit_time_limit": 9}, {"jobs": 2}])
def test_options_of_processes_are_none_of_a_cluster(tmp_path, options):
    study = Study(("ItalyPowerDemand",), ("none",), seeds=1)
    with pytest.raises(ValueError):
        compare(study, out=tmp_path, scheduler="tcp://127.0.0.1:9", **options)


def test_a_worker_with_other_libraries_fits_nothing(monkeypatch):
    (task,) = tasks(methods={"a": {"estimator": "sklearn.svm.SVC"}})
    sent = pickle.dumps(task)
    monkeypatch.setattr(
        "tsformer.studies.design.methods.library_version", lambda path: f"{path} 0.1"
    )
    result = run_task(pickle.loads(sent))
    assert result.row is None
    assert re.match(r"OtherVersions: .*sklearn\.svm\.SVC 0\.1", result.error)


def test_which_fits_were_interrupted():
    easy = ensemble(gate=0.99).fit(X, Y)
    assert easy.transformer_ is None
    assert not was_interrupted(easy), "below the gate there is no transformer to train"
    assert was_interrupted(easy.set_params(gate=0)), "Ctrl-C before the transformer"
