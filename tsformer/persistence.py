"""Folders with a JSON file and a safetensors file. No pickle: reading them runs no code.

``estimator.json`` describes the estimator, and ``weights-<digest>.safetensors`` holds its tensors.
``README.md`` is a card for readers; nothing reads it.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from tsformer._files import replacing
from tsformer._version import __version__

FORMAT = 2
_JSON, _CARD = "estimator.json", "README.md"
#: The last line of a card: its weights, and the digest of the text above.
_MARK = "<!-- tsformer wrote this card of {weights}; SHA-256 of the text above: {digest} -->\n"
#: Files that a killed process may leave: weights without a description, unfinished files.
_LEFTOVER = re.compile(
    r"weights-[0-9a-f]{16}\.safetensors|\.(estimator|weights|README)[-.].*\.[0-9a-f]{12}"
)
#: Bytes that must be free to save a model, which takes a few hundred kilobytes.
_SPACE = 2**20


def write_folder(
    path: str | os.PathLike[str], state: Mapping[str, Any], tensors: Mapping[str, Tensor], card: str
) -> None:
    """Write a description, tensors and a card in Markdown to a folder, atomically."""
    # Imported here, so that training needs only torch and scikit-learn.
    from safetensors.torch import save as serialised

    folder = _destination(path)
    # safetensors rejects tensors that share a storage.
    copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    weights = serialised({name: tensor.contiguous() for name, tensor in copies.items()})
    versions = {"format": FORMAT, "tsformer": __version__, "torch": torch.__version__}
    state = {**versions, **state, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    text = json.dumps(state, indent=2, default=_plain)  # before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    before, new = _weights_in(folder), folder / _weights_name(state)
    with replacing(new) as file:
        file.write(weights)
    # The card is written in full before the description, and replaced after it.
    with replacing(folder / _CARD) as card_file, replacing(folder / _JSON) as file:
        marked = card.encode("utf-8", "backslashreplace")  # a label may hold half of a character
        digest = hashlib.sha256(marked).hexdigest()
        card_file.write(marked + _MARK.format(weights=new.name, digest=digest).encode())
        card_file.flush()
        file.write(f"{text}\n".encode())
    # Another process may have saved the earlier weights again.
    if before is not None and before not in (new, _weights_in(folder)):
        before.unlink(missing_ok=True)


@contextmanager
def removed_on_failure(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise the errors of `write_folder` before a long fit; remove new folders if it fails."""
    folder = _destination(path)
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_SPACE))
        yield
    except BaseException:
        for new in created:
            with suppress(OSError):  # it holds something by now, or was never created
                new.rmdir()
        raise


def save_or_rescue(save: Callable[[Path], None], path: str | os.PathLike[str]) -> None:
    """Call ``save(path)``; on failure save to a new folder named in the error."""
    path = Path(path)
    try:
        save(path)
    except (OSError, ValueError) as error:
        for parent in (path.absolute().parent, Path(tempfile.gettempdir())):
            rescued = parent / f"{path.absolute().name}-{uuid4().hex[:8]}"
            with suppress(OSError, ValueError):
                save(rescued)
                break
        else:
            raise
        raise OSError(
            f"the model could not be saved in {path} ({error}): it is saved in {rescued}"
        ) from error


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a folder written by `write_folder`: finite tensors of the digest, and a description."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = Path(path)
    if not os.path.isfile(path / _JSON):  # unlike Path's method, also for impossible names
        raise FileNotFoundError(f"there is no saved estimator at {path}: {_JSON} is missing")
    state = _described(path)
    if state.get("format") != FORMAT:
        raise ValueError(
            f"{path} was written in format {state.get('format')!r} by tsformer "
            f"{state.get('tsformer')}; this is {__version__}, which reads format {FORMAT}: install "
            "that version, or fit and save again with this one"
        )
    file = path / _weights_name(state)
    try:
        content = file.read_bytes()
        if hashlib.sha256(content).hexdigest() != state["weights_sha256"]:
            raise ValueError(f"truncated, or not the file that {_JSON} was written with")
        tensors = load(content)
        for name, tensor in tensors.items():
            # torch cannot test 8-bit floats.
            comparable = tensor if tensor.element_size() > 1 else tensor.float()
            if tensor.is_floating_point() and not bool(comparable.isfinite().all()):
                raise ValueError(f"tensor {name!r} has values that are not finite")
    except FileNotFoundError as error:
        if _weights_in(path) != file:
            return read_folder(path)  # another process has replaced the model
        raise ValueError(f"{path} is incomplete: {file.name} is missing") from error
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{file} is corrupted: {error}; save the estimator again") from error
    return state, tensors


def _destination(path: str | os.PathLike[str]) -> Path:
    """Resolve links; refuse anything but a new folder or a saved estimator."""
    folder = Path(os.path.realpath(path))
    unexpected = {folder.name} if folder.exists() else set()
    if folder.is_dir():
        ours = {_JSON} if _weights_in(folder) else set()
        ours |= {_CARD} if ours and _is_unedited(folder / _CARD) else set()
        unexpected = {n for n in {*os.listdir(folder)} - ours if not _LEFTOVER.fullmatch(n)}
    if unexpected:
        raise ValueError(
            f"{path} is not a saved estimator, or holds more: {', '.join(sorted(unexpected)[:10])};"
            " choose another path, or move these first"
        )
    return folder


def _is_unedited(path: Path) -> bool:
    """Whether a card is as `write_folder` wrote it."""
    content = path.read_bytes() if path.is_file() else b""
    text, newline, mark = content.replace(b"\r\n", b"\n").rpartition(b"\n<!-- ")
    return hashlib.sha256(text + newline[:1]).hexdigest().encode() in mark


def _described(folder: Path) -> dict[str, Any]:
    """Return the description of the saved estimator in a folder."""
    try:
        state: dict[str, Any] = json.loads((folder / _JSON).read_text(encoding="utf-8"))
        if not re.fullmatch(r"[0-9a-f]{64}", str(state["weights_sha256"])):
            raise ValueError("weights_sha256 is not a SHA-256 digest")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{folder / _JSON} is corrupted: {error}") from error
    return state


def _weights_in(folder: Path) -> Path | None:
    """Return the path of the weights of a saved estimator."""
    with suppress(FileNotFoundError, ValueError):
        return folder / _weights_name(_described(folder))
    return None


def _weights_name(state: Mapping[str, Any]) -> str:
    return f"weights-{state['weights_sha256'][:16]}.safetensors"


def _plain(value: object) -> Any:
    """Return the number of a NumPy scalar for JSON."""
    if isinstance(value, np.generic) and not isinstance(value, np.longdouble):
        return value.item()
    raise ValueError(
        f"a parameter holds {value!r} of type {type(value).__name__}, which cannot be written as "
        "JSON. Pass the encoding by its registered name, and random_state as an int"
    )
