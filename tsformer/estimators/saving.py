"""Save fitted estimators and load them: parameters, target, preprocessor, modules and facts."""

import os
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from tsformer._checks import check_fields_of, check_known, read_fields, shortened
from tsformer._devices import resolve_device
from tsformer._precision import in_plain_torch, trainable
from tsformer._registry import Named
from tsformer._warnings import warn_caller
from tsformer.data.preprocessor import Preprocessor
from tsformer.data.table import TableSchema
from tsformer.encodings import find, names
from tsformer.estimators.novelty import Novelty
from tsformer.estimators.prediction_sets import Conformal
from tsformer.estimators.schema import Schema
from tsformer.estimators.summary import card, front_matter
from tsformer.persistence import read_folder, write_folder

#: Prefix of the tensor names of `novelty_`.
_NOVELTY = "novelty."
#: Fields that a description may have.
_OPTIONAL: dict[str, Any] = {
    "target_names": list[str],
    "training": dict[str, dict[str, bool | int | float | str | None]],
    "members": list[dict[str, Any]],
    "parts": dict[str, dict[str, Any]],
}


@in_plain_torch
def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write the fitted estimator to a folder, to be read with `tsformer.load`.

    A ``README.md`` beside the weights describes data, recipe, scores and use. The write is atomic.
    `device`, `n_threads`, `callbacks`, `checkpoint_dir` and `resume` are not saved.

    Parameters
    ----------
    path : str or path
        A new folder, or a folder written by an earlier `save`, whose model is replaced.

    Raises
    ------
    ValueError
        If `path` is anything else, its ``README.md`` was edited, or a parameter cannot be written
        as JSON. An encoding class is saved under its registered name; a factory cannot be saved.
    OSError
        If the files cannot be written. An earlier model stays in the folder.
    """
    check_is_fitted(estimator)
    write_folder(path, *fitted_state(estimator), front_matter(estimator) + card(estimator))


@in_plain_torch
def load(path: str | os.PathLike[str], *, device: str | torch.device = "auto") -> Any:
    """Load an estimator written by its `save`; an untrusted file runs no code.

    Parameters
    ----------
    path : str or path
        The folder.
    device : str or torch.device, default="auto"
        The device of the model, independent of the training.

    Returns
    -------
    fitted estimator

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no saved estimator at `path`; if a file is corrupted or of another version, or
        its encoding is not registered (import its module first).

    Examples
    --------
    >>> import tempfile
    >>> from tsformer import TSTransformerClassifier, load, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> classifier = TSTransformerClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     classifier.save(folder)
    ...     (load(folder).predict(X) == classifier.predict(X)).all()
    np.True_
    """
    resolve_device(device)  # a bad device is not a corrupt file
    state, tensors = read_folder(path)
    try:
        return restored(state, tensors, device)
    except Exception as error:
        # Invalid options of an encoding or a stem may raise any error.
        raise ValueError(f"{Path(path)} is corrupted: {error}") from error


def fitted_parts(estimator: Any) -> dict[str, Any]:
    """Return the fitted parts of an ensemble by name."""
    parts = {name: getattr(estimator, f"{name}_") for name in estimator.parts}
    return {name: fitted for name, fitted in parts.items() if fitted is not None}


def fitted_state(estimator: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what `save` writes: a description for JSON, and tensors by name."""
    optional = {
        "target_names": list(estimator.target_.columns),
        "training": dict(estimator.facts_),
        "tracked_run": getattr(estimator, "tracked_run_", None),
        "sets": hasattr(estimator, "conformal_") and estimator.conformal_.describe(),
    }
    description = {
        "class": type(estimator).__name__,
        "parameters": saved_parameters(estimator),
        **estimator.target_.describe(),
        "schema": {**vars(estimator.schema_), "names": list(estimator.schema_.names)},
        **{name: value for name, value in optional.items() if value},
        **estimator.describe_models(),
    }
    if hasattr(estimator, "table_schema_"):
        description["table"] = estimator.table_schema_.as_dict()
    if estimator.parts:
        states = {name: fitted_state(fitted) for name, fitted in fitted_parts(estimator).items()}
        description["parts"] = {name: state for name, (state, _) in states.items()}
        named = {f"{name}.": tensors for name, (_, tensors) in states.items()}
    else:
        scaler, models = estimator.preprocessor_, estimator.models_
        description |= scaler.describe()
        modules = dict(zip(_prefixes(len(models)), models, strict=True)) | {scaler.prefix: scaler}
        modules |= {_NOVELTY: estimator.novelty_} if hasattr(estimator, "novelty_") else {}
        named = {prefix: module.state_dict() for prefix, module in modules.items()}
    tensors = {prefix + n: t for prefix, state in named.items() for n, t in state.items()}
    return description, tensors


