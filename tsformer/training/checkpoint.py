"""Checkpoints: a training that was killed goes on where it stood, to the same weights."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pickle
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tsformer.data.panel import Panel
from tsformer.training.plan import TrainingPlan

__all__ = ["CheckpointFile", "fingerprint"]

#: Fields of a plan that change neither the steps of a training nor their order.
_NO_MATTER = ("device", "compile", "checkpoint_dir", "checkpoint_minutes", "resume")


class CheckpointFile:
    """The newest state of one training, in a file whose name is the training's fingerprint.

    So several trainings, as those of a grid search, may share a folder, and none goes on with what
    another one left. The file is replaced in one step: it is whole whenever a training dies.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    name : str
        The fingerprint.
    minutes : float
        Least time between two states that are kept.
    """

    def __init__(self, folder: Path, name: str, minutes: float):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(
                f"checkpoint_dir must be a folder, or a name for a new one; {folder} is a file"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"training-{name}.pt"
        self.minutes = minutes
        self._kept = time.monotonic()

    def due(self) -> bool:
        """Whether the time has come to keep a state."""
        return time.monotonic() - self._kept >= 60 * self.minutes

    def save(self, state: Mapping[str, Any]) -> None:
        """Write it, in one step."""
        waiting = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with waiting.open("wb") as file:
                torch.save(dict(state), file)
                file.flush()
                os.fsync(file.fileno())
            waiting.replace(self.path)
        finally:
            waiting.unlink(missing_ok=True)
        self._kept = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return what was kept last, None where there is nothing of this training.

        Raises
        ------
        ValueError
            If the file is damaged.
        """
        if not self.path.exists():
            others = len(list(self.path.parent.glob("training-*.pt")))
            if others:
                warnings.warn(
                    f"resume=True found no checkpoint of this training in {self.path.parent}: the "
                    f"{others} there are of other data, parameters or seeds; it starts anew",
                    stacklevel=2,
                )
            return None
        try:
            # Tensors and plain values only: nothing of a checkpoint is run.
            state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, OSError, KeyError, pickle.UnpicklingError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"checkpoint {self.path} cannot be read ({why}); delete it to start anew, or set "
                "resume=False"
            ) from error
        return state


def fingerprint(
    plan: TrainingPlan,
    weights: Mapping[str, Tensor],
    panels: Iterable[Panel],
    others: Iterable[Tensor | None],
) -> str:
    """Return 16 hex digits of all that decides what a training does, in every bit.

    Parameters
    ----------
    plan : TrainingPlan
        Of it, what changes the steps or their order.
    weights : mapping
        The model's state at the start.
    panels : iterable of Panel
        Series to train and validate on.
    others : iterable of Tensor or None
        Targets and weights of the series.
    """
    digest = hashlib.blake2b(digest_size=8)
    fields = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
    digest.update(repr({k: v for k, v in fields.items() if k not in _NO_MATTER}).encode())
    for name, tensor in weights.items():
        digest.update(name.encode())
        _add(digest, tensor)
    for panel in panels:
        for part in (panel.values, panel.lengths, panel.mask, panel.times):
            _add(digest, part)
    for other in others:
        _add(digest, other)
    return digest.hexdigest()


def _add(digest: Any, tensor: Tensor | None) -> None:
    if tensor is None:
        digest.update(b"none")
        return
    digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
