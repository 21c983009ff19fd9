"""Tracking in MLflow: a callback for one fit, and a store of runs for many."""

import os
from typing import TYPE_CHECKING, Any

# MLflow reports how it is used to its makers, unless this is set before it is imported. Processes
# that are started from here inherit it.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from tsformer.tracking.run import TrackedRun
from tsformer.tracking.store import RunStore, prepare_store, resolve_uri

if TYPE_CHECKING:
    from tsformer.tracking.tracker import MLflowTracker

__all__ = ["MLflowTracker", "RunStore", "TrackedRun", "prepare_store", "resolve_uri"]


def __getattr__(name: str) -> Any:
    if name == "MLflowTracker":  # imports torch, for which `tsformer ui` need not wait
        from tsformer.tracking.tracker import MLflowTracker

        return MLflowTracker
    raise AttributeError(f"module 'tsformer.tracking' has no attribute {name!r}")
