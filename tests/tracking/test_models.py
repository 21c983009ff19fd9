"""Models of MLflow: their files, their loaders, and their answers with and without a server."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_estimators as small
from listening import answers, free_port, listening, wait_until
from sklearn.dummy import DummyClassifier
from small_estimators import RAGGED, TIMES

from tsformer import EarlyClassifier, load
from tsformer.tracking import register_model, write_model
from tsformer.tracking.model import ServedModel, signature_of

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

X, Y = RAGGED, ["no", "yes"] * 8


def as_json(**columns: Any) -> pd.DataFrame:
    """Series as they come out of JSON."""
    lists = [[[None if np.isnan(v) else v for v in channel] for channel in x] for x in X]
    return pd.DataFrame({"series": lists, **columns})


@pytest.fixture(scope="module")
def classifier(italy):
    return small.classifier("tape+erpe").fit(*italy)


@pytest.fixture(scope="module")
def folder(classifier, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    write_model(classifier, folder)
    return folder


WIDE = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 24))).add_prefix("t")
ARRAY = WIDE.to_numpy()[:, None]
CONTAINERS = {
    "array": ARRAY,
    "list": list(ARRAY),
    "wide table": WIDE,
    "wide table, as columns": WIDE.to_dict("list"),
    "table of cells": pd.DataFrame({"x": list(ARRAY[:, 0])}),
    "long table": pd.concat({i: pd.DataFrame(series.T) for i, series in enumerate(ARRAY)}),
    "column of tables": {"series": [pd.DataFrame(series.T) for series in ARRAY]},
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_pyfunc_takes_what_fit_takes(classifier, folder, container):
    answer = mlflow.pyfunc.load_model(str(folder)).predict(container)
    assert np.allclose(answer[["p(1)", "p(2)"]], classifier.predict_proba(ARRAY), rtol=1e-5)


def test_a_served_model_opens_no_file_and_other_models_are_still_checked(folder, tmp_path):
    np.save(tmp_path / "secret.npy", ARRAY)
    served = mlflow.pyfunc.load_model(str(folder))
    for path in (f"{tmp_path}/secret.npy", [f"{tmp_path}/secret.npy"]):
        with pytest.raises(mlflow.exceptions.MlflowException):
            served.predict(path)
    schema = mlflow.types.Schema([mlflow.types.ColSpec("double", "x")])
    described = mlflow.models.Model(signature=mlflow.models.ModelSignature(schema))
    mlflow.pyfunc.add_to_model(described, loader_module="other")
    with pytest.raises(mlflow.exceptions.MlflowException):
        mlflow.pyfunc.PyFuncModel(described, DummyClassifier()).predict(WIDE)


def test_mlflow_registers_it(classifier, folder, uri, italy, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert int(mlflow.register_model(str(folder), "italy").version) == 1
    answer = mlflow.pyfunc.load_model("models:/italy/1").predict({"series": italy[0]})
    assert np.array_equal(answer["prediction"], classifier.predict(italy[0]))
    downloaded = mlflow.artifacts.download_artifacts("models:/italy/1/estimator")
    assert np.array_equal(load(downloaded).predict(italy[0]), classifier.predict(italy[0]))
    assert mlflow.MlflowClient().get_model_version("italy", "1").description is None

    register_model(str(folder), "italy")
    text = mlflow.MlflowClient().get_model_version("italy", "2").description
    assert text.startswith("# TSTransformerClassifier\n\nPredicts one of 2 classes")
    (program,) = re.findall(r"^## Use\n\n```python\n(.*?)^```", text, re.DOTALL | re.M)
    exec(program, names := {})
    assert np.array_equal(names["model"].predict(italy[0]), classifier.predict(italy[0]))


def test_its_files_describe_it_and_hold_no_pickle(folder):
    kept = {path.suffix for path in folder.rglob("*.*")}
    assert kept == {".json", ".md", ".safetensors", ".txt", ".yaml"}
    signature = mlflow.models.get_model_info(str(folder)).signature
    assert signature.inputs.input_names() == ["series"]
    answer = [(column["name"], column["type"]) for column in signature.outputs.to_dict()]
    assert answer == [("prediction", "string"), ("p(1)", "double"), ("p(2)", "double")]
    requirements = (folder / "requirements.txt").read_text()
    assert re.match(r"torch==.*\ntsformer==\S+\n", requirements, re.DOTALL)
    assert "+" not in requirements, "a version that names a build is on no registry"


def test_a_registered_stranger_runs_no_code(folder, tmp_path):
    """MLflow's loader obeys an `MLmodel` that requests pickle; ours reads no `MLmodel`."""
    ran = tmp_path / "ran"
    folder = shutil.copytree(folder, tmp_path / "model")
    evil = b"cos\nsystem\n(S'touch %s'\ntR." % bytes(ran)  # a pickle whose loading leaves a file
    (folder / "model.pkl").write_bytes(evil)
    description = (folder / "MLmodel").read_text()
    assert "loader_module: tsformer.tracking.model" in description
    edited = description.replace("tsformer.tracking.model", "mlflow.sklearn")
    edited = edited.replace("data: estimator", "data: model.pkl")
    sklearn = "flavors:\n  sklearn: {pickled_model: model.pkl, serialization_format: cloudpickle}"
    (folder / "MLmodel").write_text(edited.replace("flavors:", sklearn, 1))
    load(folder / "estimator")
    assert not ran.exists()
    mlflow.sklearn.load_model(str(folder))
    assert ran.exists(), "the guide says that MLflow runs it"
    ran.unlink()
    (weights,) = (folder / "estimator").glob("*.safetensors")
    weights.write_bytes(evil)
    with pytest.raises(ValueError, match="safetensors"):
        load(folder / "estimator")
    assert not ran.exists()


