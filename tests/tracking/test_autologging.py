"""What `tsformer.autolog` leaves in MLflow of each fit, and that it never costs one."""

import re
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import small_estimators as small
import torch
from matplotlib import image
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from small_estimators import Raises
from tracked_runs import artifacts, experiment, files_of, only_run, parent_of, runs

import tsformer
from tsformer.encodings import resolve
from tsformer.plots import encoding_color
from tsformer.tracking import MLflowTracker, prepare_store

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytestmark = pytest.mark.usefixtures("experiment")


def test_a_fit_is_kept_with_all_that_came_of_it(italy):
    X, y = italy
    tsformer.autolog(extra_tags={"team": "ours"}, pictures=True)
    classifier = small.classifier("lspe", stem_params={"kernel_size": 5}, early_stopping=False).fit(
        X, y, X_val=X[:20], y_val=y[:20]
    )

    run, client = only_run(), mlflow.MlflowClient()
    assert (run.info.status, run.info.run_name) == ("FINISHED", "lspe")
    tags = {"team": "ours", "tsformer.kind": "fit", "mlflow.runColor": encoding_color("lspe")}
    assert run.data.tags.items() >= tags.items()
    params = run.data.params
    expected = {"estimator": "TSTransformerClassifier", "encoding": "lspe", "max_epochs": "2"}
    assert params.items() >= {**expected, "stem_params.kernel_size": "5"}.items()
    assert "callbacks" not in params

    columns = {"train/loss": "loss", "lr": "lr", "val/loss": "val_loss", "val/score": "val_score"}
    for metric, column in columns.items():
        points = client.get_metric_history(run.info.run_id, metric)
        curve = [(row["epoch"], row[column]) for row in classifier.history_]
        assert [(point.step, point.value) for point in points] == curve
    metrics, model = run.data.metrics, classifier.model_
    assert metrics["train/accuracy"] == classifier.score(X, y)
    assert metrics["val/accuracy"] == classifier.score(X[:20], y[:20])
    for name, module in {"n_parameters": model, "n_parameters_encoding": model.encoding}.items():
        assert metrics[name] == sum(p.numel() for p in module.parameters()) > 0
    assert 50 < metrics["peak_memory_mb"] < 20_000

    inputs = {used.tags[0].value: used.dataset for used in run.inputs.dataset_inputs}
    assert set(inputs) == {"train", "validation"}
    assert str(list(X.shape)).strip("[]") in inputs["train"].profile.replace("\n", "")
    assert inputs["train"].digest != inputs["validation"].digest

    files = artifacts(run)
    pictures = {"training.png", "encoding.png", "confusion_train.png", "confusion_val.png"}
    pictures |= {"reliability_train.png", "reliability_val.png"}
    assert pictures == {name for name in files if name.endswith(".png")}
    assert all(np.std(image.imread(files[name])) > 0.05 for name in pictures)

    (model,) = client.search_logged_models([run.info.experiment_id])
    assert (model.status, model.source_run_id) == ("READY", run.info.run_id)
    assert (model.name, model.model_type) == ("model", "TSTransformerClassifier")
    assert model.params.items() >= {**expected, "stem_params.kernel_size": "5"}.items()
    scores = {metric.key: metric for metric in model.metrics}
    for prefix, data in {"train": inputs["train"], "val": inputs["validation"]}.items():
        score = scores[f"{prefix}/accuracy"]
        assert score.value == metrics[score.key]
        assert (score.dataset_name, score.dataset_digest) == (data.name, data.digest)
        assert len(client.get_metric_history(run.info.run_id, score.key)) == 1, "logged once"
    assert "model" not in files, "stored once"
    served = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model")
    assert np.array_equal(served.predict(X[:7])["prediction"], classifier.predict(X[:7]))
    assert served.model_id == model.model_id
    assert np.allclose(served.input_example["series"].tolist(), X[:2])


def test_the_card_of_the_model_is_the_description_of_its_run(italy, monkeypatch):
    tsformer.autolog(pictures=False, log_datasets=False)
    with mlflow.start_run(description="My own words."):
        small.classifier("none", max_epochs=1).fit(*italy)
    X = np.random.default_rng(0).normal(size=(8, 1, 20))
    small.encoder("none", max_epochs=1).fit(X)
    mine, encoder = (run.data.tags["mlflow.note.content"] for run in runs())
    assert mine.startswith("My own words.\n\n# TSTransformerClassifier\n\nPredicts one of 2")
    assert encoder.startswith("Made by `")
    assert "\n\n# TSTransformerEncoder\n\nComputes an embedding" in encoder
    for text in (mine, encoder):
        (program,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M)
        exec(program, {})


def test_fits_that_are_not_tracked_or_tracked_already_have_no_run_more(few, quick):
    """`quick` leaves models, pictures and data sets out."""

    def fit(**options: Any) -> None:
        small.classifier("none", max_epochs=1, **options).fit(*few)

    with prepare_store(experiment=experiment()).start("mine", kind="fit") as mine:
        fit(callbacks=[MLflowTracker(mine, pictures=False)])
    assert only_run().info.run_id == mine.run_id
    tsformer.autolog(disable=True)
    fit()
    tsformer.autolog(exclusive=True)
    with mlflow.start_run() as users:
        fit()
    tsformer.autolog(log_models=False, pictures=False, log_datasets=False)
    fit()
    tracked, left, logged = runs()
    assert (left.info.run_id, left.data.params) == (users.info.run_id, {})
    assert tracked.data.params.keys() < logged.data.params.keys()
    assert files_of(logged) == set()
    assert logged.inputs.dataset_inputs == []


