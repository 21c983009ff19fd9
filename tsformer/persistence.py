"""Folders with a JSON file and a safetensors file. No pickle: reading them runs no code.

``estimator.json`` describes what was saved, and ``weights.safetensors`` holds its tensors. The
caller decides what goes into them: this module only knows files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

import tsformer
from tsformer._deprecation import renamed_in_module, warn_renamed

__all__ = ["check_destination", "read_folder", "write_folder"]

__getattr__ = renamed_in_module(__name__, {"load": "tsformer.load"})

#: Version 0.1 wrote format 1, which is still read. The caller sees which it was.
FORMAT = 2
_JSON, _WEIGHTS = "estimator.json", "weights.safetensors"


def write_folder(
    path: str | os.PathLike[str], state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write a description and tensors to a folder, atomically.

    The folder is written under a temporary name next to `path` and then renamed: if the process is
    killed, the old folder or none is left, never a partial one.

    Parameters
    ----------
    path : str or path
        A new folder, or one written by an earlier call, which is replaced.
    state : mapping
        The description, which must be serialisable as JSON.
    tensors : mapping
        Named tensors, on any device.

    Raises
    ------
    ValueError
        If `path` is anything else, or `state` cannot be written as JSON.
    """
    path = Path(path)
    check_destination(path)
    state = {
        "format": FORMAT,
        "tsformer": tsformer.__version__,
        "torch": torch.__version__,
        **state,
    }
    json.dumps(state, default=_refuse)  # before anything is written
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        # Members trained together may be views of one tensor, which safetensors refuses.
        own = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
        save_file({name: tensor.contiguous() for name, tensor in own.items()}, temporary / _WEIGHTS)
        state["weights_sha256"] = _digest(temporary / _WEIGHTS)
        text = json.dumps(state, indent=2, default=_refuse)
        (temporary / _JSON).write_text(text + "\n", encoding="utf-8")
        temporary.chmod(0o755)  # mkdtemp creates folders that only their owner can read
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}-old-", dir=path.parent))
            os.replace(path, old)
            try:
                os.replace(temporary, path)
            except BaseException:
                os.rename(old, path)
                raise
            shutil.rmtree(old)
        else:
            os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # already renamed on success


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Call ``estimator.save(path)``; deprecated."""
    warn_renamed("tsformer.persistence.save(estimator, path)", "estimator.save(path)")
    estimator.save(path)


def check_destination(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if `write_folder` would refuse `path`; useful before a long fit."""
    path = Path(path)
    ours = (path / _JSON).is_file()
    if path.exists() and not ours and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(
            f"{path} exists and is not a saved estimator; choose another path, or remove it first"
        )


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a folder written by `write_folder`.

    Parameters
    ----------
    path : str or path
        The folder.

    Returns
    -------
    state : dict
        The description, including the versions it was written with.
    tensors : dict
        Named tensors, on the CPU.

    Raises
    ------
    FileNotFoundError
        If there is no saved estimator at `path`.
    ValueError
        If a file is corrupted or truncated, or was written by a newer version.
    """
    path = Path(path)
    if not (path / _JSON).is_file():
        raise FileNotFoundError(f"there is no saved estimator at {path}: {_JSON} is missing")
    try:
        state = json.loads((path / _JSON).read_text(encoding="utf-8"))
        version = state["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path / _JSON} is corrupted: {error}") from error
    if version not in range(1, FORMAT + 1):
        raise ValueError(
            f"{path} was written in format {version!r} by tsformer {state.get('tsformer')}; this "
            f"is {tsformer.__version__}, which reads formats up to {FORMAT}: install the newer "
            "version"
        )
    if not (path / _WEIGHTS).is_file():
        raise ValueError(f"{path} is incomplete: {_WEIGHTS} is missing")
    if _digest(path / _WEIGHTS) != state.get("weights_sha256"):
        raise ValueError(
            f"{path / _WEIGHTS} is corrupted or truncated: it is not the file that {_JSON} was "
            "written with; save the estimator again"
        )
    try:
        return state, load_file(path / _WEIGHTS)
    except SafetensorError as error:
        raise ValueError(f"{path / _WEIGHTS} is corrupted: {error}") from error


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _refuse(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise ValueError(
        f"a parameter holds {value!r} of type {type(value).__name__}, which cannot be written as "
        "JSON. Pass the encoding by its registered name, and random_state as an int"
    )
