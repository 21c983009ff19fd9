"""autolog: every fit of this package as a run of MLflow; evaluations are added to it.

Estimators call their observers, where MLflow's flavours replace methods: an observer follows the
epochs, and tells an interrupted fit from a failed one.
"""

import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from tsformer._optional import require
from tsformer.data.containers import to_source
from tsformer.estimators.saving import fitted_parts
from tsformer.estimators.series_estimator import Fit, add_observer, remove_observer
from tsformer.plots import encoding_color, plot_confusion, plot_history, plot_reliability
from tsformer.plots.explanations import plot_relevance_of
from tsformer.tracking import context, search
from tsformer.tracking.context import Enclosing, activated, start_run, within
from tsformer.tracking.model import card_at, write_model
from tsformer.tracking.options import (
    TrackingSettings,
    speaking,
    warn_untracked,
    without_credentials,
)
from tsformer.tracking.scoring import in_text, scored
from tsformer.tracking.store import CONTEXTS, RunStore, TrackedRun, resolve_uri
from tsformer.tracking.tracker import (
    MLflowTracker,
    check_pictures,
    encoding_of,
    epoch_metrics,
    n_parameters,
    name_of,
    parameters_of,
    worth_drawing,
)
from tsformer.training.distributed import Ranks


def autolog(
    *,
    log_models: bool = True,
    log_input_examples: bool = True,
    log_datasets: bool = True,
    disable: bool = False,
    exclusive: bool = False,
    silent: bool = False,
    pictures: bool | Literal["auto"] = "auto",
    extra_tags: Mapping[str, str] | None = None,
) -> None:
    """Track every fit of this package in MLflow from now on.

    `docs/tracking.md` lists what a run holds and where it goes. Tracking never fails a fit: if the
    store fails, one warning is issued, and the run is not FINISHED.

    Parameters
    ----------
    log_models : bool, default=True
        Whether to store the model.
    log_input_examples : bool, default=True
        Whether to store two of the training series with it.
    log_datasets : bool, default=True
        Whether to log training and validation data by name, shape and digest; not their values.
    disable : bool, default=False
        True ends tracking.
    exclusive : bool, default=False
        Whether to track nothing while a run is active that the user has started.
    silent : bool, default=False
        Whether to issue no warnings of tracking, and hide MLflow's messages while tracking.
    pictures : bool or "auto", default="auto"
        Whether to draw pictures, in up to three seconds; "auto" after fits of 60 seconds or more.
    extra_tags : mapping of str to str, optional
        Tags for each run.

    Raises
    ------
    ImportError, ValueError
        If mlflow is missing, or `pictures` is anything else.

    Examples
    --------
    >>> import tsformer
    >>> tsformer.autolog(disable=True)
    """
    check_pictures(pictures)
    if not disable:
        require("mlflow", extra="tracking", purpose="autolog")
    logged, tags = (log_models, log_input_examples, log_datasets), dict(extra_tags or {})
    use(None if disable else TrackingSettings(*logged, exclusive, silent, pictures, tags))


def use(settings: TrackingSettings | None) -> TrackingSettings | None:
    """Track with these settings, or not if None; return the settings before."""
    if settings is None:
        remove_observer(_observe)
    else:
        add_observer(_observe)
        search.install()
    return context.set_settings(settings)


@contextmanager
def _observe(fit: Fit) -> Iterator[None]:
    """Track one fit."""
    settings, params = context.to_track(), fit.estimator.get_params(deep=False)
    callbacks = params.get("callbacks")
    callbacks = callbacks if isinstance(callbacks, Sequence) else ()
    tracked = any(isinstance(callback, MLflowTracker) for callback in callbacks)  # as in a study
    if settings is None or tracked or not Ranks.current().leads:
        yield
        return
    with speaking(settings), ExitStack() as stack:
        run = tracker = None
        try:
            tags = {"tsformer.estimator": type(fit.estimator).__name__, **settings.extra_tags}
            if encoding := encoding_of(fit.estimator):
                tags["mlflow.runColor"] = encoding_color(encoding)
            run = start_run(name_of(fit.estimator), kind="fit", tags=tags)
            stack.enter_context(activated(run))
            stack.enter_context(run)
            run.attempt("the parameters", lambda: run.params(parameters_of(fit.estimator)))
            # Members may train in other processes.
            alone = params.get("n_estimators") == 1 or params.get("quality") == "fast"
            if alone or params.get("n_jobs") in (1, None):
                tracker = MLflowTracker(run, pictures=settings.pictures)
                fit.callbacks.append(tracker)
        except Exception as error:  # tracking never fails a fit
            warn_untracked("this fit", error)
        begun = perf_counter()
        yield
        if run is not None:
            summary = {} if tracker is None else tracker.summary_
            _log_fit(run, fit, settings, summary, perf_counter() - begun)


