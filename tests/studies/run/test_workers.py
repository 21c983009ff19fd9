"""Tasks in this process, in worker processes and on a cluster, and what a crash costs."""

from __future__ import annotations

import pickle
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, cast

import pytest
from small_estimators import X, Y, ensemble

from tsformer.data import DatasetError
from tsformer.studies import Study, compare
from tsformer.studies.run import executors
from tsformer.studies.run.executors import Workers, on_cluster, one_by_one
from tsformer.studies.run.progress import ProgressReporter
from tsformer.studies.run.trial import Task, TrialResult, run_task, was_interrupted
from tsformer.tracking import RunStore, prepare_store

ENDS = "foreign_classifiers.Ends"
DIED = BrokenProcessPool("It died.\nThe exit codes of the workers are {EXIT(3)}")


def tasks(store: RunStore | None = None, **options: Any) -> list[Task]:
    study = Study(("ItalyPowerDemand",), seeds=1, **options)
    return [Task(trial, study, cast("RunStore", store), "") for trial in study.trials()]


@pytest.fixture
def ends(monkeypatch):
    """Record lost fits nowhere; return the keys whose runs were ended."""
    ended: list[str] = []
    end = lambda store, study, keys: ended.extend(keys)  # noqa: E731
    monkeypatch.setattr(executors, "end_left_over", end)
    monkeypatch.setattr(
        executors, "failed", lambda task, error: TrialResult(task.trial, None, error)
    )
    return ended


class Scripted:
    """A worker that answers with results, or dies, by the name of the method."""

    calls: list[str]
    outcomes: dict[str, list[Any]]

    def __init__(self, *options: Any):
        self.timed_out = lambda: self.calls[-1] == "hangs"

    def submit(self, task: Task) -> Future[TrialResult]:
        self.calls.append(task.trial.method)
        future: Future[TrialResult] = Future()
        if self.outcomes[task.trial.method].pop(0):
            future.set_result(TrialResult(task.trial, {"accuracy": 1.0}))
        else:
            future.set_exception(DIED)
        return future

    def stop(self) -> None:
        pass


def test_a_lost_fit_is_repeated_last_and_the_second_loss_fails_it(ends, monkeypatch):
    outcomes = {"unlucky": [False, True], "crashes": [False, False], "hangs": [False], "good": [1]}
    Scripted.calls, Scripted.outcomes = [], outcomes
    monkeypatch.setattr(executors, "Worker", Scripted)
    methods = {name: {"estimator": ENDS, "how": name} for name in outcomes}
    given = tasks(methods=methods)
    with Workers(1, time_limit=9) as workers:
        found = {result.trial.method: result.error for result in workers.run(given)}
    assert Scripted.calls == [*outcomes, "unlucky", "crashes"]
    assert ends == [given[i].key for i in (0, 1, 2, 1)]
    assert re.match(r"ProcessLost: .*crashes.* 2 .*EXIT\(3\)", found.pop("crashes"))
    assert re.match("FitTimeLimit: hangs .* 9 seconds", found.pop("hangs"))
    assert found == {"unlucky": "", "good": ""}


def test_a_worker_that_was_killed_between_two_tasks_is_replaced(tmp_path, monkeypatch):
    class Pool:
        made: ClassVar[list[Pool]] = []

        def __init__(self, **options: Any):
            self.made.append(self)

        def submit(self, *call: Any) -> str:
            if self is self.made[0]:
                raise DIED
            return "of another process"

        def shutdown(self, *, kill_workers: bool) -> None:
            pass

    monkeypatch.setattr(executors, "ProcessPoolExecutor", Pool)
    worker = executors.Worker(tmp_path / "log", 1, None)
    (task,) = tasks(encodings=("none",))
    assert worker.submit(task) == "of another process"
    assert len(Pool.made) == 2


class Answer(NamedTuple):
    """A future."""

    result: Any


class KilledWorker(Exception):
    """Raised by Dask for a task whose workers were lost."""


class Cluster:
    """A Dask client and its futures: each loses the workers of some methods so many times."""

    loop = None

    def __init__(self, losses: dict[str, int]):
        self.losses = losses
        self.futures: deque[Any] = deque()

    def submit(self, run: Any, task: Task, *, pure: bool) -> Any:
        def result() -> TrialResult:
            self.losses[task.trial.method] -= 1
            if self.losses[task.trial.method] >= 0:
                raise KilledWorker("4 workers were lost")
            return TrialResult(task.trial, {})

        self.futures.append(Answer(result))
        return self.futures[-1]

    def as_completed(self, futures: list[Any], loop: None) -> Cluster:
        return self

    def __iter__(self) -> Iterator[Any]:
        while self.futures:
            yield self.futures.popleft()

    def add(self, future: Any) -> None:
        assert future in self.futures

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        assert n_workers == 1

    def cancel(self, futures: list[Any]) -> None:
        assert futures == []


def test_a_cluster_that_gives_up_a_fit_gets_it_once_more(ends, monkeypatch):
    client = Cluster({"unlucky": 1, "crashes": 2, "good": 0})
    dask = SimpleNamespace(as_completed=client.as_completed, KilledWorker=KilledWorker)
    monkeypatch.setattr(executors, "require", lambda *args, **options: dask)
    methods = {name: {"estimator": ENDS, "how": name} for name in client.losses}
    given = tasks(methods=methods)
    found = {r.trial.method: r.error for r in on_cluster(given, client)}
    assert ends == [given[i].key for i in (0, 1, 1)]
    assert re.match("ProcessLost: .*crashes.* 2 .*4 workers", found.pop("crashes"))
    assert found == {"unlucky": "", "good": ""}


