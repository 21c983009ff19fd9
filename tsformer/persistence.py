"""A folder with a JSON file and a safetensors file. No pickle: reading it runs no code.

``estimator.json`` says what was saved, and ``weights.safetensors`` holds its tensors. What goes
into the two is decided by whoever saves: this module knows files alone.
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

FORMAT = 1
_JSON, _WEIGHTS = "estimator.json", "weights.safetensors"


def write_folder(
    path: str | os.PathLike[str], state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write a description and tensors to a folder.

    It is written under a temporary name beside `path` and then renamed: a kill in the middle
    leaves the old folder or none, never half of one.

    Parameters
    ----------
    path : str or path
        A folder to make, or one made by an earlier call, which is replaced.
    state : mapping
        What JSON can hold.
    tensors : mapping
        Named tensors, on any device.

    Raises
    ------
    ValueError
        If `path` is something other than such a folder, or `state` holds what JSON cannot.
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
        # Members trained as one may still be views of one tensor, which the library refuses.
        own = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
        save_file({name: tensor.contiguous() for name, tensor in own.items()}, temporary / _WEIGHTS)
        state["weights_sha256"] = _digest(temporary / _WEIGHTS)
        text = json.dumps(state, indent=2, default=_refuse)
        (temporary / _JSON).write_text(text + "\n", encoding="utf-8")
        temporary.chmod(0o755)  # mkdtemp makes folders that only their owner can read
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
        shutil.rmtree(temporary, ignore_errors=True)  # gone already where all went well


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Call ``estimator.save(path)``, which replaces this function."""
    warn_renamed("tsformer.persistence.save(estimator, path)", "estimator.save(path)")
    estimator.save(path)


def check_destination(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if `write_folder` would refuse `path`; worth a call before a long fit."""
    path = Path(path)
    ours = (path / _JSON).is_file()
    if path.exists() and not ours and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(
            f"{path} exists and is not a saved estimator; choose another path, or remove it first"
        )


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write_folder` wrote.

    Parameters
    ----------
    path : str or path
        The folder.

    Returns
    -------
    state : dict
        The description, with the versions that wrote it.
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
    if version != FORMAT:
        raise ValueError(
            f"{path} was written in format {version!r} by tsformer {state.get('tsformer')}; this "
            f"is {tsformer.__version__}, which reads format {FORMAT}: install the newer one"
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
        "JSON. Give the encoding by a registered name, and random_state as an int"
    )
