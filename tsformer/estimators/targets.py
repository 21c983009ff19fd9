"""Targets, groups and weights: one value for each series."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from pandas.api.extensions import ExtensionDtype
from scipy.sparse import issparse
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, column_or_1d
from torch import Tensor

from tsformer._checks import check_known, shortened
from tsformer._warnings import warn_caller
from tsformer.data.layout import check_ids, refuse_alike, refuse_nul
from tsformer.model import TSTransformer

#: A class index or number per series [n], or several labels or numbers [n, K].
Targets = npt.NDArray[Any]
#: The index of the group of each series.
Groups = npt.NDArray[np.int64]
#: Text that stands for a missing value.
_MISSING = {"", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null"}
_INSTEAD = ", so that early_stopping can hold out none; pass X_val and y_val, or switch it off"


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """What the targets of a fit mean; learned from `y`, used by training, predictions and scores.

    Encoded targets are arrays ``[n, ...]``; outputs of models are ``[n, n_outputs]``.
    """

    #: Columns of `y` in `fit`, if it was a table of several.
    columns: tuple[str, ...] = field(default=(), kw_only=True)
    #: Whether an objective replaces the targets.
    pretext: ClassVar[bool] = False
    #: Makes a model that predicts the targets.
    make_model = staticmethod(TSTransformer)
    #: Name of the validation score.
    score_name: ClassVar[str] = "score"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the target of one series; () for a single value."""
        return ()

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """The number of outputs of a model."""

    @property
    @abstractmethod
    def purpose(self) -> str:
        """The purpose of the model, for the card."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Describe the target for JSON, without its columns."""

    @abstractmethod
    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        """Check the targets of series and encode them."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each series ``[n]``."""

    @abstractmethod
    def score(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the validation score; higher is better."""

    def strata(self, targets: Targets) -> npt.NDArray[np.int64]:
        """Return one class index per series, for stratified splits."""
        return np.zeros(len(targets), dtype=np.int64)

    def weights(
        self, sample_weight: npt.ArrayLike | None, targets: Targets, class_weight: Any = None
    ) -> Targets | None:
        """Return the weight of each series, or None if all are equal."""
        return None if sample_weight is None else read_weights(sample_weight, len(targets))

    def facts(self, targets: Targets) -> dict[str, Any]:
        """Describe the training targets for the card."""
        return {}

    def check_columns(self, y: Any, name: str = "y") -> None:
        """Raise ValueError if `y` has columns of `fit` in another order or beside others."""
        names = columns_of(y)
        if names != self.columns and not set(names).isdisjoint(self.columns):
            right = f"{name}[{list(self.columns)}]"
            raise ValueError(f"the columns of {name} are {list(names)}; pass {right}, as in fit")


def columns_of(y: Any) -> tuple[str, ...]:
    """Return the names of several columns of a table of targets."""
    arrow = not isinstance(y, pd.DataFrame) and hasattr(y, "column_names")
    columns = y.column_names if arrow else getattr(y, "columns", ())
    return tuple(map(str, columns)) if len(columns) > 1 else ()


def read_targets(y: Any, name: str) -> npt.NDArray[Any]:
    """Return targets as an array ``(n,)``, of a dtype that fits their values."""
    if y is None:
        raise ValueError(f"fit requires {name} to be passed, but the target {name} is None")
    y = _plain(y)
    refuse_nul(y, name)
    dtype: Any = getattr(y, "dtype", None)
    of_values = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    if isinstance(dtype, ExtensionDtype) and of_values.kind in "iub":
        y = y.tolist()  # scikit-learn converts nullable integers and booleans to floats
    if isinstance(y, (list, tuple)):
        # Before NumPy converts a NaN among strings to the label "nan", and 1 to "1".
        _check_values(pd.Series(y, dtype=object), name)
    try:
        column: npt.NDArray[Any] = column_or_1d(y, warn=name != "groups")
    except ValueError as error:
        raise ValueError(f"{name} must have one value per series: {error}") from error
    if column.dtype == object:  # such as a column of a mixed table
        column = pd.Series(column).infer_objects().to_numpy()
    _check_values(column, name)
    # JSON has no numbers beyond float64.
    return column.astype(np.float64) if column.dtype == np.longdouble else column


def read_columns(y: Any, *, labels: bool = False) -> npt.NDArray[np.float64] | None:
    """Return several numbers per series ``(n, columns)``, or None for other targets."""
    if isinstance(y, (list, tuple)) and not (len(y) and np.ndim(y[0])):
        return None  # one value per series
    y = y.toarray() if issparse(y) else _plain(y)
    if isinstance(y, pd.DataFrame):
        y = np.where(y.isna(), np.nan, y.astype(object))  # NaN for pandas.NA
    try:
        values = np.asarray(y)
        columns = values.astype(np.float64)
    except (TypeError, ValueError):  # rows of unlike length, or of other types
        return None
    text = values.dtype == object and any(isinstance(value, str) for value in values.flat)
    if values.ndim != 2 or values.shape[1] < 2 or text or values.dtype.kind not in "biufO":
        return None
    binary = (columns == 0) | (columns == 1) | np.isnan(columns)
    return columns if binary.all() or not labels else None


def read_as_fitted(
    y: Any, name: str, shape: tuple[int, ...], *, labels: bool = False
) -> npt.NDArray[Any]:
    """Return targets that have the `shape` for each series, () for a single value."""
    if not shape or y is None:
        return read_targets(y, name)
    columns = read_columns(y, labels=labels)
    if columns is None or columns.shape[1:] != shape:
        values = "0 and 1" if labels else "numbers"
        raise ValueError(
            f"{name} must be {values} of shape (n, {shape[0]}), as in fit; got {shortened(y)}"
        )
    return columns


def read_groups(groups: Any, X: Any, n_series: int) -> Groups:
    """Return the index of the group of each series."""
    check_ids(X, groups, "groups")
    labels = read_targets(groups, "groups")
    check_length(n_series, labels, "groups")
    names, numbers = np.unique(labels, return_inverse=True)
    refuse_alike(names, "groups")
    return numbers.astype(np.int64)


def check_length(n_series: int, given: npt.NDArray[Any], name: str, of: str = "X") -> None:
    """Raise ValueError unless there is one value for each series in `of`."""
    if len(given) != n_series:
        raise ValueError(f"{of} has {n_series} series, but {name} has {len(given)} values")


def warn_of_labels(classes: npt.NDArray[Any]) -> None:
    """Warn of a single class, and of text that may be missing."""
    if len(classes) == 1:
        warn_caller(f"all series have the label {str(classes[0])!r:.100}")
    if missing := [label for label in classes.tolist() if str(label).strip().lower() in _MISSING]:
        warn_caller(f"the labels {missing} are classes; drop series without a label")


def _plain(y: Any) -> Any:
    """Convert tensors, masked arrays, columns of Arrow, and NumPy's text of any length."""
    if isinstance(y, torch.Tensor):
        return y.detach().cpu().numpy()
    if isinstance(y, np.ndarray) and y.dtype.kind == "T":
        return y.tolist()
    if hasattr(y, "to_pylist") and not hasattr(y, "columns"):
        return y.to_pylist()
    if isinstance(y, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in y):
        y = np.ma.stack(y)
    return np.ma.filled(y.astype(object), np.nan) if isinstance(y, np.ma.MaskedArray) else y


def _check_values(values: pd.Series | npt.NDArray[Any], name: str) -> None:
    """Raise ValueError for missing values, and for text beside other values."""
    if len(missing := np.flatnonzero(pd.isna(values))):
        raise ValueError(
            f"Input {name} contains NaN: {len(missing)} of {len(values)} values are missing, at "
            f"series {missing[:10].tolist()}; drop these series"
        )
    if values.dtype == object and len({isinstance(value, str) for value in values}) > 1:
        kinds = sorted({type(value).__name__ for value in values})
        raise ValueError(f"{name} mixes values of types {', '.join(kinds)}; convert all to str")


def class_weights(
    class_weight: Mapping[Any, float] | str | None, targets: Targets, classes: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Return the class weight of each series."""
    if isinstance(class_weight, str):
        check_known("class_weight", class_weight, ["balanced"])
    elif class_weight is not None and not isinstance(class_weight, Mapping):
        raise TypeError(
            "class_weight must be a dict from labels to weights, 'balanced' or None; got "
            f"{shortened(class_weight)}"
        )
    if not isinstance(class_weight, Mapping):
        return np.asarray(compute_sample_weight(class_weight, targets))
    # Unlike scikit-learn's, where "1" is 1.
    labels = classes.tolist()
    unknown_keys = [key for key in class_weight if key not in labels]
    if unknown_keys and any(label not in class_weight for label in labels):
        raise ValueError(
            f"class_weight has keys that are not labels, {unknown_keys[:10]}; its keys must be "
            f"among {labels[:10]}, of the same type"
        )
    weights: list[Any] = [class_weight.get(label, 1.0) for label in labels]
    if not all(isinstance(w, Real) and 0 <= float(w) < np.inf for w in weights):
        raise ValueError(
            f"class_weight must have finite weights of at least 0; got {shortened(class_weight)}"
        )
    return np.array(weights, dtype=np.float64)[targets]


def read_weights(sample_weight: npt.ArrayLike | None, n_series: int) -> npt.NDArray[np.float64]:
    """Return the weight of each series, 1 without any."""
    no_values, plain = np.empty((n_series, 0)), _plain(sample_weight)
    try:
        weights: npt.NDArray[np.float64] = _check_sample_weight(
            plain, no_values, dtype=np.float64, ensure_non_negative=True
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must have one number per series: {error}") from error
    refuse_no_weight(weights)
    if weights.max() > np.finfo(np.float64).max / n_series:
        raise ValueError("the sum of sample_weight overflows float64; divide it by its maximum")
    return weights


def refuse_no_weight(weights: npt.NDArray[np.float64]) -> None:
    """Raise ValueError if all weights are zero."""
    if not weights.any():
        raise ValueError("all weights are zero; give some series a positive weight")


def hold_out(
    targets: npt.NDArray[np.int64],
    fraction: float,
    seed: int,
    groups: Groups | None = None,
) -> npt.NDArray[np.bool_]:
    """Choose a stratified part of the series for validation, never all members of a class."""
    if groups is not None:
        return _hold_out_groups(targets, fraction, seed, groups)
    rng = np.random.default_rng(seed)
    held_out = np.zeros(len(targets), dtype=bool)
    owed = 0.0  # series that earlier classes could not contribute
    for label in np.unique(targets):
        members = rng.permutation(np.flatnonzero(targets == label))
        owed += fraction * len(members)
        count = min(round(owed), len(members) - 1)
        held_out[members[:count]] = True
        owed -= count
    if not held_out.any():
        classes, counts = np.unique(targets, return_counts=True)
        if counts.max() < 2:
            raise ValueError(f"each of the {len(classes)} classes has only one member{_INSTEAD}")
        held_out[rng.choice(np.flatnonzero(targets == classes[counts.argmax()]))] = True
    return held_out


def _hold_out_groups(
    targets: npt.NDArray[np.int64], fraction: float, seed: int, groups: Groups
) -> npt.NDArray[np.bool_]:
    """Choose the fold of groups with the share nearest to `fraction`."""
    wanted = round(1 / min(fraction, 1 - fraction))
    folds = group_folds(targets, groups, wanted, seed)
    n_classes = len(np.unique(targets))
    parts = [
        part
        for part in (fold if fraction <= 0.5 else ~fold for fold in folds)
        if part.any() and len(np.unique(targets[~part])) == n_classes
    ]
    if not parts:
        raise ValueError(f"each fold of groups has all series of some class{_INSTEAD}")
    return min(parts, key=lambda part: abs(float(part.mean()) - fraction))


def group_folds(
    targets: npt.NDArray[np.int64], groups: Groups, n_folds: int, seed: int
) -> list[npt.NDArray[np.bool_]]:
    """Return the test part of each stratified fold of whole groups, at most `n_folds`."""
    # StratifiedGroupKFold of scikit-learn takes minutes for 50,000 groups.
    of_group = np.unique(groups, return_inverse=True)[1]
    of_class = np.unique(targets, return_inverse=True)[1]
    n_groups, n_classes = int(of_group.max()) + 1, int(of_class.max()) + 1
    cells = np.bincount(of_group * n_classes + of_class, minlength=n_groups * n_classes)
    counts = cells.reshape(n_groups, n_classes)
    counts = np.column_stack([counts, counts.sum(axis=1)])
    shares = counts / counts.sum(axis=0)
    order = np.random.default_rng(seed).permutation(n_groups)
    order = order[np.argsort(-np.square(shares[order]).sum(axis=1), kind="stable")]
    filled = np.zeros((min(max(n_folds, 2), n_groups), n_classes + 1))
    fold_of = np.empty(n_groups, dtype=np.int64)
    for group in order:
        fold = (filled * shares[group]).sum(axis=1).argmin()
        filled[fold] += shares[group]
        fold_of[group] = fold
    return [fold_of[of_group] == fold for fold in range(len(filled))]
