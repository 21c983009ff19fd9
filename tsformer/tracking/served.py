"""Input and output of a registered model, over HTTP and from `mlflow.pyfunc`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer._checks import check_known, shortened
from tsformer._optional import require
from tsformer.data.native import is_series, to_numpy
from tsformer.data.times import ordered_times
from tsformer.estimators.series import SeriesEstimator

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

#: Answers of a model: a table, with or without a column of novelty scores, labels, probabilities.
OUTPUTS = ("table", "table+novelty", "predict", "predict_proba")

_SERIES, _TIMES = "series", "times"
_KINDS = {"b": "boolean", "i": "long", "u": "long", "f": "double", "M": "datetime"}


class ServedModel:
    """A fitted estimator as MLflow's ``python_function``: series in, a table out."""

    def __init__(self, estimator: SeriesEstimator, output: str = "table"):
        check_known("output", output, OUTPUTS)
        method = "predict_proba" if output == "predict_proba" else "predict"
        if not hasattr(estimator, method):
            raise ValueError(
                f"output={output!r} needs {method}, which {type(estimator).__name__} does not have"
            )
        self.estimator = estimator
        self.output = output

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return the answer for what `fit` takes, or a table with a column ``series``."""
        exceptions = require("mlflow.exceptions", extra="tracking", purpose="serving a model")
        try:
            return self._answer(data)
        except (ValueError, TypeError) as error:
            raise exceptions.MlflowException.invalid_parameter_value(str(error)) from error

    def _answer(self, data: Any) -> Any:
        estimator: Any = self.estimator
        passed: dict[str, Any] = {}
        if isinstance(data, (str, os.PathLike)):
            raise ValueError(f"a served model opens no files: pass series; got {shortened(data)}")
        rows = isinstance(data, list) and data and isinstance(data[0], Mapping)
        if rows or (isinstance(data, Mapping) and _SERIES not in data):
            data = pd.DataFrame(data)  # a wide table as JSON
        named = isinstance(data, (Mapping, pd.DataFrame)) and _SERIES in data
        series = list(data[_SERIES]) if named else data
        if isinstance(series, (list, tuple)):
            series = [_values(cell, estimator.n_channels_, i) for i, cell in enumerate(series)]
        if named and estimator.clock_ is not None and _TIMES in data:
            times = []
            for row, cell in enumerate(data[_TIMES]):
                if np.ndim(cell) != 1:
                    raise ValueError(f"times of series {row} must be a list; got {shortened(cell)}")
                times.append(ordered_times(list(cell), f"times of series {row}"))
            if estimator.timestamps == "index":
                pairs = zip(series, times, strict=True)
                series = [pd.DataFrame(values.T, index=index) for values, index in pairs]
            else:
                passed = {"times": times}
        if self.output in ("predict", "predict_proba"):
            return getattr(estimator, self.output)(series, **passed)
        names = _prediction_names(estimator)
        if hasattr(estimator, "predict_proba"):
            proba = estimator.predict_proba(series, **passed)
            table = pd.DataFrame(estimator.target_.decide(proba, least=0.5), columns=names)
            table = table.join(pd.DataFrame(proba, columns=_probability_names(estimator)))
        else:
            table = pd.DataFrame(estimator.predict(series, **passed), columns=names)
        if self.output == "table+novelty":
            table["novelty"] = estimator.novelty_score(series, **passed)
        # pandas assigns a column of answers by the index.
        indexed = isinstance(data, pd.DataFrame) and not isinstance(data.index, pd.MultiIndex)
        return table.set_axis(data.index) if indexed else table


def signature_of(estimator: SeriesEstimator, output: str) -> ModelSignature:
    """Return MLflow's signature of the model, for one of `OUTPUTS`."""
    types = require("mlflow.types", extra="tracking", purpose="registering a model")
    schema = require("mlflow.types.schema", extra="tracking", purpose="registering a model")
    models = require("mlflow.models", extra="tracking", purpose="registering a model")
    inputs = [types.ColSpec(schema.AnyType(), name) for name in _columns(estimator)]
    classes = getattr(estimator, "classes_", np.empty(0))
    kind = _KINDS.get(classes.dtype.kind, "string")
    answers = [types.ColSpec(kind, name) for name in _prediction_names(estimator)]
    shares = [types.ColSpec("double", name) for name in _probability_names(estimator)]
    tensor = types.TensorSpec(np.dtype("float64"), (-1, len(classes)))
    numbers = np.dtype("int64" if kind == "long" else "float64")
    several = types.TensorSpec(numbers, (-1, len(answers)))
    outputs = {
        "table": [*answers, *shares],
        "table+novelty": [*answers, *shares, types.ColSpec("double", "novelty")],
        "predict": [several if estimator.target_.shape else types.ColSpec(kind)],
        "predict_proba": [tensor],
    }
    return models.ModelSignature(inputs=types.Schema(inputs), outputs=types.Schema(outputs[output]))


def example_table(estimator: SeriesEstimator, X: Any) -> pd.DataFrame | None:
    """Return series as a JSON table; None if columns are missing."""
    table = X.copy() if isinstance(X, pd.DataFrame) else pd.DataFrame({_SERIES: list(X)})
    if not set(_columns(estimator)) <= set(table):
        return None
    cells = [np.asarray(cell, dtype=np.float64) for cell in table[_SERIES]]
    table[_SERIES] = [np.where(np.isnan(cell), np.array(None), cell).tolist() for cell in cells]
    return table


def describe_input(estimator: SeriesEstimator) -> str:
    """Describe the columns of the input."""
    text = (
        f"`{_SERIES}`: one series per row, {_lists(estimator.n_channels_)}; series may differ in "
        "length, and null or NaN is a missing value."
    )
    if estimator.clock_ is not None:
        text += f" `{_TIMES}`: the times of its steps, {estimator.clock_}."
    return text


def _lists(n_channels: int) -> str:
    if n_channels == 1:
        return "a list of numbers"
    return f"{n_channels} lists of numbers, one for each channel, all of one length"


def _columns(estimator: SeriesEstimator) -> list[str]:
    return [_SERIES] if estimator.clock_ is None else [_SERIES, _TIMES]


def _prediction_names(estimator: Any) -> list[str]:
    if not estimator.target_.shape:
        return ["prediction"]
    return [f"prediction({i})" for i in range(*estimator.target_.shape)]


def _probability_names(estimator: Any) -> list[str]:
    return [f"p({label})" for label in getattr(estimator, "classes_", ())]


def _values(cell: Any, n_channels: int, row: int) -> Any:
    """Return one series [C, L]; tables and tensors as they are."""
    if is_series(cell) and not isinstance(cell, np.ndarray):
        return cell
    try:
        values = np.asarray(to_numpy(cell), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"series {row} must be {_lists(n_channels)}, with null for missing values ({error})"
        ) from error
    if values.ndim == 1 and n_channels == 1:
        values = values[None]
    if values.ndim != 2 or len(values) != n_channels:
        raise ValueError(
            f"series {row} must be {_lists(n_channels)}; got an array of shape {values.shape}"
        )
    return values
