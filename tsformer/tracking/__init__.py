"""Tracking in MLflow: a callback for one fit, and a store of runs for many."""

import os

# MLflow reports how it is used to its makers, unless this is set before it is imported. Processes
# that are started from here inherit it.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from tsformer.tracking.model import register_model, write_model
from tsformer.tracking.store import RunStore, prepare_store, resolve_uri
from tsformer.tracking.tracked_run import TrackedRun
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
