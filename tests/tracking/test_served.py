"""What a registered model of each kind is asked and answers, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerRegressor,
)
from tsformer.tracking import RunStore
from tsformer.tracking.register import load_registered, register, write_model
from tsformer.tracking.served import ServedModel, describe_input, signature_of

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1, "random_state": 0}
RNG = np.random.default_rng(0)
X = [RNG.normal(size=(2, length)) for length in RNG.integers(9, 20, size=12)]
X[0][0, 2] = X[1][1, 0] = np.nan
Y = ["no", "yes"] * 6
NUMBERS = [np.cumsum(RNG.uniform(0.5, 1.5, size=x.shape[1])) for x in X]
DATES = [pd.Timestamp("2026-01-01") + pd.to_timedelta(hours, unit="h") for hours in NUMBERS]
FRAMES = [pd.DataFrame(x.T, index=date) for x, date in zip(X, DATES, strict=True)]


def asked(x: Any = X, **columns: Any) -> pd.DataFrame:
    """Series as they come out of JSON."""
    lists = [[[None if np.isnan(v) else v for v in channel] for channel in each] for each in x]
    return pd.DataFrame({"series": lists, **columns})


@pytest.mark.parametrize(
    "estimator",
    [
        TSTransformerClassifier("tape+erpe", **SMALL),
        TSTransformerClassifier("lspe", n_estimators=2, **SMALL),
        RandomConvolutionClassifier(168, random_state=0),
        TSEnsembleClassifier(
            "fast",
            transformer_params={k: v for k, v in SMALL.items() if k != "random_state"},
            convolution_params={"n_features": 168},
            random_state=0,
        ),
    ],
    ids=["classifier", "members", "convolutions", "ensemble"],
)
def test_a_classifier_of_any_kind_answers_with_its_classes(estimator: Any, tmp_path: Path) -> None:
    estimator.fit(X, Y)
    write_model(estimator, tmp_path / "model", input_example=X[:2])
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    answer = served.predict(asked())
    assert list(answer) == ["prediction", "p(no)", "p(yes)"]
    assert np.array_equal(answer["prediction"], estimator.predict(X))
    assert np.array_equal(answer[["p(no)", "p(yes)"]], estimator.predict_proba(X))
    pd.testing.assert_frame_equal(served.predict(served.input_example), answer[:2])
    assert "NaN" not in (tmp_path / "model/serving_input_example.json").read_text()


def test_a_regressor_answers_with_numbers(store: RunStore) -> None:
    regressor = TSTransformerRegressor("none", **SMALL).fit(X, np.arange(12.0))
    address = register(regressor, "numbers", store)
    assert np.array_equal(load_registered(address, store).predict(X), regressor.predict(X))
    answer = ServedModel(regressor).predict(asked())
    assert list(answer) == ["prediction"]
    assert np.array_equal(answer["prediction"], regressor.predict(X))
    pd.testing.assert_frame_equal(ServedModel(regressor).predict(X), answer)
    (column,) = signature_of(regressor, "table").outputs.inputs
    assert (column.name, column.type) == ("prediction", mlflow.types.DataType.double)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([0, 1], "long"), ([True, False], "boolean"), ([0.0, 1.0], "double"), (["a", "b"], "string")],
)
def test_labels_keep_their_type(labels: list[Any], kind: str) -> None:
    classifier = RandomConvolutionClassifier(168, random_state=0).fit(X, labels * 6)
    answer = ServedModel(classifier).predict(asked())
    assert set(answer["prediction"]) <= set(labels)
    assert list(answer)[1:] == [f"p({label})" for label in sorted(labels)]
    (column, *_) = signature_of(classifier, "table").outputs.inputs
    assert column.type.name == kind


def test_times_have_a_column_of_their_own() -> None:
    classifier = TSTransformerClassifier("tape", **SMALL)
    classifier.fit(X, Y, times=NUMBERS)
    assert "`times`: the times of its steps, numbers" in describe_input(classifier)
    table = asked(times=[times.tolist() for times in NUMBERS])
    expected = classifier.predict_proba(X, times=NUMBERS)
    assert np.array_equal(ServedModel(classifier, "predict_proba").predict(table), expected)
    with pytest.raises(mlflow.exceptions.MlflowException, match="times of series 0 are text"):
        ServedModel(classifier).predict(asked(times=[["soon"]] * 12))

    classifier = TSTransformerClassifier("tape", timestamps="index", **SMALL).fit(FRAMES, Y)
    assert signature_of(classifier, "table").inputs.input_names() == ["series", "times"]
    table = asked(times=[[str(date) for date in dates] for dates in DATES])
    answer = ServedModel(classifier, "predict_proba").predict(table)
    np.testing.assert_allclose(answer, classifier.predict_proba(FRAMES), rtol=1e-5)


def test_what_is_no_series_is_refused_by_its_number() -> None:
    served = ServedModel(RandomConvolutionClassifier(168, random_state=0).fit(X, Y))
    table = asked()
    for cell, message in (
        ([[1, 2], [3]], "series 1 must be 2 lists of numbers, one for each channel, all of one"),
        ([[1, 2, 3]], r"series 1 must be 2 lists .*; got an array of shape \(1, 3\)"),
        ([1, 2], r"got an array of shape \(2,\)"),
        ("ab", "series 1 must be .*could not convert string to float"),
        ([[], []], "series 1 is empty"),
        ([[np.inf], [1]], "infinite"),
    ):
        table.at[1, "series"] = cell
        with pytest.raises(mlflow.exceptions.MlflowException, match=message) as refused:
            served.predict(table)
        assert refused.value.get_http_status_code() == 400


@pytest.mark.slow
def test_mlflow_evaluates_a_registered_model(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its evaluator wants a column of labels: the answer of ``output="predict"``."""
    classifier = RandomConvolutionClassifier(168, random_state=0).fit(X, Y)
    address = register(classifier, "evaluated", store)
    monkeypatch.setenv("MLFLOW_LOGGING_LEVEL", "ERROR")
    table = asked().assign(label=Y[::-1])
    mlflow.set_tracking_uri(store.uri)
    try:
        with mlflow.start_run(experiment_id=store.experiment_id):
            result = mlflow.models.evaluate(
                address, table, targets="label", model_type="classifier",
                model_config={"output": "predict"},
                evaluator_config={"log_explainer": False, "pos_label": "yes"},
            )  # fmt: skip
    finally:
        mlflow.set_tracking_uri(None)
    assert result.metrics["accuracy_score"] == classifier.score(X, Y[::-1])
    assert "confusion_matrix" in result.artifacts
