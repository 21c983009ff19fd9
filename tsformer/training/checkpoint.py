"""Checkpoints: resume a killed training run, on a CPU bit for bit.

On a GPU the order of sums differs, and after steps in CUDA graphs the random draws too.
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
#: Attributes of a run that tell its position.
_POSITION = ("step", "batch", "total", "kept", "shuffling", "best", "best_loss")


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
            if n_files := len(list(self.path.parent.glob("training-*.pt"))):
                warn_caller(
                    f"resume=True found no checkpoint of this run in {self.path.parent}, but "
                    f"{n_files} of other runs; training starts from scratch"
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


def resume_run(run: TrainingRun, optimizer: torch.optim.Optimizer, file: CheckpointFile) -> None:
    """Restore the checkpoint, if it exists."""
    state, device, saved = run.state, run.total.device, file.load()
    if saved is None:
        return
    with file.to_be_read():
        # The options depend on the device and on CUDA graphs, so this run's options stay.
        options = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({**saved["optimizer"], "param_groups": options})
        vars(run).update({name: saved["position"][name] for name in _POSITION})
        run.total = run.total.to(device)
        run.generator.set_state(run.shuffling)
        state.stop = saved["position"]["stop"]
        state.history.best_epoch = None if run.best is None else run.best[0]
        state.history += saved["history"][len(state.history) :]
        if run.ranks.size == 1:  # only the first process saves its generators
            torch.Generator().set_state(saved["random"]["cpu"])  # raises if damaged
            run.random.states |= saved["random"]
        state.model.load_state_dict(saved["model"])  # last: errors leave the model unchanged


def save_run(run: TrainingRun, optimizer: torch.optim.Optimizer, file: CheckpointFile) -> None:
    """Save the state; warn if the disk is full or missing."""
    if not run.ranks.leads:
        return
    content = {
        "model": run.state.model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "position": {"stop": run.state.stop} | {name: getattr(run, name) for name in _POSITION},
        "history": list(run.state.history),
        "random": run.random.states,
    }
    try:
        file.save(content)
    except OSError as error:
        warn_caller(f"checkpoint {file.path} could not be written ({error}); training continues")


def fingerprint(run: TrainingRun) -> str:
    """Hash all inputs of a training run; return 16 hex digits."""
    digest: Any = hashlib.blake2b(digest_size=8)
    plan = run.state.plan
    names = [f.name for f in dataclasses.fields(plan) if f.name not in _IRRELEVANT]
    relevant = [(name, getattr(plan, name)) for name in names]
    pretrained = sorted(plan.pretrained.names) if plan.pretrained else None  # not in its repr
    loss = run.loss if isinstance(run.loss, Pretext) else None
    digest.update(repr((relevant, pretrained, loss)).encode())

    def add(chunks: Iterable[Tensor | None]) -> None:
        for number, chunk in enumerate(chunks):
            if chunk is None:  # what follows has another type or shape
                return
            if number == 0:
                digest.update(f"{chunk.dtype} {tuple(chunk.shape[1:])}".encode())
            digest.update(chunk.detach().cpu().contiguous().numpy())

    for name, tensor in run.state.model.state_dict().items():
        digest.update(name.encode())
        add([tensor])
    for data in (run, run.validation):
        if data is not None:
            for name in ("values", "mask", "times"):
                add(getattr(chunk, name) for chunk in data.panel.parts())
            for whole in (data.panel.lengths, data.targets, data.weights):
                add([whole])
    return digest.hexdigest()
