"""A fitted estimator as a model of MLflow: the folder of `tsformer.save` beside an ``MLmodel``.

`mlflow.pyfunc` and MLflow's server load it through `_load_pyfunc`; no pickle is written.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer._checks import check_known, shortened
from tsformer._version import __version__
from tsformer.data.native import is_series, to_numpy
from tsformer.data.times import ordered_times
from tsformer.estimators.saving import load
from tsformer.estimators.series_estimator import SeriesEstimator
from tsformer.estimators.summary import card
from tsformer.tracking.store import mlflow_part

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

#: Answers of a model: a table, with or without a column of novelty scores, labels, probabilities.
OUTPUTS = ("table", "table+novelty", "predict", "predict_proba")

_SERIES, _TIMES = "series", "times"
_KINDS = {"b": "boolean", "i": "long", "u": "long", "f": "double", "M": "datetime"}
_FOLDER = "estimator"
_PACKAGES = ("torch", "numpy", "pandas", "scikit-learn", "mlflow")


def write_model(
    estimator: SeriesEstimator,
    path: str | os.PathLike[str],
    *,
    output: str = "table",
    input_example: Any = None,
) -> None:
    """Write a fitted estimator to a new folder as a model of MLflow.

    `mlflow.pyfunc.load_model` loads it, and ``mlflow models serve`` serves it; see
    `docs/guide/serving.md`. Its subfolder ``estimator`` is what `tsformer.load` reads.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator of this package that predicts. `callbacks` and `device` are not saved.
    path : path
        The folder, which must not exist.
    output : {"table", "table+novelty", "predict", "predict_proba"}
        Answer of the served model: a table of predictions and probabilities, also with novelty
        scores, or an array of labels or of probabilities.
    input_example : optional
        Series that are stored as an example of the input.

    Raises
    ------
    ValueError
        If `output` is unknown or unavailable for this estimator, or it cannot be saved.
    FileExistsError, ImportError
        If there is something at `path`, or mlflow is missing.
    """
    ServedModel(estimator, output)  # rejects an unknown output
    folder = Path(path)
    if folder.exists():
        raise FileExistsError(f"{path} exists already; name a new folder, or delete it")
    folder.mkdir(parents=True)
    estimator.save(folder / _FOLDER)
    described = mlflow_part("models").Model(signature=signature_of(estimator, output))
    example = None if input_example is None else example_table(estimator, input_example)
    if example is not None:
        info = {"artifact_path": "input_example.json", "type": "dataframe"}
        described.saved_input_example_info = info | {"pandas_orient": "split"}
        text = json.dumps(example.to_dict("split", index=False), default=str)
        (folder / info["artifact_path"]).write_text(text, encoding="utf-8")
    # `pyfunc.save_model` spends seconds on checking and inferring requirements.
    versions = {name: metadata.version(name) for name in _PACKAGES} | {"tsformer": __version__}
    # A version with a build, such as "+cpu", is on no registry.
    lines = (f"{name}=={version.partition('+')[0]}\n" for name, version in versions.items())
    (folder / "requirements.txt").write_text("".join(lines), encoding="utf-8")
    environment = {"python": platform.python_version(), "dependencies": ["-r requirements.txt"]}
    (folder / "python_env.yaml").write_text(json.dumps(environment), encoding="utf-8")
    files: dict[str, Any] = {"data": _FOLDER, "python_env": "python_env.yaml"}
    config = {"output": output}
    mlflow_part("pyfunc").add_to_model(described, __name__, model_config=config, **files)
    described.add_flavor("tsformer", data=_FOLDER, tsformer_version=__version__)
    described.save(folder / "MLmodel")


def register_model(model_uri: str, name: str) -> Any:
    """Add a model to MLflow's registry, with its card as the description.

    MLflow's own ways to register leave the description empty. `model_uri` is ``models:/ID``,
    ``runs:/RUN/model``, or a folder of `write_model`; a `name` that exists gets a new version.
    Returns the ``ModelVersion`` of MLflow.
    """
    mlflow = mlflow_part()
    version = mlflow.register_model(model_uri, name).version
    address = f"models:/{name}/{version}/{_FOLDER}"
    text = card_at(load(mlflow.artifacts.download_artifacts(address)), address)
    return mlflow.MlflowClient().update_model_version(name, version, text[:5000])


def card_at(estimator: SeriesEstimator, address: str) -> str:
    """Return the card of an estimator that is an artifact of MLflow."""
    return card(estimator, f'mlflow.artifacts.download_artifacts("{address}")')


def _load_pyfunc(
    path: str | os.PathLike[str], model_config: Mapping[str, Any] | None = None
) -> ServedModel:
    """Load a model for `mlflow.pyfunc.load_model`; MLflow passes it input as it is."""
    # No public way: without a signature Unity Catalog refuses the model; one "from type hints"
    # leaves input alone, but then the server refuses tables (`dataframe_split`, CSV).
    pyfunc = vars(mlflow_part("pyfunc"))
    check = pyfunc["_enforce_schema"]  # which makes a table of it: arrays [n, C, L] fail

    @functools.wraps(check)
    def unless_ours(data: Any, schema: Any, loader: str | None = None) -> Any:
        return data if loader == __name__ else check(data, schema, loader)

    if not hasattr(check, "__wrapped__"):
        pyfunc["_enforce_schema"] = unless_ours
    return ServedModel(load(path), **(model_config or {}))


class ServedModel:
    """A fitted estimator as MLflow's ``python_function``: series in, a table out."""

    def __init__(self, estimator: SeriesEstimator, output: str = "table"):
        check_known("output", output, OUTPUTS)
        method = "predict_proba" if output == "predict_proba" else "predict"
        if not isinstance(estimator, SeriesEstimator) or not hasattr(estimator, method):
            kind = type(estimator).__name__
            raise ValueError(f"output={output!r} needs {method} of an estimator; got {kind}")
        self.estimator, self.output = estimator, output

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return the answer for what `fit` takes, or a table with a column ``series``."""
        try:
            return self._answer(data)
        except (ValueError, TypeError) as error:
            invalid = mlflow_part("exceptions").MlflowException.invalid_parameter_value
            raise invalid(str(error)) from error

    def _answer(self, data: Any) -> Any:
        estimator: Any = self.estimator
        if isinstance(data, (str, os.PathLike)):
            raise ValueError(f"a served model opens no files: pass series; got {shortened(data)}")
        rows = isinstance(data, list) and data and isinstance(data[0], Mapping)
        if rows or (isinstance(data, Mapping) and _SERIES not in data):
            data = pd.DataFrame(data)  # a wide table as JSON
        named = isinstance(data, (Mapping, pd.DataFrame)) and _SERIES in data
        series = list(data[_SERIES]) if named else data
        if isinstance(series, (list, tuple)):
            series = [_values(cell, estimator.n_channels_, i) for i, cell in enumerate(series)]
        passed: dict[str, Any] = {}
        if named and estimator.clock_ is not None and _TIMES in data:
            cells = [[] if cell is None else list(cell) for cell in data[_TIMES]]
            times = [ordered_times(cell, f"times of series {i}") for i, cell in enumerate(cells)]
            passed = {"times": times}
            if estimator.timestamps == "index":
                pairs, passed = zip(series, times, strict=True), {}
                series = [pd.DataFrame(values.T, index=index) for values, index in pairs]
        if self.output in ("predict", "predict_proba"):
            return getattr(estimator, self.output)(series, **passed)
        names, probabilities = _answers(estimator)
        if hasattr(estimator, "predict_proba"):
            proba = estimator.predict_proba(series, **passed)
            table = pd.DataFrame(estimator.target_.decide(proba, least=0.5), columns=names)
            table = table.join(pd.DataFrame(proba, columns=probabilities))
        else:
            table = pd.DataFrame(estimator.predict(series, **passed), columns=names)
        if self.output == "table+novelty":
            table["novelty"] = estimator.novelty_score(series, **passed)
        # pandas assigns a column of answers by the index.
        indexed = isinstance(data, pd.DataFrame) and not isinstance(data.index, pd.MultiIndex)
        return table.set_axis(data.index) if indexed else table


def signature_of(estimator: SeriesEstimator, output: str) -> ModelSignature:
    """Return MLflow's signature of the model, for one of `OUTPUTS`."""
    types = mlflow_part("types.schema")
    columns = (_SERIES,) if estimator.clock_ is None else (_SERIES, _TIMES)
    inputs = [types.ColSpec(types.AnyType(), name) for name in columns]
    classes = getattr(estimator, "classes_", np.empty(0))
    kind = _KINDS.get(classes.dtype.kind, "string")
    names, numbers = _answers(estimator)
    numbers += ["novelty"] * (output == "table+novelty")
    outputs = [types.ColSpec(kind, name) for name in names]
    outputs += [types.ColSpec("double", name) for name in numbers]
    if output == "predict_proba":
        outputs = [types.TensorSpec(np.dtype("float64"), (-1, len(classes)))]
    elif output == "predict":
        several = np.dtype("int64" if kind == "long" else "float64")
        shape = estimator.target_.shape
        outputs = [types.TensorSpec(several, (-1, *shape)) if shape else types.ColSpec(kind)]
    return mlflow_part("models").ModelSignature(types.Schema(inputs), types.Schema(outputs))


