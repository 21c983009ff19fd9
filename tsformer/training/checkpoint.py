"""Checkpoints: resume a killed training run.

On a CPU the final weights equal those of an uninterrupted run, bit for bit. On a GPU the order of
sums differs, and after steps in CUDA graphs the random draws too.
"""

import dataclasses
import hashlib
import io
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tsformer._files import replacing
from tsformer._warnings import warn_caller
from tsformer.objectives import Pretext
from tsformer.training.training_run import TrainingRun

#: Fields of a plan that change neither the steps of a training run nor their order.
_IRRELEVANT = ("device", "compile", "checkpoint_dir", "checkpoint_minutes", "resume")
#: Attributes of a run and of its early stopping that tell its position.
_OF_RUN = ("step", "batch", "total", "kept", "shuffling")
_OF_STOPPING = ("best_epoch", "best_loss", "best_weights")


class Checkpointer:
    """Saves a training run every few minutes."""

    def __init__(self, run: TrainingRun, optimizer: torch.optim.Optimizer):
        self.run = run
        self.optimizer = optimizer
        plan = run.state.plan
        assert plan.checkpoint_dir is not None
        self.file = CheckpointFile(plan.checkpoint_dir, fingerprint(run), plan.checkpoint_minutes)

    def resume(self) -> None:
        """Restore the checkpoint, if the plan resumes and it exists."""
        run, state, stopping = self.run, self.run.state, self.run.stopping
        saved = self.file.load() if state.plan.resume else None
        if saved is None:
            return
        with self.file.to_be_read():
            # The options depend on the device and on CUDA graphs, so this run's options stay.
            own = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({**saved["optimizer"], "param_groups": own})
            position, device = saved["position"], run.total.device
            for owner, names in ((run, _OF_RUN), (stopping, _OF_STOPPING), (state, ("stop",))):
                vars(owner).update({name: position[name] for name in names})
            run.total = run.total.to(device)
            run.generator.set_state(run.shuffling)
            state.history.best_epoch = stopping.best_epoch
            state.history += saved["history"][len(state.history) :]
            if run.ranks.size == 1:  # only the first process saves its generators
                torch.Generator().set_state(saved["random"]["cpu"])  # raises if damaged
                run.random.states |= saved["random"]
            state.model.load_state_dict(saved["model"])  # last: errors leave the model unchanged

    def save(self) -> None:
        """Save the state; warn if the disk is full or missing."""
        run, state, stopping = self.run, self.run.state, self.run.stopping
        if not run.ranks.leads:
            return
        content = {
            "model": state.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": {
                **{name: getattr(run, name) for name in _OF_RUN},
                **{name: getattr(stopping, name) for name in _OF_STOPPING},
                "stop": state.stop,
            },
            "history": list(state.history),
            "random": run.random.states,
        }
        try:
            self.file.save(content)
        except OSError as error:
            warn_caller(
                f"checkpoint {self.file.path} could not be written ({error}); training goes on"
            )


class CheckpointFile:
    """The latest state of one training run, in a file named after the run's fingerprint."""

    def __init__(self, folder: Path, name: str, minutes: float):
        folder.mkdir(parents=True, exist_ok=True)  # names a file that is in its place
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
            if others := len(list(self.path.parent.glob("training-*.pt"))):
                warn_caller(
                    f"resume=True found no checkpoint of this run in {self.path.parent}: the "
                    f"{others} checkpoints there are of other runs; training starts from scratch"
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
                f"checkpoint {self.path} cannot be read ({why}); delete it, or set resume=False"
            ) from error


def fingerprint(run: TrainingRun) -> str:
    """Hash all inputs of a training run; return 16 hex digits."""
    digest = hashlib.blake2b(digest_size=8)
    plan, validation = run.state.plan, run.validation
    fields = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
    digest.update(repr({k: v for k, v in fields.items() if k not in _IRRELEVANT}).encode())
    if plan.pretrained is not None:  # its repr leaves out the names, which may be many
        digest.update(repr(sorted(plan.pretrained.names)).encode())
    if isinstance(run.loss, Pretext):
        digest.update(repr(run.loss).encode())
    for name, tensor in run.state.model.state_dict().items():
        digest.update(name.encode())
        _add(digest, [tensor])
    panels, others = [run.panel], [run.targets, run.weights]
    if validation is not None:
        panels.append(validation.panel)
        others += [validation.targets, validation.weights]
    for panel in panels:
        _add(digest, (part.values for part in panel.parts()), len(panel))
        _add(digest, [panel.lengths])
        for name in ("mask", "times"):
            _add(digest, (getattr(part, name) for part in panel.parts()), len(panel))
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
