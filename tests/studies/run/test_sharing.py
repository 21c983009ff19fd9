"""Fits that another call runs: waited for, read back, taken over, and left alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import tsformer.studies.run.sharing as sharing
from tsformer.studies import Progress, Study, compare
from tsformer.studies.design.study import Trial
from tsformer.studies.run.progress import ProgressReporter
from tsformer.studies.run.sharing import shared
from tsformer.studies.run.worker import TrialResult
from tsformer.tracking import RunStore, TrackedRun, prepare_store
from tsformer.tracking.claims import Claims

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

pytestmark = pytest.mark.usefixtures("no_figures", "no_waiting")

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
STUDY = Study(("ItalyPowerDemand",), ("none",), seeds=3, parameters=SMALL)
TRIALS = STUDY.trials()


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_POLL_SECONDS", 0.01)


@pytest.fixture
def store(uri: str, experiment: str) -> RunStore:
    return prepare_store(uri, experiment)


@pytest.fixture
def claimed(store: RunStore) -> Callable[..., TrackedRun]:
    """Claim a fit in the name of another call, whose process is alive."""
    others = Claims(store, "another call")

    def claim(trial: Trial, study: Study = STUDY) -> TrackedRun:
        hashed = study.hash_of(trial.variant, trial.method)
        tags = {"tsformer.configuration": hashed, **others.tags()}
        run = store.start(str(trial), kind="fit", key=study.key(*trial), tags=tags)
        assert others.confirm(study.key(*trial), run)
        return run

    return claim


def finish(run: TrackedRun) -> None:
    run.metrics({"test/accuracy": 0.75, "n_epochs": 2})
    run.end("FINISHED")


def test_what_others_finish_fail_or_give_up(
    claimed: Any, store: RunStore, uri: str, experiment: str, tmp_path: Path, statuses: Any
) -> None:
    finished, failed, given_up = map(claimed, TRIALS)
    events: list[Progress] = []

    def others_go_on(progress: Progress) -> None:
        events.append(progress)
        waited = [e.event for e in events].count("waiting")
        if progress.event != "waiting":
            return
        if waited == 2:
            given_up.end("KILLED")
        elif finished.status is None:
            finish(finished)
            failed.error(ArithmeticError("no such luck"))
            failed.end("FAILED")

    comparison = compare(
        STUDY, out=tmp_path, tracking_uri=uri, experiment=experiment, on_progress=others_go_on
    )
    assert comparison.results["seed"].tolist() == [0, 2]
    assert comparison.results["run_id"][0] == finished.run_id
    assert comparison.results["accuracy"][0] == 0.75
    assert comparison.failures[["seed", "error"]].to_numpy().tolist() == [
        [1, "ArithmeticError: no such luck"]
    ]
    keys = [STUDY.key(*trial) for trial in TRIALS]
    assert statuses(store) == {
        (keys[0], "FINISHED"): 1,
        (keys[1], "FAILED"): 1,
        (keys[2], "KILLED"): 1,
        (keys[2], "FINISHED"): 1,
    }
    assert pd.read_csv(comparison.csv_path)["seed"].tolist() == [0, 2]
    waiting = [e for e in events if e.event == "waiting"]
    assert {e.running for e in waiting} == {0}
    assert waiting[0].trial == TRIALS[0]
    assert events[-1].seconds_left == 0.0


@pytest.mark.parametrize("how", ["finish", "fail", "give up"])
def test_one_fit_of_others_is_that_of_every_seed(
    how: str, claimed: Any, store: RunStore, uri: str, experiment: str, tmp_path: Path,
    statuses: Any,
) -> None:  # fmt: skip
    """A method that draws nothing has one key for all seeds."""
    study = Study(("ItalyPowerDemand",), methods={"majority": {}}, seeds=3)
    key = study.key(*study.trials()[0])
    assert {study.key(*trial) for trial in study.trials()} == {key}
    theirs = claimed(study.trials()[1], study)

    def others_go_on(progress: Progress) -> None:
        if progress.event != "waiting" or theirs.status is not None:
            return
        if how == "finish":
            finish(theirs)
        elif how == "fail":
            theirs.error(ArithmeticError("no such luck"))
            theirs.end("FAILED")
        else:
            theirs.end("KILLED")

    found = compare(
        study, out=tmp_path, tracking_uri=uri, experiment=experiment, on_progress=others_go_on
    )
    seeds = {"results": found.results["seed"].tolist(), "failures": found.failures["seed"].tolist()}
    if how == "fail":
        assert seeds == {"results": [], "failures": [0, 1, 2]}
        assert statuses(store) == {(key, "FAILED"): 1}
        return
    assert seeds == {"results": [0, 1, 2], "failures": []}
    assert found.results["run_id"].nunique() == 1
    assert (found.results["run_id"][0] == theirs.run_id) == (how == "finish")
    once = {(key, "FINISHED"): 1}
    assert statuses(store) == (once if how == "finish" else {(key, "KILLED"): 1, **once})


def test_ctrl_c_leaves_the_fits_of_others_alone(
    claimed: Any, store: RunStore, uri: str, experiment: str, tmp_path: Path
) -> None:
    theirs = claimed(TRIALS[1])

    def press(progress: Progress) -> None:
        if progress.event == "waiting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(STUDY, out=tmp_path, tracking_uri=uri, experiment=experiment, on_progress=press)
    assert not theirs.ended()
    assert pd.read_csv(tmp_path / "results.csv")["seed"].tolist() == [0, 2]
    everything = store.client().search_runs([store.experiment_id], run_view_type=3)  # deleted too
    keys = Counter(run.data.tags["tsformer.key"] for run in everything)
    assert keys[STUDY.key(*TRIALS[1])] == 1, "what is held is not even tried"
    theirs.end("KILLED")


def test_a_call_that_raises_gives_up_its_fits(
    store: RunStore, uri: str, experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: list[TrackedRun] = []

    def leaves_a_run_and_breaks(tasks: Any, progress: Any) -> Any:
        task = tasks[0]
        tags = task.claims.tags()
        own.append(store.start("left", kind="fit", key=task.key, tags=tags))
        raise RuntimeError("workers end before they start a fit")

    monkeypatch.setattr("tsformer.studies.run.executors.in_this_process", leaves_a_run_and_breaks)
    with pytest.raises(RuntimeError, match="workers end"):
        compare(STUDY, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert own[0].ended()


def test_a_fit_that_was_taken_over_discards_itself(
    claimed: Any, store: RunStore, uri: str, experiment: str, tmp_path: Path, statuses: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("tsformer.studies.run.trial._CHECK_SECONDS", 0.0)
    study = Study(("ItalyPowerDemand",), ("none",), seeds=1, parameters=SMALL)
    taken: list[TrackedRun] = []

    def sleep_for_longer_than_a_lease(progress: Progress) -> None:
        if progress.event == "epoch" and not taken:
            (run,) = store.runs("RUNNING", {"tsformer.kind": "fit"})
            store.kill(run.info.run_id)
            taken.append(claimed(TRIALS[0]))
        if progress.event == "waiting":
            finish(taken[0])

    comparison = compare(
        study, out=tmp_path, tracking_uri=uri, experiment=experiment,
        on_progress=sleep_for_longer_than_a_lease,
    )  # fmt: skip
    assert comparison.results["run_id"].tolist() == [taken[0].run_id]
    assert comparison.failures.empty
    key = STUDY.key(*TRIALS[0])
    assert statuses(store) == {(key, "KILLED"): 1, (key, "FINISHED"): 1}


def test_two_calls_with_one_folder_keep_each_others_rows(
    claimed: Any, uri: str, experiment: str, tmp_path: Path
) -> None:
    theirs = claimed(TRIALS[2])
    seen: list[list[int]] = []

    def the_other_writes_its_row(progress: Progress) -> None:
        if progress.event == "fit-end":
            seen.append(pd.read_csv(tmp_path / "results.csv")["seed"].tolist())
        if progress.event == "fit-end" and len(seen) == 1:
            finish(theirs)
            rows = pd.read_csv(tmp_path / "results.csv", dtype={"run_id": str})
            rows.loc[len(rows)] = {**rows.iloc[0], "seed": 2, "run_id": theirs.run_id}
            rows.to_csv(tmp_path / "results.csv", index=False)

    compare(
        STUDY, out=tmp_path, tracking_uri=uri, experiment=experiment,
        on_progress=the_other_writes_its_row,
    )  # fmt: skip
    assert seen == [[0], [0, 1, 2], [0, 1, 2]]


class Elsewhere:
    """Claims of a store that answers like this, one after the other; then nothing is free."""

    def __init__(self, *answers: set[str] | Exception):
        self.answers = list(answers)

    def free(self, keys: set[str], watch: Any) -> set[str]:
        answer = self.answers.pop(0) if self.answers else set()
        if isinstance(answer, Exception):
            raise answer
        return answer & keys


def outcome(claims: Elsewhere, found: dict[str, int]) -> list[str]:
    """Return the keys of results of `shared`; a fit has one when asked for often enough."""
    tasks: list[Any] = [SimpleNamespace(trial=key, key=key, claims=claims) for key in found]
    asked = dict.fromkeys(found, 0)

    def execute(tasks: Any) -> Any:
        for task in tasks:
            asked[task.key] += 1
            yield TrialResult(task.trial, elsewhere=asked[task.key] < found[task.key])

    results = shared(tasks, execute, ProgressReporter(None, list(found), set()))  # type: ignore[arg-type]
    return [str(result.trial) for result in results]


def test_each_task_has_one_result_whoever_gets_it() -> None:
    found = {"a": 1, "b": 2, "c": 1, "d": 3}
    claims = Elsewhere(set(), {"d"}, {"b", "d"})
    assert outcome(claims, found) == ["a", "c", "b", "d"]
    assert not claims.answers
    assert outcome(Elsewhere(), {}) == []


def test_a_store_that_comes_back_is_waited_for() -> None:
    claims = Elsewhere(ConnectionError("away"), ConnectionError("away"), set(), {"a"})
    with pytest.warns(UserWarning, match="1 fits that other calls run; they are repeated") as told:
        assert outcome(claims, {"a": 2}) == ["a"]
    assert len(told) == 1
    assert not claims.answers


def test_without_the_store_the_fits_of_others_are_repeated(monkeypatch: Any) -> None:
    monkeypatch.setattr(sharing, "LEASE_SECONDS", 0.05)
    claims = Elsewhere(*[ConnectionError("away")] * 1000)
    begun = time.monotonic()
    with pytest.warns(UserWarning, match="ConnectionError: away"):
        assert outcome(claims, {"a": 2, "b": 2}) == ["a", "b"]
    assert time.monotonic() - begun > 0.05