def _prefixes(n_members: int) -> list[str]:
    """Return the prefix of each member's tensor names."""
    return ["model.", *(f"members.{i}." for i in range(1, n_members))]


def restored(
    described: Any,
    tensors: dict[str, Tensor],
    device: str | torch.device,
    kind: type = BaseEstimator,
) -> Any:
    """Make an estimator of any class of a kind from a `fitted_state`."""
    name: Any = described.get("class") if isinstance(described, dict) else None
    estimators: Any = import_module("tsformer.estimators")  # by name, as estimators restore others
    check_known("class", name, estimators.__all__)
    cls = getattr(estimators, name)
    if not issubclass(cls, kind):
        raise ValueError(f"class must be a {kind.__name__}; got {name}")
    return cls.from_fitted_state(described, tensors, device)


def from_fitted_state(
    cls: Any, state: dict[str, Any], tensors: dict[str, Tensor], device: str | torch.device
) -> Any:
    """Make an estimator from a `fitted_state`."""
    optional = {name: kind for name, kind in _OPTIONAL.items() if name in state}
    fields = read_fields(state, parameters=dict[str, Any], **optional)
    estimator = cls(**restored_parameters(cls, fields["parameters"]) | {"device": device})
    estimator.schema_ = Schema.restored(state.get("schema"))
    target = estimator.restored_target(state)
    estimator.target_ = replace(target, columns=tuple(fields.get("target_names", ())))
    if isinstance(described := getattr(estimator, "class_weight", None), dict):
        estimator.class_weight = dict(described["pairs"])
    check_fields_of(estimator)
    estimator.facts_ = fields.get("training", {})
    if "table" in state:
        estimator.table_schema_ = TableSchema.from_dict(state["table"])
    if "tracked_run" in state:
        run = read_fields(state["tracked_run"], "tracked_run", run_id=str, store=str)
        if not re.fullmatch(r"[\w-]{1,64}", run["run_id"]) or "://" not in run["store"]:
            raise ValueError(
                f"tracked_run.run_id must be an id, and store a URL; got {shortened(run)}"
            )
        estimator.tracked_run_ = run
    if "sets" in state:
        estimator.conformal_ = Conformal.restored(state["sets"], len(estimator.classes_))
    if cls.parts:
        _restore_parts(estimator, state, tensors, device)
    else:
        _restore_modules(estimator, state, tensors, len(fields.get("members", [])))
        place_models(estimator, resolve_device(device))
    for name in sorted(tensors.keys() - fitted_state(estimator)[1].keys()):
        raise ValueError(f"tensor {name!r} is unknown")
    return estimator


def _restore_parts(
    estimator: Any, state: dict[str, Any], tensors: dict[str, Tensor], device: str | torch.device
) -> None:
    """Restore the parts of an ensemble."""
    parts, shared = state["parts"], ("schema", *estimator.target_.describe())
    for name, cls in estimator.parts.items():
        setattr(estimator, f"{name}_", None)
        if name not in parts:
            continue
        try:
            fitted = from_fitted_state(cls, parts[name], _under(f"{name}.", tensors), device)
            for key in shared:
                if parts[name][key] != state[key]:
                    raise ValueError(f"{key} is not the same in the ensemble")
        except ValueError as error:
            raise ValueError(f"parts.{name}: {error}") from error
        setattr(estimator, f"{name}_", fitted)
    estimator.restore_models(state, [])


