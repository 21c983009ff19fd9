"""A fitted estimator in MLflow's model registry, to be served or loaded by name.

MLflow stores the two files of `tsformer.persistence` in one object, so that loading it requires
trusting that object's type only: it has no pickle and no torch module in it.
"""

from __future__ import annotations

import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tsformer
from tsformer._optional import require
from tsformer.estimators.loading import load
from tsformer.tracking.store import RunStore

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

    from tsformer.estimators.base import TransformerEstimator

__all__ = ["RegisteredEstimator", "register"]

_OUTPUTS = ("predict", "predict_proba")
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
    def of(cls, estimator: TransformerEstimator) -> RegisteredEstimator:
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
    def estimator_(self) -> TransformerEstimator:
        if "_estimator" not in self.__dict__:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in self.files.items():
                    # An untrusted file name must not escape the folder.
                    (Path(folder) / Path(name).name).write_bytes(content.tobytes())
                self.__dict__["_estimator"] = load(folder)
        estimator: TransformerEstimator = self.__dict__["_estimator"]
        return estimator

    def predict(self, X: Any) -> np.ndarray:
        """Predict as the estimator does: X [B series, C, L]."""
        return np.asarray(self.estimator_.predict(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities [B, K] of a classifier."""
        estimator: Any = self.estimator_
        return np.asarray(estimator.predict_proba(X))


def register(
    estimator: TransformerEstimator,
    name: str,
    store: RunStore,
    *,
    output: str = "predict",
) -> str:
    """Log a fitted estimator as a model of MLflow's sklearn flavour, and register it.

    Parameters
    ----------
    estimator : fitted estimator
        Saved as `tsformer.save` does, so its `callbacks` and `device` are left out.
    name : str
        Name in the registry; an existing name gets a new version.
    store : RunStore
        The store; the model gets a run of its own.
    output : {"predict", "predict_proba"}
        What the served model returns: labels, or a probability per class.

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
    if output not in _OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(map(repr, _OUTPUTS))}; got {output!r}")
    if not hasattr(estimator, output):
        raise ValueError(f"a {type(estimator).__name__} has no {output}; choose output='predict'")
    sklearn = require("mlflow.sklearn", extra="tracking", purpose="registering a model")
    require("skops.io", extra="tracking", purpose="registering a model")
    exceptions = require("mlflow.exceptions", extra="tracking", purpose="registering a model")
    wrapped = RegisteredEstimator.of(estimator)
    client = store.client()
    run = store.start(f"model {name}", kind="model")
    with run, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        sklearn.save_model(
            wrapped,
            path,
            signature=_signature(estimator.n_channels_),
            pip_requirements=_requirements(),
            serialization_format="skops",
            skops_trusted_types=[f"{RegisteredEstimator.__module__}.RegisteredEstimator"],
            pyfunc_predict_fn=output,
        )
        run.params({"encoding": estimator.encoding, "model": name, "output": output})
        client.log_artifacts(run.run_id, str(path), "model")
    try:
        client.create_registered_model(name)
    except exceptions.MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise ValueError(f"cannot register a model as {name!r}: {error}") from error
    version = client.create_model_version(
        name, source=f"runs:/{run.run_id}/model", run_id=run.run_id
    )
    return f"models:/{name}/{version.version}"


def _signature(n_channels: int) -> ModelSignature:
    types = require("mlflow.types", extra="tracking", purpose="registering a model")
    models = require("mlflow.models", extra="tracking", purpose="registering a model")
    series = types.TensorSpec(np.dtype("float64"), (-1, n_channels, -1), name=None)
    signature: ModelSignature = models.ModelSignature(inputs=types.Schema([series]))
    return signature


def _requirements() -> list[str]:
    """Return the requirements of a server, without the local part of versions such as "+cpu"."""
    here = [f"{name}=={metadata.version(name).partition('+')[0]}" for name in _PACKAGES]
    return [f"tsformer=={tsformer.__version__}", *here]
