"""The run of one model: its fit, and the scores on test data that are added to it later."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tsformer.plots.explanations import plot_relevance_of
from tsformer.tracking.autologging import log_data, log_scores, use
from tsformer.tracking.context import Enclosing, start_run, within
from tsformer.tracking.settings import (
    Settings,
    current_settings,
    warn,
    warn_untracked,
    without_credentials,
)
from tsformer.tracking.store import RunStore, resolve_uri
from tsformer.tracking.tracked_run import TrackedRun
from tsformer.tracking.tracker import name_of, parameters_of


@contextmanager
def tracked_fit(
    estimator: Any,
    *,
    dataset: str,
    loader: str = "",
    tracking_uri: str | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
) -> Iterator[TrackedRun]:
    """Track the fit in the block, as `tsformer.autolog` does."""
    name = run_name or f"{name_of(estimator)} on {dataset}"
    run = start_run(name, kind="fit", tracking_uri=tracking_uri, experiment=experiment)
    if run.store is None or run.lost:  # already reported
        yield run
        return
    before = current_settings()
    use(Settings(pictures=True, dataset=dataset, loader=loader))  # one fit, to be looked at
    try:
        with run, within(Enclosing(run, free=True)):
            run.params({**parameters_of(estimator), "dataset": dataset})
            yield run
            kept = {"run_id": run.run_id, "store": without_credentials(run.store.uri)}
            estimator.tracked_run_ = kept
    finally:
        use(before)


def track_evaluation(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    dataset: str,
    loader: str = "",
    tracking_uri: str | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    explanations: int = 0,
) -> TrackedRun:
    """Add test scores, and the data by name and digest, to the run of the model's fit.

    The run must be in the store in use: a stranger's model must not choose a server or a file.
    Else, and with an experiment or a name, a new run is made.
    """
    own = None if experiment or run_name else _own_run(estimator, tracking_uri)
    if own is None:
        own = start_run(
            run_name or f"{name_of(estimator)} on {dataset}",
            kind="evaluation",
            tracking_uri=tracking_uri,
            experiment=experiment,
        )
        own.params({**parameters_of(estimator), "dataset": dataset})
    if own.lost:
        return own
    with own as run:
        log_scores(run, "test", estimator, X, y, None, pictures=True)
        run.attempt(
            "the explanations", lambda: _log_explanations(run, estimator, X, y, explanations)
        )
        log_data(run, "test", estimator, X, y, None, name=dataset, loader=loader)
    return own


def _log_explanations(run: TrackedRun, estimator: Any, X: Any, y: Any, n_per_class: int) -> None:
    """Draw the first series of each class as ``explanations/LABEL/NUMBER.png``."""
    if n_per_class < 1 or not hasattr(estimator, "explain"):
        return
    series, labels = estimator.read_series(X), np.asarray(y)
    for label in np.unique(labels):
        for row in np.flatnonzero(labels == label)[:n_per_class].tolist():
            alone = series.part(np.arange(len(series)) == row)
            x = X[row] if isinstance(X, (list, tuple)) else None

            def draw(alone: Any = alone, x: Any = x, row: int = row, label: Any = label) -> Any:
                title = f"series {row}, labelled {label}: why {estimator.predict(alone)[0]}"
                return plot_relevance_of(alone, estimator.explain(alone)[0], title, x)

            folder = re.sub(r"[^\w.-]", "_", str(label))
            run.figure(draw, f"explanations/{folder}/{row}.png")


def _own_run(estimator: Any, tracking_uri: str | None) -> TrackedRun | None:
    """Return the run of the model's fit, if the store in use has it."""
    kept = getattr(estimator, "tracked_run_", None)
    if kept is None:
        return None
    uri, recorded = resolve_uri(tracking_uri), kept["store"]
    if without_credentials(uri) != recorded:
        warn(
            f"the model was tracked in {recorded}, which is not the store in use; --tracking-uri "
            f"{recorded} adds the scores to its own run"
        )
        return None
    try:
        client = RunStore(uri, "").client()
        found = client.get_run(kept["run_id"])
    except Exception as error:  # tracking never fails a fit
        if getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST":
            return None
        warn_untracked("this evaluation", error)
        return TrackedRun(None, "")
    store = RunStore(uri, found.info.experiment_id)
    run = TrackedRun(client, kept["run_id"], store=store, borrowed=True)
    models = found.outputs.model_outputs if found.outputs else []
    run.model_id = models[-1].model_id if models else None
    return run
