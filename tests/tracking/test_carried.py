"""State between fits, processes, parents and children, and after a block."""

import logging
import pickle
from itertools import chain
from typing import Any

import pytest
import small_estimators as small
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tracked_runs import only_run, parent_of, runs

import tsformer
from tsformer import load
from tsformer.tracking import MLflowTracker, RunStore, TrackedRun
from tsformer.tracking.autologging import track_evaluation, tracked_fit
from tsformer.tracking.context import to_track
from tsformer.tracking.options import TrackingSettings, speaking, warn

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')


def tracked(run: TrackedRun) -> Any:
    return small.classifier("lspe", callbacks=[MLflowTracker(run, pictures=False)])


@pytest.mark.parametrize("again", ["a clone", "another process", "the run opened again"])
def test_a_second_fit_in_a_run_continues_the_first(store, few, again):
    """Curves continue, and costs add up."""
    with store.start("two fits", kind="fit") as run:
        first = clone(tracked(run)).fit(*few)
        before = store.client().get_run(run.run_id).data.metrics
        unfitted = {
            "a clone": lambda: clone(first),
            "another process": lambda: pickle.loads(pickle.dumps(tracked(run))),
            "the run opened again": lambda: tracked(TrackedRun(run.client, run.run_id)),
        }
        second = unfitted[again]().fit(*few)
    after = store.client().get_run(run.run_id).data.metrics
    rows = [*enumerate(chain(first.history_, second.history_), start=1)]
    for metric, column in {"train/loss": "loss", "lr": "lr"}.items():
        points = store.client().get_metric_history(run.run_id, metric)
        assert [(p.step, p.value) for p in points] == [(i, row[column]) for i, row in rows]
    assert after["n_epochs"] == 4
    for cost in ("n_parameters", "n_parameters_encoding"):
        assert after[cost] == 2 * before[cost] > 0
    seconds = sum(row["seconds"] for row in second.history_)
    assert after["fit_seconds"] >= before["fit_seconds"] + seconds
    assert after["seconds_per_epoch"] == after["fit_seconds"] / 4
    assert after["peak_memory_mb"] >= before["peak_memory_mb"] > 0


@pytest.mark.slow
@pytest.mark.processes
def test_members_that_other_processes_trained_follow_each_other(few, quick):
    classifier = small.classifier("tape", n_estimators=3, n_jobs=2).fit(*few)
    points = mlflow.MlflowClient().get_metric_history(only_run().info.run_id, "train/loss")
    losses = [row["loss"] for history in classifier.histories_ for row in history]
    assert [(point.step, point.value) for point in points] == [*enumerate(losses, start=1)]
    assert only_run().data.metrics["n_epochs"] == 6


def test_a_run_that_is_opened_again_has_all_tags_of_now(store):
    with store.start("then", kind="fit", key="again", tags={"kept": "then"}) as then:
        then.tags({"tsformer.missing": "a picture"})
    later = RunStore(store.uri, store.experiment_id, command="train.py --now")
    parent = store.start("parent", kind="study")
    now = later.start("now", kind="study", key="again", parent=parent, again=True)
    kept = store.client().get_run(now.run_id)
    assert now.run_id == then.run_id
    assert (kept.info.run_name, kept.info.status) == ("now", "RUNNING")
    tags = {"kept": "then", "tsformer.kind": "study", "tsformer.command": "train.py --now"}
    tags |= {"mlflow.source.name": "train.py", "mlflow.parentRunId": parent.run_id}
    assert kept.data.tags.items() >= tags.items()
    assert "tsformer.missing" not in kept.data.tags
    now.end("FINISHED")


def test_a_saved_model_carries_its_run(few, uri, tmp_path, experiment):
    with tracked_fit(classifier := small.convolutions(), dataset="few") as fit:
        classifier.fit(*few)
    classifier.save(tmp_path / "model")
    evaluation = track_evaluation(load(tmp_path / "model"), *few, dataset="few")
    assert (evaluation.run_id, evaluation.address) == (fit.run_id, fit.address)
    (run,) = runs()
    assert run.data.metrics["test/accuracy"] == classifier.score(*few)
    assert run.info.status == "FINISHED"


def state() -> tuple[Any, ...]:
    """All that tracking sets in a process while it works."""
    active, level = mlflow.active_run(), logging.getLogger("mlflow").level
    return to_track(), active and active.info.run_id, level


def fit(few: Any, **params: Any) -> None:
    small.convolutions(**params).fit(*few)


def fit_of_the_shell(few: Any, **params: Any) -> None:
    with tracked_fit(classifier := small.convolutions(**params), dataset="few"):
        classifier.fit(*few)


def search(few: Any, **params: Any) -> None:
    grid = GridSearchCV(small.convolutions(**params), {"n_groups": [0]}, cv=2, error_score="raise")
    grid.fit(*few)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("block", [fit, fit_of_the_shell, search])
def test_nothing_of_a_block_stays_after_it(few, quick, block, fails, silent):
    tsformer.autolog(log_models=False, silent=silent)
    before = state()
    with mlflow.start_run() as mine:
        if fails:
            with pytest.raises(ValueError, match="n_features"):
                block(few, n_features=-1)
        else:
            block(few)
        assert mlflow.active_run().info.run_id == mine.info.run_id
        fit(few)
    assert state() == before
    assert parent_of(runs()[-1]) == mine.info.run_id, "the next fit is found in the user's run"
    with pytest.warns(UserWarning, match="spoken"), speaking(TrackingSettings(silent=False)):
        warn("spoken")