def _log_fit(
    run: TrackedRun,
    fit: Fit,
    settings: TrackingSettings,
    summary: Mapping[str, float],
    seconds: float,
) -> None:
    """Log the fitted estimator."""
    estimator, passed = fit.estimator, fit.data
    pictures = worth_drawing(settings.pictures, seconds)
    course = partial(_log_course, run, estimator, summary, seconds, pictures)
    run.attempt("the course of the fit", course)
    if settings.log_models:  # first: MLflow links later scores to it
        run.attempt("the model", partial(_log_model, run, fit, settings))
    loader = _loader(settings.dataset) if settings.dataset else "an argument of `fit`"
    for split, X, y, times in (
        ("train", fit.X, fit.y, passed.get("times")),
        ("val", passed.get("X_val"), passed.get("y_val"), passed.get("times_val")),
    ):
        named = {"name": settings.dataset or CONTEXTS[split], "loader": loader}
        data = named if settings.log_datasets else {}
        if X is not None:
            log_split(run, split, estimator, X, y, times, pictures, **data)
    if fit.interrupted:
        run.end("KILLED")


def _loader(dataset: str) -> str:
    """Name a file; "" for a data set of the archive."""
    return f"the file {dataset}" if Path(dataset).exists() else ""


def _log_course(
    run: TrackedRun, estimator: Any, summary: Mapping[str, float], seconds: float, pictures: bool
) -> None:
    """Log costs; without a tracker, also the curves of members trained elsewhere."""
    values = {f"fit_seconds/{k}": v for k, v in getattr(estimator, "seconds_", {}).items()}
    if values or not summary:
        values["fit_seconds"] = seconds
    n_epochs = int(summary.get("n_epochs", 0))
    if not summary:
        fitted = [estimator] if hasattr(estimator, "models_") else fitted_parts(estimator).values()
        models = [model for member in fitted for model in member.models_]
        encodings = [model.encoding for model in models if hasattr(model, "encoding")]
        transformer = getattr(estimator, "transformer_", estimator)
        for history in getattr(transformer, "histories_", ()):
            for row in history:
                run.metrics(epoch_metrics(row), step=n_epochs + int(row["epoch"]))
            n_epochs += len(history)
        if n_epochs and pictures:
            run.figure(lambda: plot_history(transformer.history_), "training.png")
        values |= {"n_epochs": n_epochs, "n_parameters": sum(map(n_parameters, models))}
        values["n_parameters_encoding"] = sum(map(n_parameters, encodings))
    run.metrics(values, step=n_epochs)


def _log_model(run: TrackedRun, fit: Fit, settings: TrackingSettings) -> None:
    estimator: Any = fit.estimator
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "encoder"
        if not hasattr(estimator, "predict"):  # MLflow's models answer by `predict`
            estimator.save(folder)
            run.folder(folder, "encoder")
            run.describe(card_at(estimator, f"runs:/{run.run_id}/encoder"))
            return
        # Importing mlflow.pyfunc warns of a type hint of its own.
        warnings.filterwarnings("ignore", ".*Any type hint", UserWarning)
        example = None
        if settings.log_input_examples:
            series = to_source(fit.X, fit.data.get("times"), index=estimator.timestamps == "index")
            example = series.read(np.arange(min(2, len(series)))).values.swapaxes(1, 2)
        write_model(estimator, folder, input_example=example)
        params = parameters_of(estimator) | {"dataset": settings.dataset}
        run.model(folder, type(estimator).__name__, params)
        run.describe(card_at(estimator, f"runs:/{run.run_id}/model/estimator"))


