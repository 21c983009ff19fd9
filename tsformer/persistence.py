"""Save and load: a folder with a JSON file and a safetensors file. No pickle: loading runs no code.

``estimator.json`` holds what the estimator is (class, parameters, classes, sizes, versions), and
``weights.safetensors`` its tensors.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

import tsformer
from tsformer import safetensors
from tsformer._names import unknown
from tsformer.data.codes import CodeBook
from tsformer.data.scaling import Scaler
from tsformer.encodings import PositionalEncoding, names
from tsformer.encodings.registry import find
from tsformer.model import ModelConfig, TSTransformer
from tsformer.training import History
from tsformer.training.plan import resolve_device

if TYPE_CHECKING:
    from tsformer.estimators.base import TransformerEstimator

__all__ = ["check_destination", "load", "save"]

FORMAT = 1
_JSON, _WEIGHTS = "estimator.json", "weights.safetensors"
# What a user's program brings and no file can hold.
_NOT_SAVED = {"callbacks": None, "device": "auto", "checkpoint_dir": None, "resume": False}


def save(estimator: TransformerEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a folder.

    It is written under a temporary name beside `path` and then renamed: a kill in the middle
    leaves the old folder or none, never half of one.

    Parameters
    ----------
    estimator : fitted estimator
        Its `callbacks` and `device` are not saved.
    path : str or path
        A folder to make, or one made by an earlier `save`, which is replaced.

    Raises
    ------
    ValueError
        If `path` is something else than such a folder, or a parameter cannot be written as
        JSON: an encoding given as a class is written by its registered name, a factory cannot be.
    """
    check_is_fitted(estimator)
    path = Path(path)
    check_destination(path)
    state = _describe(estimator)
    json.dumps(state, default=_refuse)  # before anything is written
    tensors = {
        f"{prefix}{name}": tensor
        for prefix, model in zip(_prefixes(estimator.models_), estimator.models_, strict=True)
        for name, tensor in model.state_dict().items()
    }
    scaler = estimator.scaler_
    if isinstance(scaler, CodeBook):
        tensors["codes.known"] = torch.from_numpy(scaler.known)
    elif scaler.mean is not None and scaler.std is not None:
        tensors["scaler.mean"] = torch.from_numpy(scaler.mean)
        tensors["scaler.std"] = torch.from_numpy(scaler.std)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        safetensors.write(tensors, temporary / _WEIGHTS)
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


def check_destination(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if `save` would refuse `path`; worth a call before a long training."""
    path = Path(path)
    ours = (path / _JSON).is_file()
    if path.exists() and not ours and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(
            f"{path} exists and is not a saved estimator; choose another path, or remove it first"
        )


def load(
    path: str | os.PathLike[str], *, device: str | torch.device = "auto"
) -> TransformerEstimator:
    """Read an estimator that `save` wrote; it predicts what it predicted then.

    Parameters
    ----------
    path : str or path
        The folder.
    device : str or torch.device, default="auto"
        Where to put the model, whatever it was trained on.

    Returns
    -------
    fitted estimator

    Raises
    ------
    FileNotFoundError
        If there is no saved estimator at `path`.
    ValueError
        If a file is corrupted or truncated, was written by a newer version, or names an
        encoding that is not registered here (import the module that defines it first).
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
        raise ValueError(f"{path} is not whole: {_WEIGHTS} is missing")
    if _digest(path / _WEIGHTS) != state.get("weights_sha256"):
        raise ValueError(
            f"{path / _WEIGHTS} is corrupted or truncated: it is not the file that {_JSON} was "
            "written with; save the estimator again"
        )
    tensors = safetensors.read(path / _WEIGHTS)
    try:
        return _restore(state, tensors, device)
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} is corrupted: {error}") from error


