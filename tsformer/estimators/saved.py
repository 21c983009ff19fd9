"""Validate untrusted saved estimators.

Each part of a description is a dataclass, whose fields are checked by their types and by the checks
of the constructors. Names and shapes of tensors are compared with a module on the meta device:
a few bytes must not allocate gigabytes.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from math import inf
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from tsformer._checks import Check, check_known, one_of, real, shortened, whole
from tsformer.data.preprocessor import SCALINGS

#: Largest size in bytes of buffers that are not saved, such as the noise of an encoding.
_MOST_UNSAVED = 2**26
#: Largest size in bytes of all class labels.
_MOST_LABELS = 2**26

_Described = TypeVar("_Described")
_Finite = Annotated[float, real(-inf)]
_Positive = Annotated[float, real(0)]


def _matching(pattern: str) -> Check:
    def check(name: str, value: Any) -> None:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{name} must match {pattern}; got {shortened(value)}")

    return check


def _one_or_several(check: Check) -> Check:
    """Check one number, or each of two or more."""

    def check_each(name: str, value: Any) -> None:
        if isinstance(value, list) and len(value) < 2:
            raise ValueError(f"{name} must be a number, or two or more; got {shortened(value)}")
        for each in value if isinstance(value, list) else [value]:
            check(name, each)

    return check_each


def _label(name: str, value: Any) -> None:
    if type(value) not in (bool, int, float, str):
        raise ValueError(f"{name} must be labels; got {shortened(value)}")


_Label = Annotated[Any, _label]


def _epochs(name: str, rows: Any) -> None:
    for row in rows:
        if not {"epoch", "seconds"} <= set(row):
            raise ValueError(f"{name} must have epoch and seconds; got {shortened(row)}")


@dataclass
class Description:
    """Fields of every estimator."""

    parameters: dict[str, Any]
    schema: dict[str, Any]
    target_names: list[str] = field(default_factory=list)
    #: Facts of the fit, for the card and the summary.
    training: dict[str, dict[str, bool | int | float | str | None]] = field(default_factory=dict)
    members: list[dict[str, Any]] = field(default_factory=list)
    #: Temperatures of the members of a classifier.
    temperatures: list[_Positive] = field(default_factory=list)
    #: Sizes of random convolutions.
    convolutions: dict[str, Annotated[int, whole(0)]] = field(default_factory=dict)


@dataclass
class TrackedRun:
    """The MLflow run of the fit."""

    run_id: Annotated[str, _matching(r"[\w-]{1,64}")]
    store: Annotated[str, _matching(r"(?s).*://.*")]


@dataclass
class Vocabulary:
    """Fields of every preprocessor."""

    scaling: Annotated[str | None, one_of(*SCALINGS)]
    flagged: list[bool]
    time_step: Annotated[float | None, real(0, also=(None,))]


@dataclass
class Scaler(Vocabulary):
    """Fields of a scaler."""

    gap_flag: Annotated[float | None, real(-inf, also=(None,))]
    views: str
    view_params: dict[str, Any]


@dataclass
class Member:
    """Fields of a model and its training."""

    model: dict[str, Any]
    history: Annotated[list[dict[str, float]], _epochs]
    best_epoch: Annotated[int | None, whole(0, None)]
    interrupted: bool


@dataclass
class Ensemble:
    """Facts of an ensemble."""

    weights: dict[str, _Positive]
    seconds: dict[str, _Finite]
    unexplained: _Finite
    parts: dict[str, dict[str, Any]]


@dataclass
class Moments:
    """Mean and deviation of one or several targets."""

    target_mean: Annotated[float | list[float], _one_or_several(real(-inf))]
    target_std: Annotated[float | list[float], _one_or_several(real(0))]


@dataclass
class Registered:
    """Name and options of a registered class."""

    name: str
    params: dict[str, Any]


@dataclass
class Sets:
    """Scores of prediction sets."""

    scores: list[list[Annotated[float, real(0, 1, also=(0, 1))]]]
    mixture: list[_Positive]


@dataclass
class _Labels:
    dtype: str
    values: list[_Label]


@dataclass
class _Weights:
    pairs: list[list[_Label]]


def read(kind: type[_Described], described: Any, of: str = "") -> _Described:
    """Check a description, and return the fields of a dataclass; `of` names a part in errors.

    A part has exactly these fields, a whole description also others.
    """
    if not isinstance(described, dict):
        raise ValueError(f"{of or 'the description'} must be an object; got {shortened(described)}")
    types, wanted, prefix = get_type_hints(kind, include_extras=True), {}, f"{of}." if of else ""
    for each in fields(kind):  # type: ignore[arg-type]
        if each.name in described:
            check_type(f"{prefix}{each.name}", described[each.name], types[each.name])
            wanted[each.name] = described[each.name]
        elif of or (each.default is MISSING and each.default_factory is MISSING):
            raise ValueError(f"{prefix}{each.name} is missing")
    for name in described if of else ():
        check_known(f"field of {of}", name, types)
    return kind(**wanted)


def check_type(name: str, value: Any, kind: Any) -> None:
    """Raise ValueError or TypeError for a value of JSON that is not of an annotated type."""
    if hasattr(kind, "__metadata__"):
        check_type(name, value, kind.__origin__)
        for check in kind.__metadata__:
            check(name, value)
        return
    arms = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    outer = {get_origin(arm) or arm: arm for arm in arms}
    arm = next((arm for each, arm in outer.items() if _is_of(value, each)), None)
    if arm is None:
        names = " or ".join(getattr(each, "__name__", str(each)) for each in outer)
        raise ValueError(f"{name} must be {names}; got {shortened(value)}")
    if types := get_args(arm):
        for each in value.values() if isinstance(value, dict) else value:
            check_type(name, each, types[1] if isinstance(value, dict) else types[0])


def _is_of(value: Any, kind: Any) -> bool:
    if kind is float and type(value) is int:
        return abs(value) <= 2**53
    if kind is int and type(value) is int:
        return abs(value) < 2**31
    return kind is Any or type(value) is (list if kind is tuple else kind)


def described_labels(labels: npt.NDArray[Any]) -> dict[str, Any]:
    """Serialise class labels for JSON; `restored_labels` is the inverse."""
    # Dates become text, and durations integers.
    plain = labels.astype({"M": np.str_, "m": np.int64}.get(labels.dtype.kind, labels.dtype))
    return {"dtype": labels.dtype.str, "values": plain.tolist()}


def described_weights(weights: Mapping[Any, float], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Serialise class weights for JSON."""
    # JSON keys are strings, so pairs keep the types of the labels.
    labels: list[Any] = list(weights)
    if dtype.kind in "Mm":
        labels = described_labels(np.array(labels, dtype=dtype))["values"]
    return {"pairs": [list(pair) for pair in zip(labels, weights.values(), strict=True)]}


