"""Tracking in MLflow: a callback for one fit, and a store of runs for many."""

from tsformer.tracking.run import TrackedRun
from tsformer.tracking.store import RunStore, prepare_store, resolve_uri
from tsformer.tracking.tracker import MLflowTracker

__all__ = ["MLflowTracker", "RunStore", "TrackedRun", "prepare_store", "resolve_uri"]
