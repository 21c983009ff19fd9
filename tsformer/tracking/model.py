"""A fitted estimator as a model of MLflow.

The model is the folder that `tsformer.save` writes, JSON and safetensors, beside MLflow's own
``MLmodel``. `mlflow.pyfunc` and MLflow's server load it through `_load_pyfunc`.
"""

import functools
import json
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tsformer._optional import require
from tsformer._version import __version__
from tsformer.estimators.saving import load
from tsformer.estimators.series import SeriesEstimator
from tsformer.estimators.summary import card
from tsformer.tracking.served import ServedModel, describe_input, example_table, signature_of
from tsformer.tracking.tracked_run import TAG_LENGTH, storable

_FOLDER = "estimator"
_PACKAGES = ("torch", "numpy", "pandas", "scikit-learn")


def write_model(
    estimator: SeriesEstimator,
    path: str | os.PathLike[str],
    *,
    output: str = "table",
    input_example: Any = None,
) -> None:
    """Write a fitted estimator to a new folder as a model of MLflow.

    `mlflow.pyfunc.load_model` loads it, ``mlflow models serve -m _FOLDER`` serves it, and
    `mlflow.register_model` adds it to the registry. The model answers tables with tables. Its
    subfolder ``estimator`` is what `tsformer.load` reads.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator of this package that predicts. `callbacks` and `device` are not saved.
    path : path
        The folder, which must not exist.
    output : {"table", "table+novelty", "predict", "predict_proba"}
        Answer of the served model: a table with the prediction and, for a classifier, the
        probability of each class; the same with a column of `novelty_score`; labels alone; or
        probabilities alone.
    input_example : optional
        Series that are stored as an example of the input.

    Raises
    ------
    ValueError
        If `output` is unknown or unavailable for this estimator, or it cannot be saved.
    FileExistsError
        If there is something at `path`.
    ImportError
        If mlflow is missing.
    """
    if not isinstance(estimator, SeriesEstimator):
        raise ValueError(
            f"{type(estimator).__name__} is not served; write its attribute classifier_"
        )
    models = require("mlflow.models", extra="tracking", purpose="saving a model for MLflow")
    pyfunc = require("mlflow.pyfunc", extra="tracking", purpose="saving a model for MLflow")
    ServedModel(estimator, output)  # rejects an unknown output
    folder = Path(path)
    if folder.exists():
        raise FileExistsError(f"{path} exists already; name a new folder, or delete it")
    folder.mkdir(parents=True)
    estimator.save(folder / _FOLDER)
    described = models.Model(
        signature=signature_of(estimator, output),
        metadata={"input": describe_input(estimator)},
    )
    example = None if input_example is None else example_table(estimator, input_example)
    if example is not None:
        split = example.to_dict("split", index=False)
        files = {
            "input_example.json": split,
            "serving_input_example.json": {"dataframe_split": split},
        }
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content, default=str), encoding="utf-8")
        info = {"type": "dataframe", "pandas_orient": "split"}
        names = dict(zip(("artifact_path", "serving_input_path"), files, strict=True))
        described.saved_input_example_info = {**info, **names}
    # `pyfunc.save_model` spends seconds on checking and inferring requirements.
    requirements = [f"{name}=={_version(name)}" for name in _PACKAGES]
    requirements += [f"tsformer=={__version__}", f"mlflow=={_version('mlflow')}"]
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    environment = {
        "python": platform.python_version(),
        "dependencies": ["-r requirements.txt"],
    }
    (folder / "python_env.yaml").write_text(json.dumps(environment), encoding="utf-8")
    pyfunc.add_to_model(
        described,
        loader_module=__name__,
        data=_FOLDER,
        python_env="python_env.yaml",
        model_config={"output": output},
    )
    described.add_flavor("tsformer", data=_FOLDER, tsformer_version=__version__)
    described.save(folder / "MLmodel")


def register_model(model_uri: str, name: str) -> Any:
    """Add a model to MLflow's registry, with its card as the description.

    `mlflow.register_model` and the button on MLflow's page leave the description empty.

    Parameters
    ----------
    model_uri : str
        Address of the model: ``models:/ID``, ``runs:/RUN/model``, or a folder of `write_model`.
    name : str
        Name in the registry. A name that exists gets a new version.

    Returns
    -------
    mlflow.entities.model_registry.ModelVersion
    """
    mlflow = require("mlflow", extra="tracking", purpose="registering a model")
    version = mlflow.register_model(model_uri, name).version
    address = f"models:/{name}/{version}/{_FOLDER}"
    folder = Path(mlflow.artifacts.download_artifacts(address))
    text = (folder / "README.md").read_text(encoding="utf-8")  # may be edited
    text = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.DOTALL | re.MULTILINE)  # for hubs
    program = f"import mlflow\nimport tsformer\n\nmodel = tsformer.load({_downloaded(address)})"
    text = text.replace('import tsformer\n\nmodel = tsformer.load(".")', program)
    client = mlflow.MlflowClient()
    return client.update_model_version(name, version, storable(text, TAG_LENGTH))


def card_of_run(estimator: SeriesEstimator, run_id: str, folder: str = f"model/{_FOLDER}") -> str:
    """Return the card of an estimator that a run has."""
    return card(estimator, _downloaded(f"runs:/{run_id}/{folder}"))


def _downloaded(address: str) -> str:
    return f'mlflow.artifacts.download_artifacts("{address}")'


def _load_pyfunc(
    path: str | os.PathLike[str], model_config: Mapping[str, Any] | None = None
) -> ServedModel:
    """Load a model for `mlflow.pyfunc.load_model`."""
    _leave_input_alone(vars(require("mlflow.pyfunc", extra="tracking", purpose="loading a model")))
    return ServedModel(load(path), **(model_config or {}))


def _leave_input_alone(pyfunc: dict[str, Any]) -> None:
    """Let MLflow pass input to our models without a conversion."""
    # No public way: without a signature Unity Catalog refuses the model; one "from type hints"
    # leaves input alone, but then the server refuses tables (`dataframe_split`, CSV).
    check = pyfunc["_enforce_schema"]  # which makes a table of it: arrays [n, C, L] fail
    if hasattr(check, "__wrapped__"):
        return

    @functools.wraps(check)
    def unless_ours(data: Any, schema: Any, loader: str | None = None) -> Any:
        return data if loader == __name__ else check(data, schema, loader)

    pyfunc["_enforce_schema"] = unless_ours


def _version(package: str) -> str:
    """Return a version without its build, such as "+cpu", which no registry has."""
    return metadata.version(package).partition("+")[0]