def test_what_cannot_be_served_is_refused(classifier, italy, tmp_path):
    X, y = italy
    regressor, encoder = small.regressor().fit(X, y.astype(float)), small.encoder().fit(X)
    for estimator, output, message in (
        (classifier, "proba", "'proba'"),
        (regressor, "predict_proba", "Regressor"),
        (encoder, "table", "Encoder"),
        (EarlyClassifier(), "table", "EarlyClassifier"),
    ):
        with pytest.raises(ValueError, match=message):
            write_model(estimator, tmp_path / "x", output=output)
    assert not list(tmp_path.iterdir()), "nothing is left of them"
    write_model(classifier, tmp_path / "x", output="predict")
    answer = mlflow.pyfunc.load_model(str(tmp_path / "x")).predict({"series": X})
    assert np.array_equal(answer, classifier.predict(X))
    with pytest.raises(FileExistsError):
        write_model(classifier, tmp_path / "x")


@pytest.mark.parametrize("kind", ["classifier", "convolutions", "ensemble"])
def test_a_classifier_of_any_kind_answers_with_its_classes(kind, tmp_path):
    estimator = small.FIVE[kind]().fit(X, Y)
    write_model(estimator, tmp_path / "model", input_example=X[:2])
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    table = as_json().set_axis(range(len(X), 0, -1))
    answer = served.predict(table)
    assert list(answer) == ["prediction", "p(no)", "p(yes)"]
    assert answer.index.equals(table.index)
    assert np.array_equal(answer["prediction"], estimator.predict(X))
    assert np.array_equal(answer[["p(no)", "p(yes)"]], estimator.predict_proba(X))
    example = served.predict(served.input_example)
    pd.testing.assert_frame_equal(example, answer[:2].reset_index(drop=True))
    for output in ("predict", "predict_proba"):
        loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"), model_config={"output": output})
        assert np.array_equal(loaded.predict(as_json()), getattr(estimator, output)(X))
    assert "NaN" not in (tmp_path / "model/input_example.json").read_text()


def test_a_regressor_answers_with_numbers_and_any_model_with_novelty(tmp_path):
    regressor = small.regressor().fit(X, np.arange(16.0))
    answer = ServedModel(regressor).predict(as_json())
    assert list(answer) == ["prediction"]
    assert np.array_equal(answer["prediction"], regressor.predict(X))
    masked = [np.ma.array(np.nan_to_num(x, nan=9.0), mask=np.isnan(x)) for x in X]
    pd.testing.assert_frame_equal(ServedModel(regressor).predict(masked), answer)
    (column,) = signature_of(regressor, "table").outputs.inputs
    assert (column.name, column.type) == ("prediction", mlflow.types.DataType.double)
    for estimator in (regressor, small.convolutions().fit(X, Y)):
        folder = tmp_path / type(estimator).__name__
        write_model(estimator, folder, output="table+novelty")
        served = mlflow.pyfunc.load_model(str(folder))
        answer = served.predict(as_json())
        pd.testing.assert_frame_equal(answer.iloc[:, :-1], ServedModel(estimator).predict(X))
        assert np.array_equal(answer["novelty"], estimator.novelty_score(X))
        assert served.metadata.signature.outputs.input_names() == list(answer)