def example_table(estimator: SeriesEstimator, X: Any) -> pd.DataFrame | None:
    """Return series as a JSON table; None if columns are missing."""
    table = X.copy() if isinstance(X, pd.DataFrame) else pd.DataFrame({_SERIES: list(X)})
    if (estimator.clock_ is not None and _TIMES not in table) or _SERIES not in table:
        return None
    cells = [np.asarray(cell, dtype=np.float64) for cell in table[_SERIES]]
    table[_SERIES] = [np.where(np.isnan(cell), np.array(None), cell).tolist() for cell in cells]
    return table


def _answers(estimator: Any) -> tuple[list[str], list[str]]:
    """Return the columns of predictions and of probabilities."""
    several = [f"prediction({i})" for i in range(*(estimator.target_.shape or [0]))]
    return several or ["prediction"], [f"p({c})" for c in getattr(estimator, "classes_", ())]


def _values(cell: Any, n_channels: int, row: int) -> Any:
    """Return one series [C, L]; tables and tensors as they are."""
    if is_series(cell) and not isinstance(cell, np.ndarray):
        return cell
    try:
        values = np.asarray(to_numpy(cell), dtype=np.float64)
        values = values[None] if values.ndim == 1 == n_channels else values
        if values.ndim == 2 and len(values) == n_channels:
            return values
        problem = f"got an array of shape {values.shape}"
    except (ValueError, TypeError) as error:
        problem = str(error)
    needed = f"a list of numbers for each of {n_channels} channels, with null for missing values"
    raise ValueError(f"series {row} must be {needed}; {problem}")
