"""A fitted estimator as a model of MLflow: written, registered, served, loaded.

The model is the folder that `tsformer.save` writes, JSON and safetensors, beside MLflow's own
``MLmodel``. `mlflow.pyfunc` and MLflow's server load it through `_load_pyfunc`.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsformer._optional import require
from tsformer._version import __version__
from tsformer.estimators.loading import load
from tsformer.estimators.series import SeriesEstimator
from tsformer.estimators.summary import card
from tsformer.tracking.run import storable
from tsformer.tracking.served import ServedModel, describe_input, example_table, signature_of
from tsformer.tracking.store import RunStore
from tsformer.tracking.tracker import encoding_of

if TYPE_CHECKING:
    import torch


__all__ = ["card_of_run", "load_registered", "register", "write_model"]

_FOLDER = "estimator"
#: Longest description of a version in MLflow's registry.
_DESCRIPTION_LENGTH = 5000
_PACKAGES = ("torch", "numpy", "pandas", "scikit-learn")


def write_model(
    estimator: SeriesEstimator,
    path: str | os.PathLike[str],
    *,
    output: str = "table",
    input_example: Any = None,
) -> None:
    """Write a fitted estimator to a new folder as a model of MLflow."""
    models = require("mlflow.models", extra="tracking", purpose="saving a model for MLflow")
    pyfunc = require("mlflow.pyfunc", extra="tracking", purpose="saving a model for MLflow")
    utils = require("mlflow.models.utils", extra="tracking", purpose="saving a model for MLflow")
    ServedModel(estimator, output)  # rejects an unknown output
    folder = Path(path)
    folder.mkdir(parents=True)
    estimator.save(folder / _FOLDER)
    described = models.Model(
        signature=signature_of(estimator, output),
        metadata={"input": describe_input(estimator)},
    )
    example = None if input_example is None else example_table(estimator, input_example)
    if example is not None:
        utils._save_example(described, example, str(folder))
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


def card_of_run(estimator: SeriesEstimator, run_id: str, folder: str = f"model/{_FOLDER}") -> str:
    """Return the card of an estimator among the artifacts of a run."""
    address = f"runs:/{run_id}/{folder}"
    return card(estimator, f'mlflow.artifacts.download_artifacts("{address}")')


def register(
    estimator: SeriesEstimator,
    name: str,
    store: RunStore,
    *,
    output: str = "table",
) -> str:
    """Log a fitted estimator as a model of MLflow, and register it.

    The model answers tables with tables, over HTTP and from `mlflow.pyfunc.load_model`.
    `load_registered` returns the estimator.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator of this package. `callbacks` and `device` are not saved.
    name : str
        Name in the registry; an existing name gets a new version.
    store : RunStore
        The store; the model gets a run of its own.
    output : {"table", "table+novelty", "predict", "predict_proba"}
        Answer of the served model: a table with the prediction and, for a classifier, the
        probability of each class; the same with a column of `novelty_score`; labels alone; or
        probabilities alone.

    Returns
    -------
    str
        The address of the version, such as ``"models:/NAME/1"``, for ``mlflow models serve -m``.

    Raises
    ------
    ValueError
        If `output` is unknown or unavailable for this estimator, or it cannot be saved.
    ImportError
        If mlflow is missing.
    """
    if not isinstance(estimator, SeriesEstimator):
        raise ValueError(
            f"{type(estimator).__name__} is not served; register its attribute classifier_"
        )
    exceptions = require("mlflow.exceptions", extra="tracking", purpose="registering a model")
    client = store.client()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write_model(estimator, path, output=output)
        with store.start(f"model {name}", kind="model") as run:
            kind, encoding = type(estimator).__name__, encoding_of(estimator)
            run.params({"estimator": kind, "model": name, "output": output})
            run.params({"encoding": encoding} if encoding else {})
            client.log_artifacts(run.run_id, str(path), "model")
            described = card_of_run(estimator, run.run_id)
            run.describe(described)
    try:
        client.create_registered_model(name)
    except exceptions.MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise ValueError(f"cannot register a model as {name!r}: {error}") from error
    version = client.create_model_version(
        name,
        source=f"runs:/{run.run_id}/model",
        run_id=run.run_id,
        description=storable(f"{describe_input(estimator)}\n\n{described}", _DESCRIPTION_LENGTH),
    )
    return f"models:/{name}/{version.version}"


def load_registered(
    model: str | os.PathLike[str],
    store: RunStore | None = None,
    *,
    device: str | torch.device = "auto",
) -> SeriesEstimator:
    """Load an estimator that `register` stored, without running code stored with it.

    MLflow's own loaders obey the model's ``MLmodel``, which may request pickle. `load_registered`
    reads the estimator's folder only.

    Parameters
    ----------
    model : str or path
        An address such as ``"models:/NAME/1"``, or a folder that `register` stored.
    store : RunStore, optional
        The store of an address.
    device : str or torch.device, default="auto"
        The device of the model.

    Returns
    -------
    fitted estimator

    Raises
    ------
    ValueError
        If the model was not stored by `register`, or an address comes without a store.
    FileNotFoundError
        If there is no model.
    ImportError
        If mlflow is missing.
    """
    text = os.fspath(model)
    if not text.startswith("models:/"):
        return load(Path(text) / _FOLDER, device=device)
    if store is None:
        raise ValueError(f"{text} is an address in a store; pass store=")
    name, _, version = text.removeprefix("models:/").rpartition("/")
    client = store.client()
    run_id = client.get_model_version(name, version).run_id
    with tempfile.TemporaryDirectory() as folder:
        downloaded = Path(client.download_artifacts(run_id, "model", folder))
        return load(downloaded / _FOLDER, device=device)


def _load_pyfunc(
    path: str | os.PathLike[str], model_config: Mapping[str, Any] | None = None
) -> ServedModel:
    """Load a model for `mlflow.pyfunc.load_model`."""
    return ServedModel(load(path), **(model_config or {}))


def _version(package: str) -> str:
    """Return a version without its build, such as "+cpu", which no registry has."""
    return metadata.version(package).partition("+")[0]
