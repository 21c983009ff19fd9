"""MLflowTracker: the callback that tracks one fit in MLflow."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Literal

from torch import nn

from tsformer.plots import encoding_color, plot_encoding_change, plot_history
from tsformer.tracking.context import start_run
from tsformer.tracking.memory import peak_memory_mb, reset_peak_memory
from tsformer.tracking.run import TrackedRun
from tsformer.training.callbacks import Callback, TrainingState

__all__ = ["MLflowTracker", "encoding_name", "epoch_metrics", "long_enough"]

# A map of thousands of positions shows no more than one of this size.
_MOST_POSITIONS = 256

# Figures take up to three seconds: of a fit of this length, less than 5 %.
_LONG_ENOUGH_SECONDS = 60.0

# Attributes that a fitted or running tracker has and a fresh one does not.
_RUNTIME = ("run_", "summary_", "_begun", "_before", "_earlier")


class MLflowTracker(Callback):
    """Track a fit in MLflow: parameters, metrics per epoch, and figures of the encoding.

    Each epoch gives ``train/loss`` and ``lr``, and with validation data ``val/loss`` and
    ``val/score``, at step = epoch. The end of training gives ``fit_seconds``,
    ``seconds_per_epoch``, ``n_epochs``, ``n_parameters``, ``n_parameters_encoding`` and
    ``peak_memory_mb``, and, if matplotlib is installed and training took long enough,
    ``training.png`` and ``encoding.png``, the encoding before and after training, which also
    appears in MLflow's image grids. If the store fails, one warning is issued and training
    continues.

    Where the run is follows what MLflow has been told, by the rule of `tsformer.tracking.context`:
    an active run gets the numbers of the first fit in it, further ones are nested in it; else a run
    is made in the experiment and the store that are set, or else in "tsformer" in ``mlflow.db`` in
    the working folder. `tsformer.autolog` tracks every fit, with its scores, data and model.

    If several processes track into one new SQLite file, call `tsformer.tracking.prepare_store`
    first; for a search, use `tsformer.autolog`.

    Parameters
    ----------
    tracking_uri : str, optional
        Make a run in this store: a SQLite file or a server's address, as
        `tsformer.tracking.resolve_uri` takes it.
    experiment : str, optional
        Make a run in the experiment of this name.
    run_name : str, optional
        Name of the run; the encoding's by default.
    mlflow_run : TrackedRun, optional
        Write to this run, which the caller created and will end, instead of creating one. Several
        fits, such as those of the members of one estimator, follow each other in it: curves
        continue; seconds, epochs and parameters add up.
    flush_seconds : float, default=5.0
        Minimum time between two batches of metrics.
    pictures : bool or "auto", default="auto"
        Whether to draw the figures. They are drawn after training: "auto" draws them if training
        took at least 60 seconds.

    Attributes
    ----------
    run_ : TrackedRun
        The run of the latest fit; ``run_.run_id`` is its id.
    summary_ : dict
        The metrics of the end of training.

    Examples
    --------
    >>> from tsformer import TSTransformerClassifier
    >>> classifier = TSTransformerClassifier(callbacks=[MLflowTracker(experiment="mine")])
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        experiment: str | None = None,
        run_name: str | None = None,
        mlflow_run: TrackedRun | None = None,
        flush_seconds: float = 5.0,
        pictures: bool | Literal["auto"] = "auto",
    ):
        if pictures not in (True, False, "auto"):
            raise ValueError(f"pictures={pictures!r}: use True, False or 'auto'")
        self.tracking_uri = tracking_uri
        self.experiment = experiment
        self.run_name = run_name
        self.mlflow_run = mlflow_run
        self.flush_seconds = flush_seconds
        self.pictures = pictures

    def __getstate__(self) -> dict[str, Any]:
        # A copy is a fresh tracker: connections cannot be pickled, and two must not share a run.
        return {name: value for name, value in self.__dict__.items() if name not in _RUNTIME}

    def on_train_begin(self, state: TrainingState) -> None:
        self._earlier = getattr(self, "summary_", {}) if self.mlflow_run is not None else {}
        self.run_ = self.mlflow_run or self._start(state)
        encoding = _encoding(state.model)
        learned = {} if encoding is None else encoding.state_dict()
        self._before = {name: tensor.detach().cpu().clone() for name, tensor in learned.items()}
        reset_peak_memory(state.plan.device)
        self._begun = perf_counter()

    def on_epoch_end(self, state: TrainingState) -> None:
        values = epoch_metrics(state.history[-1])
        self.run_.metrics(values, step=self._earlier.get("n_epochs", 0) + state.epoch)

    def on_train_end(self, state: TrainingState) -> None:
        seconds = perf_counter() - self._begun
        encoding = _encoding(state.model)
        sums = {
            "fit_seconds": seconds,
            "n_epochs": state.epoch,
            "n_parameters": _count(state.model),
            "n_parameters_encoding": 0 if encoding is None else _count(encoding),
        }
        sums = {name: value + self._earlier.get(name, 0) for name, value in sums.items()}
        self.summary_ = {
            **sums,
            "seconds_per_epoch": sums["fit_seconds"] / max(sums["n_epochs"], 1),
            "peak_memory_mb": max(
                peak_memory_mb(state.plan.device), self._earlier.get("peak_memory_mb", 0.0)
            ),
        }
        # At step 0: a metric of a later step is a curve to MLflow, here one of a single dot.
        self.run_.metrics(self.summary_)
        wanted = long_enough(seconds) if self.pictures == "auto" else self.pictures
        if wanted and state.history and importlib.util.find_spec("matplotlib"):
            self.run_.figure(lambda: plot_history(state.history), "training.png")
            if encoding is not None:
                self.run_.figure(lambda: self._picture(state.model), "encoding.png", key="encoding")
        del self._before, self._earlier
        if self.mlflow_run is None:
            status, error = _status(state), sys.exception()
            if status == "FAILED" and isinstance(error, Exception):
                self.run_.error(error)
            self.run_.end(status)

    def _start(self, state: TrainingState) -> TrackedRun:
        config = getattr(state.model, "config", None)
        shape = _fields(config) if dataclasses.is_dataclass(config) else {}
        encoding = encoding_name(shape.get("encoding", type(state.model).__name__))
        _, run = start_run(
            self.run_name or encoding,
            kind="fit",
            tracking_uri=self.tracking_uri,
            experiment=self.experiment,
            tags={"mlflow.runColor": encoding_color(encoding)},
            flush_seconds=self.flush_seconds,
        )
        run.params({**shape, **_fields(state.plan), "encoding": encoding})
        return run

    def _picture(self, model: Any) -> Any:
        before = copy.deepcopy(model.encoding)
        before.load_state_dict(self._before)
        return plot_encoding_change(
            before.at(0),
            model.encoding.at(0),
            min(model.max_tokens, _MOST_POSITIONS),
            d_model=model.config.d_model,
            n_heads=model.config.n_heads,
            name=encoding_name(model.config.encoding),
        )


def _encoding(model: nn.Module) -> Any:
    """Return the encoding of a TSTransformer; other modules may have none."""
    return getattr(model, "encoding", None)


def epoch_metrics(row: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of a row of a history."""
    names = {"loss": "train/loss", "lr": "lr", "val_loss": "val/loss", "val_score": "val/score"}
    return {names[key]: row[key] for key in names if key in row}


def long_enough(seconds: float) -> bool:
    """Tell whether a fit took so long that its pictures cost little beside it."""
    return seconds >= _LONG_ENOUGH_SECONDS


def encoding_name(encoding: Any) -> str:
    """Return the name of an encoding that was given by name, as a class or as a factory."""
    return encoding if isinstance(encoding, str) else getattr(encoding, "__name__", repr(encoding))


def _fields(instance: Any) -> dict[str, Any]:
    return {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _status(state: TrainingState) -> str:
    if state.history.interrupted:
        return "KILLED"
    return "FINISHED" if state.stop or state.epoch >= state.n_epochs else "FAILED"