def log_split(
    run: TrackedRun, split: str, estimator: Any, X: Any, y: Any, times: Any, plot: bool, **data: str
) -> None:
    """Log the scores on "train", "val" or "test" data, pictures, and `data` by name and digest."""

    def log_scores() -> None:
        scores, predicted, probabilities = scored(estimator, X, y, times)
        run.metrics({f"{split}/{name}": value for name, value in scores.items()})
        if plot and probabilities is not None and predicted.ndim == 1:
            true, classes = np.asarray(y), estimator.classes_
            draw = partial(plot_confusion, true, predicted, in_text(classes, true))
            run.figure(draw, f"confusion_{split}.png")
            if "log_loss" in scores:  # no label is unknown to the model
                draw = partial(plot_reliability, true, probabilities, classes)
                run.figure(draw, f"reliability_{split}.png")

    if data:
        index = estimator.timestamps == "index"
        run.dataset(X, y, context=CONTEXTS[split], times=times, index=index, **data)
    if y is not None:  # an encoder has no targets
        run.attempt(f"the {split} scores", log_scores)


@contextmanager
def tracked_fit(
    estimator: Any, *, dataset: str, run_name: str | None = None, **where: Any
) -> Iterator[TrackedRun]:
    """Track the fit in the block, as `tsformer.autolog` does; `where` is as in `start_run`."""
    run = start_run(run_name or f"{name_of(estimator)} on {dataset}", kind="fit", **where)
    if run.store is None or run.lost:  # already reported
        yield run
        return
    before = use(TrackingSettings(pictures=True, dataset=dataset))  # to be looked at
    try:
        with run, within(Enclosing(run, free=True)):
            run.params({**parameters_of(estimator), "dataset": dataset})
            yield run
            kept = {"run_id": run.run_id, "store": without_credentials(run.store.uri)}
            estimator.tracked_run_ = kept
    finally:
        use(before)


def track_evaluation(
    estimator: Any, X: Any, y: Any, *, dataset: str, explanations: int = 0, **where: Any
) -> TrackedRun:
    """Add test scores, data and explanations to the run of the model's fit, or to a new run.

    The run must be in the store in use: a stranger's model must not choose a server or a file.
    """
    run_name, run = where.pop("run_name", None), None
    kept = getattr(estimator, "tracked_run_", None)
    if kept is not None and not run_name and not where.get("experiment"):
        run = _run_of(kept, resolve_uri(where.get("tracking_uri")))
    if run is None:
        name = run_name or f"{name_of(estimator)} on {dataset}"
        run = start_run(name, kind="evaluation", **where)
        run.params({**parameters_of(estimator), "dataset": dataset})
    if run.lost:
        return run
    with run:
        log_split(run, "test", estimator, X, y, None, True, name=dataset, loader=_loader(dataset))
        explain = partial(_log_explanations, run, estimator, X, y, explanations)
        run.attempt("the explanations", explain)
    return run


def _log_explanations(run: TrackedRun, estimator: Any, X: Any, y: Any, n_per_class: int) -> None:
    """Draw the first series of each class as ``explanations/LABEL/NUMBER.png``."""
    if n_per_class < 1 or not hasattr(estimator, "explain"):
        return
    series, labels = estimator.read_series(X), np.asarray(y)
    for label in np.unique(labels):
        folder = re.sub(r"[^\w.-]", "_", str(label))
        for row in np.flatnonzero(labels == label)[:n_per_class].tolist():
            alone = series.part(np.arange(len(series)) == row)
            x = X[row] if isinstance(X, (list, tuple)) else None
            title = f"series {row}, labelled {label}: why {estimator.predict(alone)[0]}"
            draw = partial(plot_relevance_of, alone, estimator.explain(alone)[0], title, x)
            run.figure(draw, f"explanations/{folder}/{row}.png")


def _run_of(kept: Mapping[str, str], uri: str) -> TrackedRun | None:
    """Return the run of a model's fit, if the store at `uri` has it."""
    if without_credentials(uri) != kept["store"]:
        return None
    try:
        stored = RunStore(uri, "").client().get_run(kept["run_id"])
    except Exception as error:  # tracking never fails a fit
        if getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST":
            return None
        warn_untracked("this evaluation", error)
        return TrackedRun(None, "")
    store = RunStore(uri, stored.info.experiment_id)
    run = TrackedRun(store.client(), kept["run_id"], store=store, borrowed=True)
    models = stored.outputs.model_outputs if stored.outputs else []
    run.model_id = models[-1].model_id if models else None
    return run
