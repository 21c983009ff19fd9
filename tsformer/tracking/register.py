"""A fitted estimator in MLflow's model registry, to be served or loaded by name.

MLflow stores the two files of `tsformer.persistence` in one object, so that loading it requires
trusting that object's type only: it has no pickle and no torch module in it. MLflow's sklearn
flavour loads that object; its ``python_function``, which is what a server runs, is `ServedModel`.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tsformer
from tsformer._optional import require
from tsformer.estimators.loading import load
from tsformer.tracking.served import ServedModel, describe_input, example_table, signature_of
from tsformer.tracking.store import RunStore

if TYPE_CHECKING:
    from types import ModuleType

    import torch

    from tsformer.estimators.series import SeriesReader

__all__ = ["RegisteredEstimator", "load_registered", "register", "write_model"]

#: The one type that a stored model consists of, besides those of NumPy and of Python itself.
_TRUSTED = "tsformer.tracking.register.RegisteredEstimator"
_PACKAGES = ("torch", "numpy", "pandas", "scikit-learn", "skops")


class RegisteredEstimator:
    """A saved estimator as MLflow holds it; it predicts what the estimator predicts.

    Parameters
    ----------
    files : dict of str to ndarray of uint8
        The files that `tsformer.save` writes, by name.

    Attributes
    ----------
    estimator_ : fitted estimator
        Loaded at first use.
    """

    def __init__(self, files: dict[str, np.ndarray]):
        self.files = files

    @classmethod
    def of(cls, estimator: SeriesReader) -> RegisteredEstimator:
        """Wrap a fitted estimator."""
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "model"
            estimator.save(saved)
            return cls(
                {
                    path.name: np.frombuffer(path.read_bytes(), dtype=np.uint8).copy()
                    for path in sorted(saved.iterdir())
                }
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}  # the estimator loaded from them holds a torch module

    @property
    def estimator_(self) -> SeriesReader:
        if "_estimator" not in self.__dict__:
            self.__dict__["_estimator"] = self.loaded()
        estimator: SeriesReader = self.__dict__["_estimator"]
        return estimator

    def loaded(self, device: str | torch.device = "auto") -> SeriesReader:
        """Load the estimator onto a device."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.files.items():
                # An untrusted file name must not escape the folder.
                (Path(folder) / Path(name).name).write_bytes(content.tobytes())
            return load(folder, device=device)

    def predict(self, X: Any) -> np.ndarray:
        """Predict as the estimator does: X [B series, C, L]."""
        estimator: Any = self.estimator_
        return np.asarray(estimator.predict(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities [B, K] of a classifier."""
        estimator: Any = self.estimator_
        return np.asarray(estimator.predict_proba(X))


def write_model(
    estimator: SeriesReader,
    path: str | os.PathLike[str],
    *,
    output: str = "table",
    signature: bool = True,
    input_example: Any = None,
) -> None:
    """Write a fitted estimator to a new folder, as a model of MLflow, without registering it."""
    sklearn = require("mlflow.sklearn", extra="tracking", purpose="saving a model for MLflow")
    models = require("mlflow.models", extra="tracking", purpose="saving a model for MLflow")
    require("skops.io", extra="tracking", purpose="saving a model for MLflow")
    ServedModel(estimator, output)  # refuses an output that there is not
    example = None if input_example is None else example_table(estimator, input_example)
    described = models.Model()
    sklearn.save_model(
        RegisteredEstimator.of(estimator),
        path,
        mlflow_model=described,
        signature=signature_of(estimator, output) if signature else False,
        input_example=example,
        metadata={"input": describe_input(estimator)},
        pip_requirements=_requirements(),
        serialization_format="skops",
        skops_trusted_types=[_TRUSTED],
    )
    # MLflow's own wrapper of scikit-learn knows no tables, and trusts what the folder says.
    loading = {"loader_module": __name__, "config": {"output": output}}
    described.flavors["python_function"] |= loading
    described.save(Path(path) / "MLmodel")


def register(
    estimator: SeriesReader,
    name: str,
    store: RunStore,
    *,
    output: str = "table",
) -> str:
    """Log a fitted estimator as a model of MLflow, and register it.

    The model answers tables with tables (`tsformer.tracking.served.ServedModel`), over HTTP and
    from `mlflow.pyfunc.load_model`. With ``output="predict"`` it answers with labels alone, and
    `load_registered` returns the estimator, which takes arrays.

    Parameters
    ----------
    estimator : fitted estimator
        Any of tsformer's. Saved as `tsformer.save` does, so its `callbacks` and `device` are left
        out.
    name : str
        Name in the registry; an existing name gets a new version.
    store : RunStore
        The store; the model gets a run of its own.
    output : {"table", "predict", "predict_proba"}
        What the served model answers with: a table of the predictions, for a classifier with the
        probability of each class by its name; or labels, or probabilities, alone.

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
    exceptions = require("mlflow.exceptions", extra="tracking", purpose="registering a model")
    client = store.client()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write_model(estimator, path, output=output)
        with store.start(f"model {name}", kind="model") as run:
            kind = type(estimator).__name__
            encoding = getattr(estimator, "encoding", None)
            run.params({"estimator": kind, "model": name, "output": output})
            run.params({} if encoding is None else {"encoding": encoding})
            client.log_artifacts(run.run_id, str(path), "model")
    try:
        client.create_registered_model(name)
    except exceptions.MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise ValueError(f"cannot register a model as {name!r}: {error}") from error
    version = client.create_model_version(
        name,
        source=f"runs:/{run.run_id}/model",
        run_id=run.run_id,
        description=describe_input(estimator),
    )
    return f"models:/{name}/{version.version}"


def load_registered(
    model: str | os.PathLike[str],
    store: RunStore | None = None,
    *,
    device: str | torch.device = "auto",
) -> SeriesReader:
    """Load an estimator that `register` stored, without running anything that is stored with it.

    MLflow's own loaders read the format and the types to trust from the model's ``MLmodel``, so
    that a model from a stranger may ask for pickle and run any code. This one reads what `register`
    writes and nothing else.

    Parameters
    ----------
    model : str or path
        An address such as ``"models:/NAME/1"``, or a folder with an ``MLmodel``.
    store : RunStore, optional
        The store that an address is of.
    device : str or torch.device, default="auto"
        The device of the model.

    Returns
    -------
    fitted estimator

    Raises
    ------
    ValueError
        If the model is not one that `register` stored, or an address comes without a store.
    FileNotFoundError
        If there is no model.
    ImportError
        If mlflow is missing.
    """
    skops = require("skops.io", extra="tracking", purpose="loading a registered model")
    text = os.fspath(model)
    if not text.startswith("models:/"):
        return _loaded(Path(text), skops, device)
    if store is None:
        raise ValueError(f"{text} is an address in a store; pass store=")
    name, _, version = text.removeprefix("models:/").rpartition("/")
    client = store.client()
    run_id = client.get_model_version(name, version).run_id
    with tempfile.TemporaryDirectory() as folder:
        return _loaded(Path(client.download_artifacts(run_id, "model", folder)), skops, device)


def _load_pyfunc(
    path: str | os.PathLike[str], model_config: Mapping[str, Any] | None = None
) -> ServedModel:
    """Load what `write_model` wrote, and nothing else; `mlflow.pyfunc.load_model` calls it."""
    skops = require("skops.io", extra="tracking", purpose="loading a registered model")
    return ServedModel(_loaded(Path(path), skops, "auto"), **(model_config or {}))


def _loaded(folder: Path, skops: ModuleType, device: str | torch.device) -> SeriesReader:
    """Load the estimator in a folder that MLflow wrote."""
    flavor = _sklearn_flavor(folder / "MLmodel")
    if flavor.get("serialization_format") != "skops":
        raise ValueError(
            f"{folder / 'MLmodel'} says that the model is stored as "
            f"{flavor.get('serialization_format')!r}, which may run any code when it is loaded; "
            "tsformer stores models as 'skops'"
        )
    path = folder / Path(str(flavor.get("pickled_model"))).name  # never outside the folder
    if not path.is_file():
        raise FileNotFoundError(f"there is no registered model at {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(each.file_size for each in archive.infolist())
        if unpacked > path.stat().st_size:
            raise ValueError(f"it would unpack to {unpacked:,} bytes, and `register` packs nothing")
        wrapped = skops.load(path, trusted=[_TRUSTED])
        if not isinstance(wrapped, RegisteredEstimator):
            raise ValueError(f"it holds a {type(wrapped).__name__}")
        return wrapped.loaded(device)
    except Exception as error:  # of any kind: what a stranger has written may fail in any way
        raise ValueError(f"{path} is not a model that `register` stored: {error}") from error


def _sklearn_flavor(path: Path) -> Mapping[str, Any]:
    yaml = require("yaml", extra="tracking", purpose="loading a registered model")
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no registered model at {path.parent}: {path.name} is missing"
        )
    try:
        flavor = yaml.safe_load(path.read_text(encoding="utf-8"))["flavors"]["sklearn"]
    except (yaml.YAMLError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} does not describe a model of MLflow's sklearn flavor") from error
    if not isinstance(flavor, Mapping):
        raise ValueError(f"{path} does not describe a model of MLflow's sklearn flavor")
    return flavor


def _requirements() -> list[str]:
    """Return the requirements of a server, without the local part of versions such as "+cpu"."""
    here = [f"{name}=={metadata.version(name).partition('+')[0]}" for name in _PACKAGES]
    return [f"tsformer=={tsformer.__version__}", *here]