def test_methods_of_other_libraries_run_in_a_worker(monkeypatch):
    methods = {"flat-ridge": {}, "random-convolutions": {}, "svc": {"estimator": "sklearn.svm.SVC"}}
    given = tasks(encodings=("none",), methods=methods)
    here: list[str] = []

    def run(task: Task, callbacks: Any) -> str:
        here.append(task.trial.method)
        return task.trial.method

    def run_there(asked: list[Task]) -> Iterator[str]:
        yield from (task.trial.method for task in asked)

    monkeypatch.setattr(executors, "run_task", run)
    workers: Any = SimpleNamespace(run=run_there)
    progress = ProgressReporter(None, [task.trial for task in given], set())
    found: list[Any] = list(one_by_one(given, workers, progress))
    assert found == ["none", *methods]
    assert here == ["none", "random-convolutions"]


@pytest.mark.usefixtures("no_figures")
def test_code_that_exits_or_interrupts_fails_its_fit(uri, experiment):
    ways = ("exit", "in predict", "interrupt", "recurse")
    methods = {how: {"estimator": ENDS, "how": how} for how in ways}
    store = prepare_store(uri, experiment)
    errors = {task.trial.method: run_task(task).error for task in tasks(store, methods=methods)}
    assert errors["recurse"].startswith("RecursionError: ")
    assert "SystemExit(3)" in errors["exit"]
    assert "SystemExit('no more')" in errors["in predict"]
    assert "KeyboardInterrupt" in errors["interrupt"]
    runs = store.runs("FAILED", {"tsformer.kind": "fit"})
    assert {run.data.tags["tsformer.error"] for run in runs} >= set(errors.values())
    assert len(runs) == 4


def test_a_data_set_that_a_worker_lacks_is_recorded_as_a_failure(uri, experiment, monkeypatch):
    def load(name: str, *options: object) -> None:
        raise DatasetError(f"there is no {name} here")

    monkeypatch.setattr("tsformer.studies.run.problem.Problem.load", load)
    store = prepare_store(uri, experiment)
    (task,) = tasks(store, encodings=("none",))
    result = run_task(task)
    assert result.error == "DatasetError: there is no ItalyPowerDemand here"
    assert result.recorded, "the store was there all the time"
    (failed,) = store.runs("FAILED")
    assert failed.data.tags["tsformer.error"] == result.error
    assert failed.data.tags["tsformer.key"] == task.key


@pytest.mark.processes
@pytest.mark.usefixtures("no_report")
def test_a_crash_or_a_hang_costs_one_fit(uri, experiment, tmp_path):
    methods = {how: {"estimator": ENDS, "how": how} for how in ("segfault", "hang")}
    methods["near"] = {"estimator": "foreign_classifiers.Nearest"}
    study = Study(("ItalyPowerDemand",), methods=methods, seeds=1)
    found = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment, fit_time_limit=5)
    assert found.results["method"].tolist() == ["near"]
    errors = dict(zip(found.failures["method"], found.failures["error"], strict=True))
    assert re.match("ProcessLost: .*segfault.*SIGSEGV", errors["segfault"])
    assert re.match("FitTimeLimit: hang .* 5 seconds", errors["hang"])
    store = prepare_store(uri, experiment)
    assert len(store.runs("FAILED", {"tsformer.kind": "fit"})) == 2
    assert len(store.runs("KILLED", {"tsformer.kind": "fit"})) == 3
    assert not store.runs("RUNNING")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit_time_limit": 0}, "fit_time_limit"),
        ({"fit_time_limit": 9, "scheduler": "tcp://127.0.0.1:9"}, "fit_time_limit=9.*scheduler"),
        ({"jobs": 2, "scheduler": "tcp://127.0.0.1:9"}, "jobs=2.*scheduler"),
        ({"jobs": 0}, "jobs"),
    ],
)
def test_impossible_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        compare(Study(("ItalyPowerDemand",), ("none",), seeds=1), out=tmp_path, **options)


def test_a_worker_with_other_libraries_fits_nothing(monkeypatch):
    (task,) = tasks(methods={"a": {"estimator": "sklearn.svm.SVC"}})
    sent = pickle.dumps(task)
    assert pickle.loads(sent).other_versions() == ""
    monkeypatch.setattr(
        "tsformer.studies.design.methods.library_version", lambda path: f"{path} 0.1"
    )
    result = run_task(pickle.loads(sent))
    assert result.row is None
    assert re.match(r"OtherVersions: .*sklearn\.svm\.SVC 0\.1,.*scikit-learn ", result.error)


def test_which_fits_were_interrupted():
    keras = SimpleNamespace(history={"loss": [1.0]})
    assert not was_interrupted(SimpleNamespace(histories_=[keras], transformer_=None))
    easy = ensemble(gate=0.99).fit(X, Y)
    assert easy.transformer_ is None
    assert not was_interrupted(easy), "below the gate there is no transformer to train"
    assert was_interrupted(easy.set_params(gate=0)), "Ctrl-C before the transformer"
