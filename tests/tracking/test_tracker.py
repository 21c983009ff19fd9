"""What a training leaves in MLflow, and that tracking never costs the training anything."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from tsformer import TSTransformerClassifier
from tsformer.plots import encoding_color
from tsformer.tracking import MLflowTracker, RunStore
from tsformer.training import Callback, TrainingPlan, TrainingState

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')
image = pytest.importorskip("matplotlib.image", reason='needs the extra "plots"')

DEAD = "http://127.0.0.1:9"
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "random_state": 0}


def run_of(tracker: MLflowTracker) -> Any:
    return tracker.run_.client.get_run(tracker.run_.run_id)


def artifacts(tracker: MLflowTracker) -> dict[str, Path]:
    folder = Path(tracker.run_.client.download_artifacts(tracker.run_.run_id, ""))
    return {path.name: path for path in folder.iterdir()}


def tracker_at(uri: str, **options: Any) -> MLflowTracker:
    return MLflowTracker(uri, experiment="tests of tracking", **options)


def test_a_training_is_kept_epoch_by_epoch(
    store: RunStore, italy: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = italy
    tracker = tracker_at(store.uri, run_name="the name", pictures=True)
    begun = time.perf_counter()
    classifier = TSTransformerClassifier(
        "lspe", **SMALL, max_epochs=3, early_stopping=False, callbacks=[tracker]
    ).fit(X, y, X_val=X[:20], y_val=y[:20])
    elapsed = time.perf_counter() - begun

    run = run_of(tracker)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "the name"
    assert run.info.experiment_id == store.experiment_id
    columns = {"train/loss": "loss", "lr": "lr", "val/loss": "val_loss", "val/score": "val_score"}
    for metric, column in columns.items():
        points = tracker.run_.client.get_metric_history(run.info.run_id, metric)
        assert [p.step for p in points] == [1, 2, 3]
        assert [p.value for p in points] == [row[column] for row in classifier.history_]

    parameters = sum(p.numel() for p in classifier.model_.parameters())
    encoding = sum(p.numel() for p in classifier.model_.encoding.parameters())
    assert run.data.metrics["n_parameters"] == parameters
    assert run.data.metrics["n_parameters_encoding"] == encoding > 0
    assert run.data.metrics["n_epochs"] == 3
    for metric in ("fit_seconds", "n_parameters", "peak_memory_mb"):
        (point,) = tracker.run_.client.get_metric_history(run.info.run_id, metric)
        assert point.step == 0, "of a later step MLflow would draw a curve, of one dot"
    total = sum(row["seconds"] for row in classifier.history_)
    assert total <= run.data.metrics["fit_seconds"] <= elapsed
    assert run.data.metrics["seconds_per_epoch"] == run.data.metrics["fit_seconds"] / 3
    assert 50 < run.data.metrics["peak_memory_mb"] < 20_000

    assert run.data.params["encoding"] == "lspe"
    assert run.data.params["d_model"] == "8"
    assert run.data.params["n_epochs"] == "3"
    assert run.data.tags["mlflow.runColor"] == encoding_color("lspe")
    assert run.data.tags["tsformer.kind"] == "fit"
    pictures = artifacts(tracker)
    (grid,) = pictures.pop("images").glob("encoding*.png")  # of MLflow's image grids
    assert np.array_equal(image.imread(grid), image.imread(pictures["encoding.png"]))
    (shown,) = artifacts(tracker)["images"].glob("encoding*.webp")
    assert max(image.imread(shown).shape) == 600, "MLflow's 256 pixels are too few to read a word"
    assert run.data.tags["mlflow.loggedImages"] == "True"
    assert set(pictures) == {"training.png", "encoding.png"}
    assert all(np.std(image.imread(path)) > 0.05 for path in pictures.values())
    assert list(tmp_path.iterdir()) == [], "everything goes to the store that was named"
    assert mlflow.active_run() is None


def test_without_pictures(store: RunStore, italy: tuple[Any, Any]) -> None:
    tracker = tracker_at(store.uri, pictures=False)
    TSTransformerClassifier("lspe", **SMALL, max_epochs=1, callbacks=[tracker]).fit(*italy)
    assert tracker.run_.client.list_artifacts(tracker.run_.run_id) == []
    assert run_of(tracker).data.metrics["n_epochs"] == 1


@pytest.mark.slow
def test_pictures_come_of_themselves_after_long_trainings_only(
    store: RunStore, italy: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn() -> set[str]:
        tracker = tracker_at(store.uri)
        TSTransformerClassifier("lspe", **SMALL, max_epochs=1, callbacks=[tracker]).fit(*italy)
        listed = tracker.run_.client.list_artifacts(tracker.run_.run_id)
        return {artifact.path for artifact in listed} & {"training.png", "encoding.png"}

    assert drawn() == set(), "half a second is much of a training so short"
    monkeypatch.setattr("tsformer.tracking.tracker._LONG_ENOUGH_SECONDS", 0.01)
    assert drawn() == {"training.png", "encoding.png"}


def test_other_pictures_are_refused() -> None:
    with pytest.raises(ValueError, match="pictures='some': use True, False or 'auto'"):
        MLflowTracker(pictures="some")


def test_tracking_changes_no_prediction_and_no_generator(
    store: RunStore, italy: tuple[Any, Any]
) -> None:
    X, y = italy
    plain = TSTransformerClassifier("learnable", **SMALL, max_epochs=2).fit(X, y)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002  the global generator is what the test is about
    random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    tracked = TSTransformerClassifier(
        "learnable", **SMALL, max_epochs=2, callbacks=[tracker_at(store.uri)]
    ).fit(X, y)
    assert np.array_equal(plain.predict_proba(X), tracked.predict_proba(X))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert random.getstate() == before[2]


def test_a_dead_server_costs_one_warning(
    italy: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    X, y = italy
    plain = TSTransformerClassifier(**SMALL, max_epochs=2).fit(X, y)
    tracked = TSTransformerClassifier(**SMALL, max_epochs=2, callbacks=[MLflowTracker(DEAD)])
    with pytest.warns(UserWarning, match=r"tracking of this fit stopped.*127\.0\.0\.1") as got:
        tracked.fit(X, y)
    assert len(got) == 1
    assert np.array_equal(plain.predict_proba(X), tracked.predict_proba(X))


class At(Callback):
    """Raises at the end of an epoch."""

    def __init__(self, epoch: int, error: BaseException):
        self.epoch = epoch
        self.error = error

    def on_epoch_end(self, state: TrainingState) -> None:
        if state.epoch == self.epoch:
            raise self.error


def test_a_training_that_raises_ends_failed(store: RunStore, italy: tuple[Any, Any]) -> None:
    tracker = tracker_at(store.uri)
    callbacks = [tracker, At(2, RuntimeError("no more"))]
    with pytest.raises(RuntimeError, match="no more"):
        TSTransformerClassifier(**SMALL, max_epochs=5, callbacks=callbacks).fit(*italy)
    assert run_of(tracker).info.status == "FAILED"
    assert run_of(tracker).data.tags["tsformer.error"] == "RuntimeError: no more"
    assert run_of(tracker).data.metrics["n_epochs"] == 2


def test_a_training_that_was_interrupted_ends_killed(
    store: RunStore, italy: tuple[Any, Any]
) -> None:
    tracker = tracker_at(store.uri)
    callbacks = [tracker, At(1, KeyboardInterrupt())]
    with pytest.warns(UserWarning, match="interrupted"):
        TSTransformerClassifier(**SMALL, max_epochs=5, callbacks=callbacks).fit(*italy)
    assert run_of(tracker).info.status == "KILLED"


def test_copies_are_fresh_trackers(store: RunStore, italy: tuple[Any, Any]) -> None:
    tracker = tracker_at(store.uri, flush_seconds=2.0)
    classifier = TSTransformerClassifier(**SMALL, max_epochs=1, callbacks=[tracker]).fit(*italy)
    cloned = clone(classifier).callbacks[0]
    for other in (cloned, copy.deepcopy(tracker), pickle.loads(pickle.dumps(tracker))):
        assert other is not tracker
        assert vars(other) == vars(tracker_at(store.uri, flush_seconds=2.0))
    clone(classifier).fit(*italy)
    again = clone(classifier).fit(*italy).callbacks[0]
    assert again.run_.run_id != tracker.run_.run_id
    assert run_of(again).info.status == "FINISHED"


def test_any_module_that_trains_can_be_tracked(store: RunStore) -> None:
    plan = TrainingPlan(
        n_epochs=1, batch_size=1, learning_rate=1.0, weight_decay=0.0, seed=0,
        device=torch.device("cpu"),
    )  # fmt: skip
    state = TrainingState(torch.nn.Linear(3, 2), plan)
    tracker = tracker_at(store.uri, pictures=True)
    tracker.on_train_begin(state)
    state.history.append({"epoch": 1, "loss": 0.5, "lr": 0.1, "seconds": 0.0})
    tracker.on_epoch_end(state)
    tracker.on_train_end(state)
    run = run_of(tracker)
    assert run.info.run_name == "Linear"
    assert run.data.metrics["n_parameters"] == 8
    assert set(artifacts(tracker)) == {"training.png"}


@pytest.mark.slow
def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, tsformer.tracking, tsformer.studies, tsformer.plots;"
        "tsformer.tracking.MLflowTracker();"
        "print({'mlflow', 'matplotlib', 'sktime'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_without_mlflow_the_extra_is_named(
    italy: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    classifier = TSTransformerClassifier(**SMALL, max_epochs=1, callbacks=[MLflowTracker()])
    with pytest.raises(ImportError, match=r'pip install "tsformer\[tracking\]"'):
        classifier.fit(*italy)


def test_members_follow_each_other_in_one_run(store: RunStore, italy: tuple[Any, Any]) -> None:
    run = store.start("members", kind="fit")
    tracker = MLflowTracker(mlflow_run=run, pictures=False)
    classifier = TSTransformerClassifier(
        "lspe", **SMALL, max_epochs=2, n_estimators=3, callbacks=[tracker]
    ).fit(*italy)
    run.end("FINISHED")
    logged = run_of(tracker).data.metrics
    assert logged["n_epochs"] == 6
    assert logged["n_parameters"] == sum(
        parameter.numel() for model in classifier.models_ for parameter in model.parameters()
    )
    assert logged["fit_seconds"] >= sum(
        row["seconds"] for history in classifier.histories_ for row in history
    )
    points = run.client.get_metric_history(run.run_id, "train/loss")
    assert [point.step for point in points] == [1, 2, 3, 4, 5, 6]
    losses = [row["loss"] for history in classifier.histories_ for row in history]
    assert [point.value for point in points] == losses
