"""autolog: every fit of this package as a run of MLflow.

Estimators call their observers, where MLflow's flavours replace methods: an observer follows the
epochs, and tells an interrupted fit from a failed one.
"""

import importlib.util
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tsformer._optional import require
from tsformer.data.containers import to_source
from tsformer.estimators.ensemble import QUALITIES
from tsformer.estimators.saving import fitted_parts
from tsformer.estimators.series import Fit, add_observer, remove_observer
from tsformer.plots import encoding_color, plot_confusion, plot_history, plot_reliability
from tsformer.tracking import search
from tsformer.tracking.context import activated, hides_fits, start_run, user_run_is_active
from tsformer.tracking.model import card_of_run, write_model
from tsformer.tracking.scores import array_of, in_text, scored
from tsformer.tracking.settings import (
    Settings,
    current_settings,
    reason,
    set_settings,
    speaking,
    warn,
)
from tsformer.tracking.tracked_run import CONTEXTS, TrackedRun
from tsformer.tracking.tracker import (
    MLflowTracker,
    check_pictures,
    encoding_of,
    epoch_metrics,
    long_enough,
    n_parameters,
    name_of,
    parameters_of,
)
from tsformer.training.distributed import Ranks

_N_EXAMPLES = 2
#: Values of the data that are digested: 256 MiB of float64. Larger data: the first series.
_MOST_VALUES = 2**25


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

    Each fit gives a run: the parameters, loss and validation score by epoch, scores on the training
    data, and with `X_val` on the validation data, the confusion matrix, the encoding before and
    after training, seconds, peak memory and number of parameters, the data by name, shape and
    digest, and the model, which `mlflow.pyfunc.load_model` loads; an encoder, which predicts
    nothing, is stored as the folder that `tsformer.load` reads. `tsformer.tracking.context`
    documents the experiment and the store of a run.

    A run ends FINISHED, KILLED if Ctrl-C ended training, or FAILED with the error in the tag
    ``tsformer.error``. A character that MLflow refuses in a name is stored as ``_``. The tag
    ``tsformer.missing`` lists entries that could not be stored. If the store fails, one warning is
    issued, the fit continues, and the run is not FINISHED.

    Call it again to change the options.

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
        Whether to draw the pictures, which takes up to three seconds. "auto" draws them of fits
        that took at least 60 seconds.
    extra_tags : mapping of str to str, optional
        Tags for each run.

    Raises
    ------
    ImportError
        If mlflow is missing.
    ValueError
        If `pictures` is anything else.

    Examples
    --------
    >>> import tsformer
    >>> tsformer.autolog(disable=True)
    """
    check_pictures(pictures)
    if not disable:
        require("mlflow", extra="tracking", purpose="autolog")
    logged, tags = (log_models, log_input_examples, log_datasets), dict(extra_tags or {})
    use(None if disable else Settings(*logged, exclusive, silent, pictures, tags))


def use(settings: Settings | None) -> None:
    """Track with these settings; None ends tracking."""
    set_settings(settings)
    if settings is None:
        remove_observer(_observe)
    else:
        add_observer(_observe)
        search.install()


@contextmanager
def _observe(fit: Fit) -> Iterator[None]:
    """Track one fit."""
    settings = current_settings()
    own = fit.estimator.get_params(deep=False)
    callbacks = own.get("callbacks")
    callbacks = callbacks if isinstance(callbacks, Sequence) else ()
    tracked = any(isinstance(callback, MLflowTracker) for callback in callbacks)  # as in a study
    if settings is None or tracked or hides_fits() or not Ranks.current().leads:
        yield
        return
    with speaking(settings), ExitStack() as stack:
        run = tracker = None
        try:
            if not (settings.exclusive and user_run_is_active()):
                tags = {"tsformer.estimator": type(fit.estimator).__name__, **settings.extra_tags}
                if encoding := encoding_of(fit.estimator):
                    tags["mlflow.runColor"] = encoding_color(encoding)
                run = start_run(name_of(fit.estimator), kind="fit", tags=tags)
                stack.enter_context(activated(run))
                stack.enter_context(run)
                run.attempt("the parameters", lambda: run.params(parameters_of(fit.estimator)))
                # Epochs are heard of if members train one after another in this process.
                members = own.get("n_estimators")
                if "quality" in own:
                    members = QUALITIES.get(own["quality"])
                if members == 1 or (members is not None and own["n_jobs"] in (1, None)):
                    tracker = MLflowTracker(run, pictures=settings.pictures)
                    fit.callbacks.append(tracker)
        except Exception as error:  # tracking never fails a fit
            warn(f"this fit is not tracked {reason(error)}")
        begun = perf_counter()
        yield
        if run is not None:
            summary = {} if tracker is None else tracker.summary_
            _log_fit(run, fit, settings, summary, perf_counter() - begun)


def _log_fit(
    run: TrackedRun, fit: Fit, settings: Settings, summary: Mapping[str, float], seconds: float
) -> None:
    """Log the fitted estimator."""
    estimator, data = fit.estimator, fit.data
    pictures = long_enough(seconds) if settings.pictures == "auto" else settings.pictures

    run.attempt(
        "the course of the fit", lambda: _log_course(run, estimator, summary, seconds, pictures)
    )
    for part, X, y, times in (
        ("train", fit.X, fit.y, data.get("times")),
        ("val", data.get("X_val"), data.get("y_val"), data.get("times_val")),
    ):
        if X is None:
            continue
        if y is not None:  # an encoder has no targets
            log_scores(run, part, estimator, X, y, times, pictures=pictures)
        if settings.log_datasets:
            context = CONTEXTS[part]
            fitted_in = sys.argv[0] or "an interactive session"
            loader = f"passed to {type(estimator).__name__}.fit in {fitted_in}"
            named = (settings.dataset, settings.loader) if settings.dataset else (context, loader)
            log_data(run, context, estimator, X, y, times, name=named[0], loader=named[1])
    if settings.log_models:
        run.attempt("the model", lambda: _log_model(run, fit, settings))
    if fit.interrupted:
        run.end("KILLED")


def _log_course(
    run: TrackedRun, estimator: Any, summary: Mapping[str, float], seconds: float, pictures: bool
) -> None:
    """Log costs; without a tracker, also the curves of members trained elsewhere."""
    values = {f"fit_seconds/{k}": v for k, v in getattr(estimator, "seconds_", {}).items()}
    if values or not summary:
        values["fit_seconds"] = seconds
    n_epochs = int(summary.get("n_epochs", 0))
    if not summary:
        parts = [estimator] if hasattr(estimator, "models_") else fitted_parts(estimator).values()
        models = [model for part in parts for model in part.models_]
        encodings = [model.encoding for model in models if hasattr(model, "encoding")]
        transformer = getattr(estimator, "transformer_", estimator)
        for history in getattr(transformer, "histories_", ()):
            for row in history:
                run.metrics(epoch_metrics(row), step=n_epochs + int(row["epoch"]))
            n_epochs += len(history)
        if n_epochs and pictures and importlib.util.find_spec("matplotlib"):
            run.figure(lambda: plot_history(transformer.history_), "training.png")
        values |= {"n_epochs": n_epochs, "n_parameters": sum(map(n_parameters, models))}
        values["n_parameters_encoding"] = sum(map(n_parameters, encodings))
    run.metrics(values, step=n_epochs)


def _log_model(run: TrackedRun, fit: Fit, settings: Settings) -> None:
    estimator: Any = fit.estimator
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        if not hasattr(estimator, "predict"):  # MLflow's models answer by `predict`
            estimator.save(Path(folder) / "encoder")
            run.folder(Path(folder) / "encoder", "encoder")
            run.describe(card_of_run(estimator, run.run_id, "encoder"))
            return
        # Importing mlflow.pyfunc warns of a type hint of its own.
        warnings.filterwarnings("ignore", ".*Any type hint", UserWarning)
        example = None
        if settings.log_input_examples:
            example = _padded_array(estimator, fit.X, fit.data.get("times"), most=_N_EXAMPLES)
        write_model(estimator, Path(folder) / "model", input_example=example)
        params = parameters_of(estimator) | {"dataset": settings.dataset}
        run.model(Path(folder) / "model", type(estimator).__name__, params)
        run.describe(card_of_run(estimator, run.run_id))


def log_scores(
    run: TrackedRun, part: str, estimator: Any, X: Any, y: Any, times: Any, *, pictures: bool
) -> None:
    """Log the scores on "train", "val" or "test" data, and their pictures."""

    def log() -> None:
        scores, predicted, probabilities = scored(estimator, X, y, times)
        run.metrics({f"{part}/{name}": value for name, value in scores.items()})
        one_label = probabilities is not None and predicted.ndim == 1
        if pictures and one_label and importlib.util.find_spec("matplotlib"):
            true, classes = np.asarray(y), estimator.classes_
            named = in_text(classes, true)
            run.figure(lambda: plot_confusion(true, predicted, named), f"confusion_{part}.png")
            if "log_loss" in scores:  # no label is unknown to the model
                run.figure(
                    lambda: plot_reliability(true, probabilities, classes),
                    f"reliability_{part}.png",
                )

    run.attempt(f"the {part} scores", log)


def log_data(
    run: TrackedRun,
    context: str,
    estimator: Any,
    X: Any,
    y: Any,
    times: Any,
    *,
    name: str,
    loader: str,
) -> None:
    """Log data by name and digest."""

    def log() -> None:
        series = _padded_array(estimator, X, times)
        targets = None if y is None else array_of(y)[: len(series)]
        run.dataset(series, targets, name=name, context=context, loader=loader)

    run.attempt(f"the {context} data", log)


def _padded_array(
    estimator: Any, X: Any, times: Any, *, most: int | None = None
) -> npt.NDArray[Any]:
    """Return the first series as an array [n, C, L], padded with NaN."""
    series = to_source(X, times, index=estimator.timestamps == "index")
    if most is None:
        most = max(_MOST_VALUES // (series.n_steps * series.n_channels), 1)
    values = series.read(np.arange(min(len(series), most))).values
    return values.swapaxes(1, 2)