def restored_weights(described: Any, dtype: np.dtype[Any]) -> dict[Any, float]:
    """Deserialise class weights."""
    pairs = read(_Weights, described, "parameters.class_weight").pairs
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"parameters.class_weight.pairs must be pairs; got {shortened(pair)}")
        check_type("parameters.class_weight.pairs", pair[1], int | float)
    labels: list[Any] = [label for label, _ in pairs]
    if dtype.kind in "Mm":
        labels = np.array(labels, dtype=dtype).tolist()
    return dict(zip(labels, (weight for _, weight in pairs), strict=True))


def restored_labels(described: Any) -> npt.NDArray[Any]:
    """Deserialise class labels."""
    labels = read(_Labels, described, "classes")
    try:
        dtype = np.dtype(labels.dtype)
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype("V1")
    if dtype.kind not in "biufUOMm" or dtype.itemsize * len(labels.values) > _MOST_LABELS:
        raise ValueError(f"classes.dtype must be a dtype of labels; got {shortened(labels.dtype)}")
    try:
        classes = np.array(labels.values, dtype=dtype)
        ordered = len(classes) > 0 and bool(np.all(classes[1:] > classes[:-1]))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"classes.values are not of dtype {dtype}: {error}") from error
    if not ordered or described_labels(classes)["values"] != labels.values:
        raise ValueError(f"classes.values must be distinct labels of dtype {dtype}, sorted")
    return classes


def check_model(make: Callable[[], nn.Module], saved: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless a module, made on the meta device, has the saved tensors."""
    with torch.device("meta"), _at_most(len(saved)):
        planned = make()
    _compare(planned.state_dict(), saved)
    stored = set(map(id, planned.state_dict(keep_vars=True).values()))
    n_bytes = sum(each.nbytes for each in planned.buffers() if id(each) not in stored)
    if n_bytes > _MOST_UNSAVED:
        raise ValueError(
            f"the model would allocate {n_bytes:,} bytes of tables that are not in the file, more "
            f"than {_MOST_UNSAVED:,}"
        )


def load_checked(module: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Load saved tensors; raise ValueError for other names or dtypes."""
    _compare(module.state_dict(), saved, shapes=False)
    module.load_state_dict(saved)


def _compare(
    planned: Mapping[str, Tensor], saved: Mapping[str, Tensor], *, shapes: bool = True
) -> None:
    """Raise ValueError for the first tensor that is missing, unknown or of another kind."""
    for name in sorted(planned.keys() ^ saved.keys()):
        raise ValueError(f"tensor {name!r} is {'unknown' if name in saved else 'missing'}")
    for name, tensor in planned.items():
        if saved[name].dtype != tensor.dtype or (shapes and saved[name].shape != tensor.shape):
            expected = f"{tuple(tensor.shape)} of " if shapes else ""
            raise ValueError(
                f"tensor {name!r} must be {expected}{tensor.dtype}, as described; got "
                f"{tuple(saved[name].shape)} of {saved[name].dtype}"
            )


@contextmanager
def _at_most(n_parameters: int) -> Iterator[None]:
    """Raise ValueError if this thread makes modules with more parameters."""
    thread, made = threading.get_ident(), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal made
        made += threading.get_ident() == thread and parameter is not None
        if made > n_parameters:
            raise ValueError(
                f"the described model has more than the {n_parameters} tensors in the file"
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()