def _restore_modules(
    estimator: Any, state: dict[str, Any], tensors: dict[str, Tensor], n_further: int
) -> None:
    """Restore preprocessor, novelty and models."""
    prefixes, schema = [_NOVELTY, *_prefixes(1 + n_further)], estimator.schema_
    novelty, *models = (_under(prefix, tensors) for prefix in prefixes)
    rest = {name: t for name, t in tensors.items() if not name.startswith(tuple(prefixes))}
    fitted = estimator.preprocessor_ = Preprocessor.restore(state, rest)
    for name, value, expected in (
        ("n_channels", schema.n_channels, fitted.n_channels),
        ("clock or time_step", schema.clock is not None, fitted.time_step is not None),
    ):
        if value != expected:
            raise ValueError(f"{name} is {value} in the schema, but {expected} for preprocessing")
    if novelty:
        estimator.novelty_ = Novelty(schema.n_channels, fitted.time_step)
        load_checked(estimator.novelty_, novelty)
        estimator.novelty_.check()
    estimator.restore_models(state, models)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a prefix by the rest of their names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def saved_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of the constructor for JSON."""
    parameters: dict[str, Any] = estimator.get_params(deep=False) | estimator.not_saved
    for name, value in list(parameters.items()):
        if isinstance(value, Named):
            parameters[name], parameters[f"{name}_params"] = value.saved()
    if isinstance(weights := parameters.get("class_weight"), Mapping):
        # JSON keys are strings, so pairs keep the types of the labels.
        parameters["class_weight"] = {"pairs": list(map(list, weights.items()))}
    if "encoding" in parameters:
        parameters["encoding"] = by_name(parameters["encoding"])
    for name, cls in zip(estimator.params_of_parts, estimator.parts.values(), strict=True):
        if params := parameters[name]:
            saved, default = saved_parameters(cls(**params)), saved_parameters(cls())
            parameters[name] = {k: v for k, v in saved.items() if k in params or v != default[k]}
    return parameters


def restored_parameters(
    cls: Any, described: Mapping[str, Any], of: str = "parameters"
) -> dict[str, Any]:
    """Return the constructor's arguments from `saved_parameters`; `of` names them in errors."""
    known = cls().get_params(deep=False)
    for name in described:
        check_known(f"parameter in {of}", name, known)
    parameters = {name: cls.not_saved.get(name, value) for name, value in described.items()}
    for name, part_class in zip(cls.params_of_parts, cls.parts.values(), strict=True):
        if isinstance(parameters.get(name), dict):
            parameters[name] = restored_parameters(part_class, parameters[name], f"{of}.{name}")
    return parameters


def by_name(encoding: Any) -> Any:
    """Replace a registered encoding class by its name."""
    name = getattr(encoding, "name", None)
    return name if name in names() and find(name) is encoding else encoding


@in_plain_torch
def getstate(estimator: Any) -> dict[str, Any]:
    """Return the state for pickle, with the weights on the CPU."""
    hasattr(estimator, "novelty_")  # learned now, so that no training series is pickled
    state: dict[str, Any] = BaseEstimator.__getstate__(estimator)
    if "models_" in state and estimator.device_.type != "cpu":
        state = {**state, "models_": [deepcopy(model).cpu() for model in estimator.models_]}
    return state


@in_plain_torch
def setstate(estimator: Any, state: dict[str, Any]) -> None:
    """Restore the state of a pickle, with the models on the device of the estimator."""
    BaseEstimator.__setstate__(estimator, state)
    if "models_" in state:
        place_models(estimator, estimator.device)


def place_models(estimator: Any, device: str | torch.device) -> None:
    """Move the models to `device`, or to the CPU with a warning."""
    try:
        estimator.device_ = resolve_device(device)
    except ValueError as error:
        warn_caller(f"{error}; the model was moved to the CPU")
        estimator.device_ = torch.device("cpu")
    trainable(estimator.preprocessor_)
    for model in estimator.models_:
        trainable(model).to(estimator.device_)


def load_checked(module: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Load saved tensors; raise ValueError for other names or dtypes."""
    compare_tensors(module.state_dict(), saved, shapes=False)
    module.load_state_dict(saved)


def compare_tensors(
    planned: Mapping[str, Tensor], saved: Mapping[str, Tensor], *, shapes: bool = True
) -> None:
    """Raise ValueError for the first tensor that is missing, unknown or of another kind."""
    for name in sorted(planned.keys() | saved.keys()):
        expected, actual = (
            None if tensor is None else (tensor.dtype, tuple(tensor.shape) if shapes else ())
            for tensor in (planned.get(name), saved.get(name))
        )
        if expected != actual:
            raise ValueError(f"tensor {name!r} must be {expected}, as described; got {actual}")