def test_times_have_a_column_of_their_own():
    classifier = small.classifier().fit(X, Y, times=TIMES)
    table = as_json(times=[times.tolist() for times in TIMES])
    answer = ServedModel(classifier, "table+novelty").predict(table)
    expected = classifier.predict_proba(X, times=TIMES)
    assert np.array_equal(answer[["p(no)", "p(yes)"]], expected)
    assert np.array_equal(answer["novelty"], classifier.novelty_score(X, TIMES))
    for times in (["soon"], None):
        with pytest.raises(mlflow.exceptions.MlflowException, match="series 0"):
            ServedModel(classifier).predict(as_json(times=[times] * 16))

    dates = [pd.Timestamp("2026-01-01") + pd.to_timedelta(hours, unit="h") for hours in TIMES]
    frames = [pd.DataFrame(x.T, index=index) for x, index in zip(X, dates, strict=True)]
    classifier = small.classifier(timestamps="index").fit(frames, Y)
    assert signature_of(classifier, "table").inputs.input_names() == ["series", "times"]
    table = as_json(times=[index.astype(str).tolist() for index in dates])
    answer = ServedModel(classifier, "predict_proba").predict(table)
    np.testing.assert_allclose(answer, classifier.predict_proba(frames), rtol=1e-5)


@pytest.mark.parametrize("cell", [[[1, 2], [3]], [1, 2]])
def test_what_is_no_series_is_refused_by_its_number(cell):
    served, table = ServedModel(small.convolutions().fit(X, Y)), as_json()
    table.at[1, "series"] = cell
    with pytest.raises(mlflow.exceptions.MlflowException, match="series 1") as refused:
        served.predict(table)
    assert refused.value.get_http_status_code() == 400


@pytest.fixture(scope="module")
def server(folder):
    """Serve a model by the command of the page on serving; its address, and where it listens."""
    port = free_port()
    page = (Path(__file__).parents[2] / "docs/guide/serving.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^mlflow (models serve .*) &$", page, re.MULTILINE)
    command = command.replace("-m served", f"-m {folder}").replace("5001", str(port))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    program = [sys.executable, "-m", "mlflow", *command.split()]
    process = subprocess.Popen(program, env=environment, start_new_session=True)
    served = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or answers(f"{served}/ping"))
        assert process.poll() is None
        yield served, listening(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def invocations(server: str, payload: dict[str, Any]) -> Any:
    url, headers = f"{server}/invocations", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(payload).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_a_server_listens_here_only_answers_in_all_formats_and_refuses(server, classifier, italy):
    """Series of unequal lengths, with gaps, once as null and once as the NaN of Python's JSON."""
    address, listens = server
    assert listens == {("127.0.0.1", int(address.rpartition(":")[2]))}
    post = partial(invocations, address)
    X = [series[:, : 24 - 3 * i].copy() for i, series in enumerate(italy[0][:4])]
    X[1][0, 5:7] = X[2][0, 3] = np.nan
    expected = ServedModel(classifier).predict(X)
    series = [x.tolist() for x in X]
    series[1][0][5:7] = [None, None]
    even = [channel + [None] * (24 - len(channel)) for (channel,) in series]
    for payload in (
        {"dataframe_split": {"columns": ["series"], "data": [[x] for x in series]}},
        {"inputs": series},
        {"inputs": [{"series": x} for x in series]},
        {"instances": [{"series": x} for x in even]},
    ):
        answer = pd.DataFrame(post(payload)["predictions"])
        pd.testing.assert_frame_equal(answer, expected, rtol=1e-5)
    answer = pd.DataFrame(post({"inputs": WIDE.to_dict("list")})["predictions"])
    np.testing.assert_allclose(answer["p(1)"], classifier.predict_proba(ARRAY)[:, 0], rtol=1e-5)
    with pytest.raises(urllib.error.HTTPError) as refused:
        post({"inputs": [[[1, 2], [3]]]})
    assert refused.value.code == 400
    assert "series 0 must be a list of numbers" in json.load(refused.value)["message"]
    refused.value.close()