def _describe(estimator: TransformerEstimator) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False) | _NOT_SAVED
    parameters["encoding"] = _by_name(parameters["encoding"])
    # Not to be derived from the parameters, which may have been set anew since the fit.
    model = dict(vars(estimator.model_.config))
    model["encoding"] = _by_name(model["encoding"])
    if isinstance(parameters.get("class_weight"), dict):
        # JSON keys are strings; pairs keep the labels' types.
        parameters["class_weight"] = {"pairs": list(parameters["class_weight"].items())}
    scaler = estimator.scaler_
    return {
        "format": FORMAT,
        "tsformer": tsformer.__version__,
        "torch": torch.__version__,
        "class": type(estimator).__name__,
        "parameters": parameters,
        **estimator._describe_targets(),
        "columns_are_steps": estimator._columns_are_steps,
        "n_features_in": estimator.n_features_in_,
        "n_channels": estimator.n_channels_,
        "model": model,
        "scaling": getattr(scaler, "how", None),
        "flagged": scaler.flagged.tolist() if isinstance(scaler, Scaler) else [],
        "time_step": scaler.step,
        "clock": estimator._clock,
        "feature_names_in": getattr(estimator, "feature_names_in_", np.empty(0)).tolist(),
        **_describe_history(estimator.histories_[0]),
        # Of further members, beside those of the first, which older versions know alone.
        "members": [_describe_history(history) for history in estimator.histories_[1:]],
    }


def _describe_history(history: History) -> dict[str, Any]:
    return {
        "history": list(history),
        "best_epoch": history.best_epoch,
        "interrupted": history.interrupted,
    }


def _restore_history(described: dict[str, Any]) -> History:
    history = History(described["history"])
    history.best_epoch = described["best_epoch"]
    history.interrupted = described["interrupted"]
    return history


def _prefixes(members: Sequence[object]) -> list[str]:
    """Return what the names of each member's tensors begin with."""
    return ["model.", *(f"members.{i}." for i in range(1, len(members)))]


def _restore(
    state: dict[str, Any], tensors: dict[str, torch.Tensor], device: str | torch.device
) -> TransformerEstimator:
    from tsformer import estimators

    if state["class"] not in estimators.__all__:
        raise ValueError(unknown("estimator", state["class"], estimators.__all__))
    parameters = dict(state["parameters"])
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = {k: v for k, v in parameters["class_weight"]["pairs"]}
    estimator = getattr(estimators, state["class"])(**parameters | {"device": device})
    estimator._restore_targets(state)
    estimator._columns_are_steps = state["columns_are_steps"]
    estimator.n_features_in_ = state["n_features_in"]
    estimator.n_channels_ = state["n_channels"]
    if state["feature_names_in"]:
        estimator.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
    estimator.histories_ = [_restore_history(each) for each in (state, *state.get("members", ()))]
    estimator._clock = state["clock"]
    if "codes.known" in tensors:
        estimator.scaler_ = CodeBook(tensors.pop("codes.known").numpy())
    else:
        estimator.scaler_ = scaler = Scaler(state["scaling"])
        scaler.flagged = np.array(state["flagged"], dtype=bool)
        if "scaler.mean" in tensors:
            scaler.mean = tensors.pop("scaler.mean").numpy()
            scaler.std = tensors.pop("scaler.std").numpy()
    estimator.scaler_.step = state["time_step"]
    config = ModelConfig(**state["model"])
    with torch.random.fork_rng(devices=[]):  # weights are drawn, then replaced
        try:
            estimator.models_ = [TSTransformer(config).eval() for _ in estimator.histories_]
        except ValueError as error:
            raise ValueError(
                f"{error}. If the encoding {config.encoding!r} is your own, import the module that "
                "defines it, then load"
            ) from error
    for prefix, model in zip(_prefixes(estimator.models_), estimator.models_, strict=True):
        own = [name for name in tensors if name.startswith(prefix)]
        model.load_state_dict({name.removeprefix(prefix): tensors.pop(name) for name in own})
    if tensors:
        raise RuntimeError(f"there are tensors of nothing: {sorted(tensors)[:5]}")
    estimator._place(resolve_device(device))
    return estimator


def _by_name(encoding: Any) -> Any:
    """Return the name of an encoding's class, where that name would find it again."""
    named = isinstance(encoding, type) and issubclass(encoding, PositionalEncoding)
    if named and encoding.name in names() and find(encoding.name) is encoding:
        return encoding.name
    return encoding


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _refuse(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise ValueError(
        f"a parameter holds {value!r} of type {type(value).__name__}, which cannot be written as "
        "JSON. Give the encoding by a registered name, and random_state as an int"
    )
