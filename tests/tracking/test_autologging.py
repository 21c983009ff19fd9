"""What `tsformer.autolog` leaves in MLflow of each fit, and that it never costs one."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tsformer
from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
    TSTransformerRegressor,
)
from tsformer.tracking import MLflowTracker, prepare_store
from tsformer.tracking.register import load_registered
from tsformer.training import Callback, TrainingState

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "random_state": 0}
PLAIN = {"log_models": False, "pictures": False}


@pytest.fixture(autouse=True)
def ending(uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "autolog")
    yield
    tsformer.autolog(disable=True)
    while mlflow.active_run() is not None:
        mlflow.end_run()


def runs() -> list[Any]:
    """All runs of the experiment, the newest first."""
    found: list[Any] = mlflow.search_runs(experiment_names=["autolog"], output_format="list")
    return found


def new_run(before: list[Any]) -> Any:
    """The one run that was not there before."""
    old = {run.info.run_id for run in before}
    (run,) = [run for run in runs() if run.info.run_id not in old]
    return run


def artifacts(run: Any) -> dict[str, Path]:
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id))
    return {path.name: path for path in folder.iterdir()}


def test_a_fit_is_kept_with_all_that_came_of_it(italy: tuple[Any, Any]) -> None:
    X, y = italy
    tsformer.autolog(extra_tags={"team": "ours"}, pictures=True)
    before = runs()
    classifier = TSTransformerClassifier(
        "lspe", **SMALL, max_epochs=2, stem_params={"kernel_size": 5}, early_stopping=False
    ).fit(X, y, X_val=X[:20], y_val=y[:20])

    run = new_run(before)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "lspe"
    assert run.data.tags["team"] == "ours"
    assert run.data.tags["tsformer.kind"] == "fit"
    params = run.data.params
    assert params["estimator"] == "TSTransformerClassifier"
    assert params["encoding"] == "lspe"
    assert params["stem_params.kernel_size"] == "5"
    assert params["max_epochs"] == "2"
    assert "callbacks" not in params
    metrics = run.data.metrics
    assert metrics["train/accuracy"] == classifier.score(X, y)
    assert metrics["val/accuracy"] == classifier.score(X[:20], y[:20])
    assert {"train/log_loss", "val/f1_macro", "fit_seconds", "n_parameters"} <= set(metrics)
    losses = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")
    assert [point.value for point in losses] == [row["loss"] for row in classifier.history_]

    inputs = {each.tags[0].value: each.dataset for each in run.inputs.dataset_inputs}
    assert set(inputs) == {"train", "validation"}
    assert str(list(X.shape)).strip("[]") in inputs["train"].profile.replace("\n", "")
    assert inputs["train"].digest != inputs["validation"].digest

    files = artifacts(run)
    pictures = {"training.png", "encoding.png", "confusion_train.png", "confusion_val.png"}
    pictures |= {"reliability_train.png", "reliability_val.png"}
    assert pictures <= set(files)
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model")
    answer = model.predict({"series": X[:7]})
    assert np.array_equal(answer["prediction"], classifier.predict(X[:7]))
    assert model.metadata.signature is not None
    example = model.metadata.load_input_example(str(files["model"]))
    assert np.allclose(example["series"].tolist(), X[:2])
    assert load_registered(files["model"]).classes_.tolist() == classifier.classes_.tolist()
    assert mlflow.active_run() is None
    assert mlflow.last_active_run().info.run_id == run.info.run_id


def test_what_is_left_out_and_that_it_can_be_ended(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN, log_datasets=False)
    before = runs()
    TSTransformerClassifier("none", **SMALL, max_epochs=1).fit(*italy)
    run = new_run(before)
    assert mlflow.MlflowClient().list_artifacts(run.info.run_id) == []
    assert run.inputs.dataset_inputs == []
    before = runs()
    tsformer.autolog(disable=True)
    TSTransformerClassifier("none", **SMALL, max_epochs=1).fit(*italy)
    assert len(runs()) == len(before)


def test_a_regressor(italy: tuple[Any, Any]) -> None:
    X, _ = italy
    tsformer.autolog(pictures=False)
    before = runs()
    regressor = TSTransformerRegressor(**SMALL, max_epochs=1).fit(X, X.mean(axis=(1, 2)))
    run = new_run(before)
    assert run.data.metrics["train/r2"] == pytest.approx(regressor.score(X, X.mean(axis=(1, 2))))
    assert np.allclose(load_registered(artifacts(run)["model"]).predict(X), regressor.predict(X))
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model")
    assert np.allclose(model.predict({"series": X[:3]})["prediction"], regressor.predict(X[:3]))


def test_an_encoder_and_what_starts_from_it() -> None:
    X = np.random.default_rng(0).normal(size=(12, 1, 20))
    tsformer.autolog(pictures=False)
    before = runs()
    encoder = TSTransformerEncoder(**SMALL, max_epochs=2).fit(X, X_val=X[:4])
    run = new_run(before)
    assert run.info.status == "FINISHED"
    assert run.data.params["objective"] == "masked"
    losses = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")
    assert [point.value for point in losses] == [row["loss"] for row in encoder.history_]
    assert "val/loss" in run.data.metrics
    assert len(run.inputs.dataset_inputs) == 2
    loaded = tsformer.load(artifacts(run)["encoder"])
    assert np.array_equal(loaded.transform(X), encoder.transform(X))
    # What is pretrained inside a fit is a part of it, and no run of its own.
    tsformer.autolog(**PLAIN)
    before = runs()
    source = TSTransformerEncoder(**SMALL, max_epochs=1)
    TSTransformerClassifier(**SMALL, max_epochs=1, init_from=source).fit(X, [0, 1] * 6)
    assert new_run(before).data.params["estimator"] == "TSTransformerClassifier"


def test_random_convolutions(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    classifier = RandomConvolutionClassifier(n_features=168, n_groups=2, random_state=0).fit(*italy)
    run = new_run(before)
    assert run.info.run_name == "RandomConvolutionClassifier"
    assert run.data.metrics["train/accuracy"] == classifier.score(*italy)
    assert run.data.metrics["fit_seconds"] > 0
    assert "encoding" not in run.data.params


def test_an_ensemble_is_one_run(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    small = {"max_epochs": 2, "d_model": 8, "n_heads": 2, "n_layers": 1, "encoding": "tape"}
    classifier = TSEnsembleClassifier(
        "good",
        transformer_params=small,
        convolution_params={"n_features": 168, "n_groups": 2},
        random_state=0,
    ).fit(*italy)
    run = new_run(before)
    assert run.data.params["encoding"] == "tape"
    assert run.data.params["transformer_params.max_epochs"] == "2"
    metrics = run.data.metrics
    assert metrics["train/accuracy"] == classifier.score(*italy)
    assert metrics["n_epochs"] == 4
    parts = {"random_convolutions", "transformer"}
    assert parts == {name[12:] for name in metrics if name.startswith("fit_seconds/")}
    assert metrics["fit_seconds"] >= sum(classifier.seconds_.values())


@pytest.mark.processes
def test_members_that_are_trained_in_processes(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    classifier = TSTransformerClassifier(**SMALL, max_epochs=2, n_estimators=2, n_jobs=2)
    classifier.fit(*italy)
    run = new_run(before)
    losses = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")
    rows = [row for history in classifier.histories_ for row in history]
    assert [(point.step, point.value) for point in losses] == [
        (step, row["loss"]) for step, row in enumerate(rows, start=1)
    ]
    assert run.data.metrics["n_epochs"] == 4
    assert run.data.metrics["n_parameters"] == sum(
        parameter.numel() for model in classifier.models_ for parameter in model.parameters()
    )


def test_several_fits_in_an_active_run(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    with mlflow.start_run() as mine:
        for encoding in ("none", "tape", "fixed"):
            TSTransformerClassifier(encoding, **SMALL, max_epochs=1).fit(*italy)
            assert mlflow.active_run().info.run_id == mine.info.run_id
    first = mlflow.get_run(mine.info.run_id)
    assert first.data.params["encoding"] == "none"
    assert first.info.status == "FINISHED"
    nested = [r for r in runs() if r.data.tags.get("mlflow.parentRunId") == mine.info.run_id]
    assert sorted(run.data.params["encoding"] for run in nested) == ["fixed", "tape"]


@pytest.mark.slow
def test_exclusive_leaves_the_runs_of_users_alone(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN, exclusive=True)
    with mlflow.start_run() as mine:
        TSTransformerClassifier("none", **SMALL, max_epochs=1).fit(*italy)
    assert mlflow.get_run(mine.info.run_id).data.params == {}
    before = runs()
    TSTransformerClassifier("none", **SMALL, max_epochs=1).fit(*italy)
    assert new_run(before).data.params["encoding"] == "none"


def test_a_fit_that_has_a_tracker_is_tracked_once(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    with prepare_store(experiment="autolog").start("mine", kind="fit") as mine:
        tracker = MLflowTracker(mine, pictures=False)
        TSTransformerClassifier("none", **SMALL, max_epochs=1, callbacks=[tracker]).fit(*italy)
    assert new_run(before).info.run_id == mine.run_id


class At(Callback):
    """Raises at the end of the first epoch."""

    def __init__(self, error: BaseException):
        self.error = error

    def on_epoch_end(self, state: TrainingState) -> None:
        raise self.error


def test_a_fit_that_fails_ends_failed_with_its_message(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    with pytest.raises(RuntimeError, match="no more"):
        TSTransformerClassifier(**SMALL, max_epochs=3, callbacks=[At(RuntimeError("no more"))]).fit(
            *italy
        )
    run = new_run(before)
    assert run.info.status == "FAILED"
    assert run.data.tags["tsformer.error"] == "RuntimeError: no more"
    before = runs()
    with pytest.raises(ValueError, match="quality"):
        TSEnsembleClassifier("goood").fit(*italy)
    assert "goood" in new_run(before).data.tags["tsformer.error"]
    with pytest.raises(TypeError, match="transformer_params"):
        TSEnsembleClassifier(transformer_params="encoding").fit(*italy)


class Do(Callback):
    """Calls a function at the end of the first epoch."""

    def __init__(self, function: Callable[[], object]):
        self.function = function

    def on_epoch_end(self, state: TrainingState) -> None:
        if state.epoch == 1:
            self.function()


def test_a_label_that_mlflow_refuses_in_names_costs_only_the_name() -> None:
    X = np.random.default_rng(0).normal(size=(12, 1, 20))
    y = np.array(["sit", "walk (slow)"] * 6)
    tsformer.autolog(**PLAIN)
    before = runs()
    weights = {"sit": 1.0, "walk (slow)": 2.0}
    with pytest.warns(UserWarning, match=r"'class_weight\.walk \(slow\)'") as got:
        TSTransformerClassifier(**SMALL, max_epochs=1, class_weight=weights).fit(X, y)
    assert len(got) == 1
    run = new_run(before)
    assert run.info.status == "FINISHED"
    assert run.data.params["class_weight.walk _slow_"] == "2.0"
    assert "train/accuracy" in run.data.metrics


def test_an_error_with_a_lone_surrogate_is_kept(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    error = RuntimeError("bad \ud800\0" + "x" * 9000)
    with pytest.raises(RuntimeError):
        TSTransformerClassifier(**SMALL, max_epochs=2, callbacks=[At(error)]).fit(*italy)
    run = new_run(before)
    assert run.info.status == "FAILED"
    assert run.data.tags["tsformer.error"].startswith(r"RuntimeError: bad \ud800\x00xxx")
    assert len(run.data.metrics) > 0


@pytest.mark.parametrize("users_run", [False, True])
def test_nothing_stays_running_whose_experiment_is_deleted_in_mid_fit(
    italy: tuple[Any, Any], users_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"deleted {users_run}"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", name)
    client = mlflow.MlflowClient()
    tsformer.autolog(**PLAIN)

    def delete() -> None:
        client.delete_experiment(client.get_experiment_by_name(name).experiment_id)

    if users_run:
        mlflow.start_run()
    with pytest.warns(UserWarning, match="Current state is deleted") as got:
        TSTransformerClassifier(**SMALL, max_epochs=2, callbacks=[Do(delete)]).fit(*italy)
    assert len(got) == 1
    if users_run:
        with pytest.raises(mlflow.exceptions.MlflowException):
            mlflow.end_run()
    experiment = client.get_experiment_by_name(name).experiment_id
    deleted = mlflow.entities.ViewType.DELETED_ONLY
    (run,) = client.search_runs([experiment], run_view_type=deleted)
    assert run.info.status == "KILLED"
    assert "tsformer.missing" in run.data.tags


@pytest.mark.parametrize("users_run", [False, True])
def test_the_users_end_run_in_mid_fit_loses_nothing(
    italy: tuple[Any, Any], users_run: bool
) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    if users_run:
        mlflow.start_run()
    TSTransformerClassifier(**SMALL, max_epochs=2, callbacks=[Do(mlflow.end_run)]).fit(*italy)
    assert mlflow.active_run() is None
    run = new_run(before)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["n_epochs"] == 2
    assert "train/accuracy" in run.data.metrics


def test_a_fit_that_is_interrupted_ends_killed(italy: tuple[Any, Any]) -> None:
    tsformer.autolog(**PLAIN)
    before = runs()
    with pytest.warns(UserWarning, match="interrupted"):
        TSTransformerClassifier(**SMALL, max_epochs=3, callbacks=[At(KeyboardInterrupt())]).fit(
            *italy
        )
    run = new_run(before)
    assert run.info.status == "KILLED"
    assert run.data.metrics["n_epochs"] == 1
    assert mlflow.last_active_run().info.status == "KILLED"


@pytest.mark.slow
def test_tracking_changes_no_prediction_and_no_generator(italy: tuple[Any, Any]) -> None:
    X, y = italy
    plain = TSTransformerClassifier("learnable", **SMALL, max_epochs=2).fit(X, y)
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    tsformer.autolog()
    tracked = TSTransformerClassifier("learnable", **SMALL, max_epochs=2).fit(X, y)
    assert np.array_equal(plain.predict_proba(X), tracked.predict_proba(X))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert tracked.callbacks is None


def test_a_dead_server_costs_one_warning_and_silent_none(
    italy: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tsformer.autolog()
    with pytest.warns(UserWarning, match=r"tracking of this fit stopped.*127\.0\.0\.1") as got:
        TSTransformerClassifier("none", **SMALL, max_epochs=1).fit(*italy)
    assert len(got) == 1
    tsformer.autolog(silent=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TSTransformerClassifier("tape", **SMALL, max_epochs=1).fit(*italy)


def test_a_model_that_cannot_be_stored_costs_one_warning(italy: tuple[Any, Any]) -> None:
    from tsformer.encodings import resolve

    def factory(**options: Any) -> Any:
        return resolve("tape", **options)

    tsformer.autolog(pictures=False)
    before = runs()
    with pytest.warns(UserWarning, match="the model could not be tracked") as got:
        TSTransformerClassifier(factory, **SMALL, max_epochs=1).fit(*italy)
    assert len(got) == 1
    run = new_run(before)
    assert run.info.status == "FINISHED"
    assert run.data.tags["tsformer.missing"] == "the model"


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [True, False])
def test_beside_the_autologging_of_scikit_learn_a_pipeline_has_one_run(
    italy: tuple[Any, Any], ours_first: bool
) -> None:
    def scikit_learn(**options: Any) -> None:
        mlflow.sklearn.autolog(log_models=False, silent=True, **options)

    if ours_first:
        tsformer.autolog(**PLAIN)
        scikit_learn()
    else:
        scikit_learn()
        tsformer.autolog(**PLAIN)
    try:
        before = runs()
        own = TSTransformerClassifier("tape", **SMALL, max_epochs=1)
        make_pipeline(FunctionTransformer(validate=False), own).fit(*italy)
        run = new_run(before)
        assert run.data.params["encoding"] == "tape"
        assert run.data.params["tstransformerclassifier__encoding"] == "tape"
        assert "train/accuracy" in run.data.metrics
        assert run.info.status == "FINISHED"
        before = runs()
        own.fit(*italy)
        assert new_run(before).data.params["encoding"] == "tape"
    finally:
        scikit_learn(disable=True)


@pytest.mark.parametrize(("least", "drawn"), [(60.0, False), (0.0, True)])
def test_only_fits_that_took_long_draw_pictures(
    italy: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, least: float, drawn: bool
) -> None:
    tsformer.autolog(log_models=False)
    monkeypatch.setattr("tsformer.tracking.tracker._LONG_ENOUGH_SECONDS", least)
    before = runs()
    TSTransformerClassifier("tape", **SMALL, max_epochs=1).fit(*italy)
    listed = mlflow.MlflowClient().list_artifacts(new_run(before).info.run_id)
    pictures = {"training.png", "encoding.png", "confusion_train.png"}
    assert pictures & {file.path for file in listed} == (pictures if drawn else set())


@pytest.mark.slow
def test_the_numbers_of_a_fit_need_no_heavy_import(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, tsformer\n"
        "tsformer.autolog(log_models=False)\n"
        "X = np.random.default_rng(0).normal(size=(8, 1, 20))\n"
        "fit = tsformer.TSTransformerClassifier(d_model=8, n_heads=2, n_layers=1, max_epochs=1)\n"
        "fit.fit(X, [0, 1] * 4)\n"
        "print(sorted({'matplotlib', 'PIL.Image', 'dask'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_other_pictures_are_refused() -> None:
    with pytest.raises(ValueError, match="pictures='some': use True, False or 'auto'"):
        tsformer.autolog(pictures="some")


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r'pip install "tsformer\[tracking\]"'):
        tsformer.autolog()
