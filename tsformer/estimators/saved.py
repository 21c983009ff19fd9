"""Validate untrusted saved estimators.

The description is checked field by field, and the shapes of tensors before their allocation: a few
bytes must not allocate gigabytes.
"""

import math
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from tsformer._checks import check_known, shortened
from tsformer.data.preprocessor import SCALINGS
from tsformer.model.layers import HEAD_NORMS
from tsformer.model.stems import STEMS
from tsformer.model.transformer import POOLINGS

#: A check of a value, and a description of the allowed values.
Field = tuple[Callable[[Any], bool], str]

#: Largest size in bytes of buffers that are not saved, such as the noise of an encoding.
_MOST_UNSAVED = 2**26
#: Largest size in bytes of all class labels.
_MOST_LABELS = 2**26
_OF_RULES = {"threshold", "n_agreeing", "accuracy", "earliness", "harmonic_mean"}


def _whole(low: int) -> Field:
    return lambda v: type(v) is int and low <= v < 2**31, f"an int >= {low}"


def _number(v: Any) -> bool:
    return type(v) in (int, float)


def _is_label(v: Any) -> bool:
    return type(v) in (bool, int, float, str)


def _is_plain(v: Any) -> bool:
    return isinstance(v, dict) and all(each is None or _is_label(each) for each in v.values())


def _finite(low: float = -math.inf) -> Field:
    above = "" if low == -math.inf else f" > {low:g}"

    def allowed(v: Any) -> bool:
        return (
            _number(v) and low < v and abs(v) <= (sys.float_info.max if type(v) is float else 2**53)
        )

    return allowed, f"a finite number{above}"


def _choice(*choices: Any) -> Field:
    def allowed(value: Any) -> bool:
        return any(
            value is choice or (isinstance(value, str) and value == choice) for choice in choices
        )

    return allowed, f"one of {', '.join(map(repr, choices))}"


def _or_none(field: Field) -> Field:
    return lambda v: v is None or field[0](v), f"{field[1]}, or null"


def _list_of(of: Callable[[Any], bool], what: str) -> Field:
    return lambda v: isinstance(v, list) and all(map(of, v)), f"a list of {what}"


def _one_or_several(field: Field) -> Field:
    def allowed(v: Any) -> bool:
        return all(map(field[0], v)) and len(v) > 1 if isinstance(v, list) else field[0](v)

    return allowed, field[1]


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and {"epoch", "seconds"} <= set(row)
        and all(map(_number, row.values()))
    )


def _is_table(columns: list[Any]) -> bool:
    numbers = all(isinstance(each, list) and all(map(_finite()[0], each)) for each in columns)
    return numbers and len(columns[0]) > 0 and len(set(map(len, columns))) == 1


_BOOLEAN: Field = (lambda v: isinstance(v, bool), "true or false")
_MAPPING: Field = (lambda v: isinstance(v, dict), "an object")
_TEXT: Field = (lambda v: isinstance(v, str), "a string")

#: Fields of every estimator.
ESTIMATOR: dict[str, Field] = {
    "parameters": _MAPPING,
    "schema": _MAPPING,
}
SCHEMA: dict[str, Field] = {
    "n_channels": _whole(1),
    "clock": _choice(None, "numbers", "dates"),
    "names": _list_of(lambda v: isinstance(v, str), "strings"),
    "n_columns": _or_none(_whole(1)),
}
TARGET_NAMES: dict[str, Field] = {
    "target_names": _list_of(lambda v: isinstance(v, str), "strings"),
}
#: Fields of the MLflow run of the fit.
TRACKED_RUN: dict[str, Field] = {
    "run_id": (
        lambda v: isinstance(v, str) and bool(re.fullmatch(r"[\w-]{1,64}", v)),
        "letters and digits, at most 64",
    ),
    "store": (lambda v: isinstance(v, str) and "://" in v, "an address"),
}
TEMPERATURES: dict[str, Field] = {
    "temperatures": _list_of(_finite(0)[0], "finite numbers > 0"),
}
#: Scores of prediction sets.
SETS: dict[str, Field] = {
    "scores": _list_of(
        lambda v: isinstance(v, list) and all(_number(p) and 0 <= p <= 1 for p in v),
        "lists of numbers from 0 to 1",
    ),
    "mixture": _list_of(_finite(0)[0], "finite numbers > 0"),
}
#: The rule of early answers.
EARLY: dict[str, Field] = {
    "parameters": _MAPPING,
    "steps": (
        lambda v: isinstance(v, list) and all(map(_whole(1)[0], v)) and v == sorted({*v, 0})[1:],
        "a list of increasing ints >= 1",
    ),
    "threshold": _finite(),
    "n_agreeing": _whole(1),
    "trade_offs": (
        lambda v: isinstance(v, dict) and set(v) == _OF_RULES and _is_table(list(v.values())),
        f"an object of equally long lists of numbers: {', '.join(sorted(_OF_RULES))}",
    ),
}
LABELS: dict[str, Field] = {"several_labels": _BOOLEAN}
REGRESSION = {
    "target_mean": _one_or_several(_finite()),
    "target_std": _one_or_several(_finite(0)),
}
PRETEXT: dict[str, Field] = {"name": _TEXT, "params": _MAPPING}
#: Fields of preprocessors.
PREPROCESSOR: dict[str, Field] = {
    "scaling": _choice(*SCALINGS),
    "flagged": _list_of(lambda v: isinstance(v, bool), "true or false"),
    "time_step": _or_none(_finite(0)),
}
SCALER: dict[str, Field] = {
    "gap_flag": _or_none(_finite()),
    "views": _TEXT,
    "view_params": (
        lambda v: (
            isinstance(v, dict) and set(v) <= {"scale"} and all(map(_finite(0)[0], v.values()))
        ),
        "an object that may have a scale > 0",
    ),
}
#: Fields of the ensemble.
ENSEMBLE: dict[str, Field] = {
    "weights": (
        lambda v: isinstance(v, dict) and all(map(_finite(0)[0], v.values())),
        "an object of numbers > 0",
    ),
    "seconds": (
        lambda v: isinstance(v, dict) and all(map(_finite()[0], v.values())),
        "an object of numbers",
    ),
    "unexplained": _finite(),
    "parts": _MAPPING,
}
#: Fields of a model and its training.
MODEL: dict[str, Field] = {
    "encoding": _TEXT,
    "encoding_params": _MAPPING,
    "d_model": _whole(1),
    "n_heads": _whole(1),
    "n_layers": _whole(0),
    "d_ff": _or_none(_whole(1)),
    "dropout": (lambda v: _number(v) and 0 <= v < 1, "a number >= 0 and < 1"),
    "norm_first": _BOOLEAN,
    "n_channels": _whole(1),
    "n_outputs": _whole(1),
    "max_len": _whole(1),
    "stem": _choice(*STEMS),
    "stem_params": _MAPPING,
    "pooling": _choice(*POOLINGS),
    "head_norm": _choice(*HEAD_NORMS, None),
}
HISTORY: dict[str, Field] = {
    "history": _list_of(_is_row, "objects of numbers with epoch and seconds"),
    "best_epoch": _or_none(_whole(0)),
    "interrupted": _BOOLEAN,
}
MEMBERS: dict[str, Field] = {"members": _list_of(lambda v: isinstance(v, dict), "objects")}
#: Facts of the fit, for the card and the summary.
TRAINING: dict[str, Field] = {
    "training": (
        lambda v: isinstance(v, dict) and all(map(_is_plain, v.values())),
        "an object of objects of plain values",
    ),
}
CONVOLUTIONS: dict[str, Field] = {"n_features": _whole(0), "n_groups": _whole(0)}


