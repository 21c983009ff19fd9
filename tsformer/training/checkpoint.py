"""Checkpoints: resume a killed training run.

On a CPU the final weights equal those of an uninterrupted run, bit for bit. On a GPU the order of
sums differs, and after steps in CUDA graphs the random draws too.
"""

import dataclasses
import hashlib
import io
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tsformer._files import replacing
from tsformer._warnings import warn_caller
from tsformer.data.panel import AnyPanel
from tsformer.objectives import Pretext
from tsformer.training.plan import TrainingPlan
from tsformer.training.run import LoopState, TrainingRun
from tsformer.training.step import OneProcess

#: Fields of a plan that change neither the steps of a training run nor their order.
_IRRELEVANT = ("device", "compile", "checkpoint_dir", "checkpoint_minutes", "resume")


class Checkpointer:
    """Saves a training run every few minutes."""

    def __init__(
        self,
        folder: Path,
        run: TrainingRun,
        optimizer: torch.optim.Optimizer,
        at: LoopState,
        panel: AnyPanel,
        others: Sequence[Tensor | None],
        ranks: OneProcess,
    ):
        self.run = run
        self.optimizer = optimizer
        self.at = at
        self.ranks = ranks
        plan, validation = run.state.plan, run.validation
        panels = [panel]
        if validation is not None:
            panels.append(validation.panel)
            others = (*others, validation.targets, validation.weights)
        name = fingerprint(plan, run.state.model.state_dict(), panels, others, run.loss)
        self.file = CheckpointFile(folder, name, plan.checkpoint_minutes)

    def resume(self) -> None:
        """Restore the checkpoint, if the plan resumes and it exists."""
        state = self.run.state
        if not state.plan.resume:
            return
        saved = self.file.load()
        if saved is None:
            return
        with self.file.to_be_read():
            # The options depend on the device and on CUDA graphs, so this run's options stay.
            own = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({**saved["optimizer"], "param_groups": own})
            self.at.load_state_dict(saved["position"], saved["best_epoch"])
            state.history += saved["history"][len(state.history) :]
            state.history.best_epoch, state.stop = saved["best_epoch"], saved["stop"]
            if self.ranks.size == 1:  # only the first process saves its generators
                torch.Generator().set_state(saved["random"]["cpu"])  # raises if damaged
                self.run.random.states |= saved["random"]
            state.model.load_state_dict(saved["model"])  # last: errors leave the model unchanged

    def save_if_due(self) -> None:
        """Save the state if the last checkpoint is old enough."""
        if self.ranks.leads and self.file.due():
            self.save()

    def save(self) -> None:
        """Save the state; warn if the disk is full or missing."""
        if not self.ranks.leads:
            return
        state = self.run.state
        try:
            self.file.save(
                {
                    "model": state.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "position": self.at.state_dict(),
                    "history": list(state.history),
                    "best_epoch": state.history.best_epoch,
                    "stop": state.stop,
                    "random": self.run.random.states,
                }
            )
        except OSError as error:
            warn_caller(
                f"checkpoint {self.file.path} could not be written ({error}); training continues "
                "and retries at the next checkpoint"
            )


class CheckpointFile:
    """The latest state of one training run, in a file named after the run's fingerprint."""

    def __init__(self, folder: Path, name: str, minutes: float):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(
                f"checkpoint_dir must be a folder, or a name for a new one; {folder} is a file"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"training-{name}.pt"
        self.minutes = minutes
        self._saved = time.monotonic()

    def due(self) -> bool:
        """Whether the next checkpoint is due."""
        return time.monotonic() - self._saved >= 60 * self.minutes

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the state atomically."""
        self._saved = time.monotonic()
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)  # writing to a file, it would hide the system's error
        with replacing(self.path) as file:
            file.write(buffer.getbuffer())
        self._saved = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return the saved state, or None without a checkpoint of this run."""
        if not self.path.exists():
            others = len(list(self.path.parent.glob("training-*.pt")))
            if others:
                warn_caller(
                    f"resume=True found no checkpoint of this training run in {self.path.parent}: "
                    f"the {others} checkpoints there have other data, parameters or seeds; "
                    "training starts from scratch"
                )
            return None
        with self.to_be_read():
            with zipfile.ZipFile(self.path) as archive:
                damaged = archive.testzip()
            if damaged is not None:
                raise ValueError(f"the checksum of {damaged} is wrong")
            # Tensors and plain values only: no code in a checkpoint is executed.
            state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
        return state

    @contextmanager
    def to_be_read(self) -> Iterator[None]:
        """Translate any error of the block into a ValueError that names the file."""
        try:
            yield
        except Exception as error:  # a damaged file may raise any error
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"checkpoint {self.path} cannot be read ({why}); delete it to start from "
                "scratch, or set resume=False"
            ) from error


def fingerprint(
    plan: TrainingPlan,
    weights: Mapping[str, Tensor],
    panels: Iterable[AnyPanel],
    others: Iterable[Tensor | None],
    loss: object = None,
) -> str:
    """Hash all inputs of a training run; return 16 hex digits."""
    digest = hashlib.blake2b(digest_size=8)
    fields = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
    if plan.pretrained is None:
        del fields["pretrained"]
    digest.update(repr({k: v for k, v in fields.items() if k not in _IRRELEVANT}).encode())
    if isinstance(loss, Pretext):
        digest.update(repr(loss).encode())
    for name, tensor in weights.items():
        digest.update(name.encode())
        _add(digest, [tensor])
    for panel in panels:
        _add(digest, (part.values for part in panel.parts()), len(panel))
        _add(digest, [panel.lengths])
        _add(digest, (part.mask for part in panel.parts()), len(panel))
        _add(digest, (part.times for part in panel.parts()), len(panel))
    for other in others:
        _add(digest, [other])
    return digest.hexdigest()


def _add(digest: Any, parts: Iterable[Tensor | None], n: int | None = None) -> None:
    """Hash a tensor, or the parts of a tensor of length `n`."""
    for number, part in enumerate(parts):
        if part is None:
            digest.update(b"none")
            return
        if number == 0:
            shape = tuple(part.shape) if n is None else (n, *part.shape[1:])
            digest.update(f"{part.dtype} {shape}".encode())
        digest.update(part.detach().cpu().contiguous().numpy())
