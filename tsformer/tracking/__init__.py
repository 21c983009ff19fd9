"""Tracking in MLflow: a callback for one fit, and a store of runs for many."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# MLflow reports how it is used to its makers, unless this is set before it is imported. Processes
# that are started from here inherit it.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from tsformer.tracking.store import RunStore, TrackedRun, prepare_store, resolve_uri

if TYPE_CHECKING:
    from tsformer.tracking.model import register_model, write_model
    from tsformer.tracking.tracker import MLflowTracker

__all__ = [
    "MLflowTracker",
    "RunStore",
    "TrackedRun",
    "prepare_store",
    "register_model",
    "resolve_uri",
    "write_model",
]
#: Names by module: these import torch, for which `tsformer ui` need not wait.
_LATE = {"MLflowTracker": "tracker", "register_model": "model", "write_model": "model"}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"tsformer.tracking.{_LATE[name]}"), name)
    raise AttributeError(f"module 'tsformer.tracking' has no attribute {name!r}")