def test_a_regressor_of_series_with_times(italy, quick):
    X, y, times = italy[0], italy[0].mean(axis=(1, 2)), np.arange(24) ** 1.5
    regressor = small.regressor(max_epochs=1)
    regressor.fit(X, y, times=times, X_val=X[:9], y_val=y[:9], times_val=times)
    for prefix, n in (("train", 67), ("val", 9)):
        expected = regressor.score(X[:n], y[:n], times=times)
        assert only_run().data.metrics[f"{prefix}/r2"] == pytest.approx(expected)


def test_an_encoder_and_a_fit_that_starts_from_one():
    X = np.random.default_rng(0).normal(size=(12, 1, 20))
    tsformer.autolog(pictures=False)
    encoder = small.encoder().fit(X, X_val=X[:4])
    run = only_run()
    assert (run.info.status, run.data.params["objective"]) == ("FINISHED", "masked")
    assert run.data.metrics["train/loss"] == encoder.history_[-1]["loss"]
    assert "val/loss" in run.data.metrics
    assert len(run.inputs.dataset_inputs) == 2
    loaded = tsformer.load(artifacts(run)["encoder"])
    assert np.array_equal(loaded.transform(X), encoder.transform(X))
    # Pretraining inside a fit is a part of it, without a run of its own.
    source = small.encoder(max_epochs=1)
    small.classifier(max_epochs=1, init_from=source).fit(X, [0, 1] * 6)
    names = [run.data.params["estimator"] for run in runs()]
    assert names == ["TSTransformerEncoder", "TSTransformerClassifier"]


def test_an_ensemble_is_one_run(italy, quick):
    classifier = small.ensemble("good").fit(*italy)
    assert only_run().data.params["transformer_params.max_epochs"] == "2"
    metrics = only_run().data.metrics
    assert metrics["train/accuracy"] == classifier.score(*italy)
    assert metrics["n_epochs"] == 4
    assert {"fit_seconds/random_convolutions", "fit_seconds/transformer"} <= set(metrics)
    assert metrics["fit_seconds"] >= sum(classifier.seconds_.values())


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError("no more"), "FAILED"), (KeyboardInterrupt(), "KILLED")]
)
def test_a_fit_that_does_not_end_says_so(few, quick, error, status):
    classifier = small.classifier(max_epochs=3, callbacks=[Raises(error)])
    # An interrupted fit keeps what it has.
    with pytest.raises(RuntimeError) if status == "FAILED" else pytest.warns(match="interrupted"):
        classifier.fit(*few)
    run = only_run()
    assert run.info.status == mlflow.last_active_run().info.status == status
    assert ("RuntimeError: no more" in run.data.tags.values()) == (status == "FAILED")
    assert run.data.metrics["n_epochs"] == 1


@pytest.mark.slow
def test_tracking_changes_no_prediction_and_no_generator(italy):
    X, y = italy
    plain = small.classifier("learnable").fit(X, y)
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    tsformer.autolog()
    tracked = small.classifier("learnable").fit(X, y)
    assert np.array_equal(plain.predict_proba(X), tracked.predict_proba(X))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert tracked.callbacks is None


@pytest.mark.parametrize("work", ["fit", "search"])
def test_a_dead_server_costs_one_warning_and_silent_none(few, monkeypatch, work):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    estimator: Any = small.classifier("none", max_epochs=1)
    if work == "search":
        estimator = GridSearchCV(estimator, {"encoding": ["none", "tape"]}, cv=2)
    tsformer.autolog()
    with pytest.warns(UserWarning, match=work) as got:
        estimator.fit(*few)
    assert len(got) == 1
    tsformer.autolog(silent=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit(*few)


def test_a_model_that_cannot_be_stored_costs_one_warning(few):
    tsformer.autolog(pictures=False)
    with pytest.warns(UserWarning, match="model") as got:
        small.classifier(partial(resolve, "tape"), max_epochs=1).fit(*few)
    assert len(got) == 1
    run = only_run()
    assert run.info.status == "FINISHED"
    assert run.data.tags["tsformer.missing"] == "the model"


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [True, False])
def test_beside_the_autologging_of_scikit_learn_each_fit_has_one_run(few, quick, ours_first):
    tsformer.autolog(disable=not ours_first, log_models=False, pictures=False)
    mlflow.sklearn.autolog(log_models=False, silent=True)
    tsformer.autolog(log_models=False, pictures=False)
    step = small.classifier("tape", max_epochs=1)
    try:
        make_pipeline(FunctionTransformer(validate=False), step).fit(*few)
        pipeline = only_run()
        grid = {"tstransformerclassifier__encoding": ["none", "tape"]}
        GridSearchCV(make_pipeline(step), grid, cv=2).fit(*few)
    finally:
        mlflow.sklearn.autolog(disable=True)
    assert pipeline.data.params["encoding"] == "tape"
    assert pipeline.data.params["tstransformerclassifier__encoding"] == "tape"
    assert "train/accuracy" in pipeline.data.metrics
    (search,) = runs(kind="search")
    assert parent_of(search) == ""
    assert "best_cv_score" in search.data.metrics, "what MLflow's own autologging writes"
    assert len(runs(kind="refit")) == 1
    assert {run.info.status for run in runs()} == {"FINISHED"}


def test_other_pictures_and_a_missing_extra_are_named(monkeypatch):
    with pytest.raises(ValueError, match="pictures"):
        tsformer.autolog(pictures="some")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match="tracking"):
        tsformer.autolog()