def check_fields(described: Any, fields: Mapping[str, Field], *, of: str = "") -> None:
    """Raise ValueError for the first missing or invalid field."""
    prefix = f"{of}." if of else ""
    if not isinstance(described, dict):
        raise ValueError(f"{of or 'the description'} must be an object; got {shortened(described)}")
    for name, (allowed, what) in fields.items():
        if name not in described:
            raise ValueError(f"{prefix}{name} is missing")
        if not allowed(described[name]):
            raise ValueError(f"{prefix}{name} must be {what}; got {shortened(described[name])}")


def restored_parameters(
    described: Mapping[str, Any], known: Collection[str], fixed: Mapping[str, Any], of: str
) -> dict[str, Any]:
    """Return the constructor's arguments from a description."""
    for name in described:
        check_known(f"parameter in {of}", name, known)
    return {**described, **{name: value for name, value in fixed.items() if name in described}}


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
    pairs = _list_of(
        lambda v: isinstance(v, list) and len(v) == 2 and _is_label(v[0]) and _number(v[1]),
        "pairs of a label and a number",
    )
    check_fields(described, {"pairs": pairs}, of="parameters.class_weight")
    labels = [label for label, _ in described["pairs"]]
    if dtype.kind in "Mm":
        labels = np.array(labels, dtype=dtype).tolist()
    return dict(zip(labels, (weight for _, weight in described["pairs"]), strict=True))


def restored_labels(described: Any) -> npt.NDArray[Any]:
    """Deserialise class labels."""
    fields = {"dtype": _TEXT, "values": _list_of(_is_label, "labels")}
    check_fields(described, fields, of="classes")
    values = described["values"]
    try:
        dtype = np.dtype(described["dtype"])
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError(
            f"classes.dtype must be a NumPy dtype; got {shortened(described['dtype'])}"
        ) from error
    if dtype.kind not in "biufUOMm" or dtype.itemsize * len(values) > _MOST_LABELS:
        raise ValueError(
            f"classes.dtype must be a dtype of labels; got {shortened(described['dtype'])}"
        )
    try:
        labels = np.array(values, dtype=dtype)
        ordered = len(labels) > 0 and bool(np.all(labels[1:] > labels[:-1]))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"classes.values are not of dtype {dtype}: {error}") from error
    if not ordered or described_labels(labels)["values"] != values:
        raise ValueError(f"classes.values must be distinct labels of dtype {dtype}, sorted")
    return labels


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
    own: Mapping[str, Tensor], saved: Mapping[str, Tensor], *, shapes: bool = True
) -> None:
    missing, unexpected = sorted(own.keys() - saved.keys()), sorted(saved.keys() - own.keys())
    if missing or unexpected:
        raise ValueError(
            "the tensors do not fit the description: "
            + "; ".join(
                f"{len(names)} {how}, such as {names[0]!r}"
                for how, names in (("missing", missing), ("unknown", unexpected))
                if names
            )
        )
    for name, tensor in own.items():
        theirs = saved[name]
        if theirs.dtype != tensor.dtype or (shapes and theirs.shape != tensor.shape):
            expected = f"{tuple(tensor.shape)} of {tensor.dtype}" if shapes else str(tensor.dtype)
            raise ValueError(
                f"tensor {name!r} must be {expected}, as described; got {tuple(theirs.shape)} of "
                f"{theirs.dtype}"
            )


@contextmanager
def _at_most(n_parameters: int) -> Iterator[None]:
    """Raise ValueError if this thread makes modules with more parameters."""
    thread, made = threading.get_ident(), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal made
        if threading.get_ident() != thread or parameter is None:
            return
        made += 1
        if made > n_parameters:
            raise ValueError(
                f"the described model has more than the {n_parameters} tensors in the file"
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()
