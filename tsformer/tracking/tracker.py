"""MLflowTracker: the callback that logs a training to a run, with its peak memory."""

import copy
import importlib.util
import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch
from torch import nn

from tsformer.encodings.base import encoding_name
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.plots import plot_encoding_change, plot_history
from tsformer.tracking.store import TrackedRun
from tsformer.training.training_run import Callback, TrainingState

_STATUS = Path("/proc/self/status")
_MOST_POSITIONS = 256  # a map of more shows no more
# Pictures take up to three seconds, 5 % of a fit of this length.
_LONG_ENOUGH_SECONDS = 60.0


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak of the device's memory or, on Linux, of this process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):  # elsewhere, the peak is that since the process started
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory_mb(device: torch.device) -> float:
    """Return the peak in MB (10^6 bytes); NaN if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    # Linux. Not ru_maxrss: a new process inherits its parent's, and it cannot be reset.
    if _STATUS.exists() and (peak := re.search(r"VmHWM:\s*(\d+)", _STATUS.read_text("latin-1"))):
        return int(peak[1]) * 1024 / 1e6
    if sys.platform == "darwin":
        resource = importlib.import_module("resource")
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1e6
    return math.nan


class MLflowTracker(Callback):
    """Log a training to a run of MLflow: metrics per epoch, costs, pictures of the encoding.

    `docs/tracking.md` lists the names. `tsformer.autolog` adds a tracker to every fit; pass one to
    `tsformer.training.train` for a module of your own. Curves of several trainings continue, and
    seconds and parameters add up.

    Parameters
    ----------
    mlflow_run : TrackedRun
        The run, from `RunStore.start`. The caller ends it.
    pictures : bool or "auto", default="auto"
        Whether to draw pictures after training; "auto" after 60 seconds or more.

    Attributes
    ----------
    summary_ : dict
        The metrics of the end of training.

    Examples
    --------
    >>> from tsformer.tracking import TrackedRun
    >>> tracker = MLflowTracker(TrackedRun(None, ""), pictures=False)  # records nothing
    """

    def __init__(self, mlflow_run: TrackedRun, *, pictures: bool | Literal["auto"] = "auto"):
        check_pictures(pictures)
        self.mlflow_run = mlflow_run
        self.pictures = pictures
        self.summary_: dict[str, float] = {}

    def on_train_begin(self, state: TrainingState) -> None:
        run = None if self.summary_ else self.mlflow_run.read()  # another tracker may have logged
        self._earlier = self.summary_ if run is None else dict(run.data.metrics)
        self._before: Any = copy.deepcopy(getattr(state.model, "encoding", None))
        reset_peak_memory(state.plan.device)
        self._begun = perf_counter()

    def on_epoch_end(self, state: TrainingState) -> None:
        step = int(self._earlier.get("n_epochs", 0)) + state.epoch
        self.mlflow_run.metrics(epoch_metrics(state.history[-1]), step=step)

    def on_train_end(self, state: TrainingState) -> None:
        seconds = perf_counter() - self._begun
        encoding: Any = getattr(state.model, "encoding", None)
        sums = {"fit_seconds": seconds, "n_epochs": state.epoch}
        sums["n_parameters"] = n_parameters(state.model)
        sums["n_parameters_encoding"] = 0 if encoding is None else n_parameters(encoding)
        sums = {name: value + self._earlier.get(name, 0) for name, value in sums.items()}
        peak = peak_memory_mb(state.plan.device)
        self.summary_ = {
            **sums,
            "seconds_per_epoch": sums["fit_seconds"] / max(sums["n_epochs"], 1),
            "peak_memory_mb": max(peak, self._earlier.get("peak_memory_mb", 0.0)),
        }
        self.mlflow_run.metrics(self.summary_)  # at step 0: MLflow draws later steps as a curve
        self.mlflow_run.flush()  # a copy of this tracker has a buffer that nobody else flushes
        if state.history and worth_drawing(self.pictures, seconds):
            self.mlflow_run.figure(lambda: plot_history(state.history), "training.png")
            if encoding is not None:
                model: Any = state.model
                config, n = model.config, min(model.max_tokens, _MOST_POSITIONS)
                sizes = {"d_model": config.d_model, "n_heads": config.n_heads}
                both = self._before.at(0), encoding.at(0)
                name = encoding_name(config.encoding)
                draw = partial(plot_encoding_change, *both, n, **sizes, name=name)
                self.mlflow_run.figure(draw, "encoding.png", key="encoding")
        del self._before, self._earlier


def check_pictures(pictures: object) -> None:
    """Raise ValueError unless it is a bool or "auto"."""
    if pictures not in (True, False, "auto"):
        raise ValueError(f"pictures={pictures!r}: use True, False or 'auto'")


def epoch_metrics(row: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of a row of a history."""
    names = {"loss": "train/loss", "lr": "lr", "val_loss": "val/loss", "val_score": "val/score"}
    return {names[key]: row[key] for key in names if key in row}


def worth_drawing(pictures: bool | Literal["auto"], seconds: float) -> bool:
    """Return whether to draw the pictures of a fit of this length."""
    wanted = seconds >= _LONG_ENOUGH_SECONDS if pictures == "auto" else pictures
    return wanted and importlib.util.find_spec("matplotlib") is not None


def n_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def encoding_of(estimator: Any) -> str:
    """Return the name of the encoding, or ""."""
    params = estimator.get_params(deep=False)
    if "transformer_params" in params:
        default = {"encoding": TSTransformerClassifier().encoding}
        params = default | dict(params["transformer_params"] or {})
    return encoding_name(params["encoding"]) if "encoding" in params else ""


def name_of(estimator: Any) -> str:
    """Return the name of a run: the encoding, or else the class."""
    return encoding_of(estimator) or type(estimator).__name__


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters; entries of a dict are named ``outer.inner``."""
    encoding = encoding_of(estimator)
    flat: dict[str, Any] = {"estimator": type(estimator).__name__}
    flat |= {"encoding": encoding} if encoding else {}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Mapping) and value:
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        elif name not in ("callbacks", "verbose"):
            flat.setdefault(name, value)
    return flat
