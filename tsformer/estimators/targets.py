"""Targets: what `y` means, one class, several labels or numbers for each series.

Everything that differs between the kinds is in them: encoding, loss, probabilities, decision, the
targets of a ridge, and the words of the card.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F
from pandas.api.extensions import ExtensionDtype
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d
from torch import Tensor

from tsformer._checks import Finite, Positive, is_one_of, listed, read_fields, shortened
from tsformer._warnings import warn_caller
from tsformer.data.layout import refuse_nul
from tsformer.data.preprocessor import ROUNDING, summarise
from tsformer.model import TSTransformer

#: A class index or number per series [n], or several labels or numbers [n, K].
Targets = npt.NDArray[Any]
#: Text that stands for a missing value.
_MISSING = {"", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null"}
#: Largest size in bytes of all class labels of a saved estimator.
_MOST_LABELS = 2**26


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """The meaning of targets: learned from `y`, used by training, predictions and scores.

    Encoded targets are arrays ``[n, ...]``; outputs of models are ``[n, n_outputs]``.
    """

    #: Columns of `y` in `fit`, if it was a table of several.
    columns: tuple[str, ...] = field(default=(), kw_only=True)
    #: Whether an objective replaces the targets.
    pretext: ClassVar[bool] = False
    #: Makes a model that predicts the targets.
    make_model = staticmethod(TSTransformer)
    #: Name of the validation score, scikit-learn's of a metric, and purpose of so many outputs.
    score_name: ClassVar[str] = "score"
    metric: ClassVar[str]
    purpose: ClassVar[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the target of one series; () for a single value."""
        return ()

    @property
    def n_outputs(self) -> int:
        """The number of outputs of a model."""
        return int(np.prod(self.shape))

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


@dataclass(frozen=True, eq=False)
class Classes(Target):
    """One label of `K` classes: a softmax. Targets are class indices ``[n]``."""

    classes: npt.NDArray[Any]
    score_name: ClassVar = "accuracy"
    metric: ClassVar = "accuracy_score"
    kind: ClassVar[str] = "classes"
    purpose: ClassVar = "Predicts one of {} classes"

    @property
    def n_outputs(self) -> int:
        return len(self.classes)

    def describe(self) -> dict[str, Any]:
        return {"classes": described_labels(self.classes)}

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        labels = read_labels(y, name)
        check_length(n_series, labels, name, of=of)
        index = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        new = self.classes[index] != labels
        if np.any(new):
            raise ValueError(
                f"{name} has labels that are not in the training data: "
                f"{np.unique(labels[new]).tolist()[:10]}; "
                f"the known labels are {self.classes.tolist()[:20]}"
            )
        return index.astype(np.int64)

    def decode(self, targets: Targets) -> npt.NDArray[Any]:
        """Return the labels of targets."""
        return targets if self.shape else np.asarray(self.classes[targets])

    def strata(self, targets: Targets) -> npt.NDArray[Any]:
        return targets

    def weights(
        self, sample_weight: npt.ArrayLike | None, targets: Targets, class_weight: Any = None
    ) -> Targets | None:
        if class_weight is None:
            return super().weights(sample_weight, targets)
        if self.shape:
            raise ValueError("class_weight needs one label per series; pass sample_weight")
        weights = read_weights(sample_weight, len(targets)).copy()
        counted = weights > 0
        weights[counted] *= class_weights(class_weight, targets[counted], self.classes)
        refuse_no_weight(weights)
        return weights

    def facts(self, targets: Targets) -> dict[str, Any]:
        counts = (self.signs(torch.from_numpy(targets)) > 0).sum(dim=0).tolist()
        return {self.kind: listed(self.classes.tolist(), counts)}

    def loss(self, logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(logits, targets, reduction="none", label_smoothing=label_smoothing)

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return whether the prediction of each series is right ``[n]``."""
        return logits.argmax(dim=1) == targets

    def score(self, logits: Tensor, targets: Tensor) -> float:
        return self.correct(logits, targets).float().mean().item()

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities of logits ``[..., n, K]``."""
        return logits.softmax(dim=-1)

    def mean_logits(self, logits: Tensor, weights: Sequence[float] | None = None) -> Tensor:
        """Return logits of the weighted mean probabilities of members ``[members, n, K]``."""
        # Logarithms throughout: a probability may underflow, its logarithm does not.
        logs = logits.log_softmax(dim=-1)
        if weights is None:
            return logs.logsumexp(dim=0) - log(len(logs))
        return (logs + _logs(weights, logs)).logsumexp(dim=0)

    def decide(self, scores: npt.NDArray[Any], least: float = 0.0) -> npt.NDArray[Any]:
        """Return the predictions of logits, or of probabilities (for labels, with `least` 0.5)."""
        return self.decode(scores.argmax(axis=1))

    def decisions(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of `decision_function`; ``(n,)`` for two classes."""
        return logits[:, 1] - logits[:, 0] if len(self.classes) == 2 and not self.shape else logits

    def signs(self, targets: Tensor) -> Tensor:
        """Return the targets of a ridge ``[n, K]``: 1 for the class of a series, or -1."""
        signs = targets.new_full((len(targets), len(self.classes)), -1.0, dtype=torch.float64)
        return signs.scatter_(1, targets[:, None], 1.0)


@dataclass(frozen=True, eq=False)
class Labels(Classes):
    """`K` labels of 0 and 1: a sigmoid for each. Targets are ``[n, K]``, NaN if unknown."""

    kind: ClassVar = "labels"
    purpose: ClassVar = "Predicts each of {} labels, 0 or 1,"
    #: Whether labels may be unknown.
    unknown: bool = field(default=False, kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.classes),)

    @classmethod
    def learn(
        cls, y: Any, labels: npt.NDArray[np.float64], sample_weight: Any, *, unknown: bool
    ) -> Self:
        """Learn the number of labels; warn if they are classes."""
        weighted = read_weights(sample_weight, len(labels)) > 0
        if np.isnan(labels[weighted]).all(axis=0).any():
            raise ValueError("a column of y has no known label of positive weight")
        n_labels = labels.shape[1]
        if (labels.sum(axis=1) == 1).all():
            warn_caller(
                f"each series has exactly one label in y; if the {n_labels} columns are classes, "
                "pass np.asarray(y).argmax(axis=1)"
            )
        return cls(np.arange(n_labels), unknown=unknown, columns=columns_of(y))

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"several_labels": True}

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        self.check_columns(y, name)
        labels = read_as_fitted(y, name, self.shape, labels=True)
        if not self.unknown and np.isnan(labels).any():
            raise ValueError(
                f"Input {name} contains NaN, but this classifier needs every label of a series; "
                "TSTransformerClassifier accepts unknown labels"
            )
        check_length(n_series, labels, name, of=of)
        return labels.astype(np.float32)

    def strata(self, targets: Targets) -> npt.NDArray[Any]:
        """Return one class index per series: its rarest label, or `K` without any."""
        present = targets == 1
        rarest = np.where(present, present.sum(axis=0), len(targets) + 1).argmin(axis=1)
        return np.where(present.any(axis=1), rarest, len(self.classes))

    def loss(self, logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        known = ~targets.isnan()
        wanted = targets.nan_to_num(0.5) * (1 - label_smoothing) + label_smoothing / 2
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return losses.where(known, 0.0).sum(dim=1) / known.sum(dim=1).clamp(min=1)

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (((logits > 0) == (targets > 0.5)) | targets.isnan()).all(dim=1)

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def mean_logits(self, logits: Tensor, weights: Sequence[float] | None = None) -> Tensor:
        shift = _logs([1.0] * len(logits) if weights is None else weights, logits)
        present, absent = (
            (F.logsigmoid(signed) + shift).logsumexp(dim=0) for signed in (logits, -logits)
        )
        return present - absent

    def decide(self, scores: npt.NDArray[Any], least: float = 0.0) -> npt.NDArray[Any]:
        return (scores > least).astype(np.int64)

    def signs(self, targets: Tensor) -> Tensor:
        return 2 * targets.double() - 1


LabelTarget = Classes | Labels


@dataclass(frozen=True, eq=False)
class Numbers(Target):
    """One or several numbers, scaled to mean 0 and deviation 1: the squared error."""

    mean: Any
    std: Any
    score_name: ClassVar = "R²"
    metric: ClassVar = "r2_score"
    purpose: ClassVar = "Predicts numbers ({})"

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.mean)

    @classmethod
    def learn(cls, y: Any, sample_weight: Any) -> Self:
        """Learn the weighted mean and deviation of the training series."""
        columns = read_columns(y)
        targets = _read_numbers(y, "y", () if columns is None else columns.shape[1:])
        weights = None if sample_weight is None else read_weights(sample_weight, len(targets))
        moments = [_moments(column, weights) for column in np.atleast_2d(targets.T)]
        mean, std = np.array(moments).T if targets.ndim > 1 else moments[0]
        return cls(mean, std, columns=columns_of(y))

    def describe(self) -> dict[str, Any]:
        return {
            "target_mean": np.asarray(self.mean).tolist(),
            "target_std": np.asarray(self.std).tolist(),
        }

    @classmethod
    def restored(cls, described: Any) -> Self:
        """Return what `describe` described."""
        kinds: Any = {"target_mean": Finite | list[Finite], "target_std": Positive | list[Positive]}
        mean, std = map(np.array, read_fields(described, **kinds).values())
        if mean.shape != std.shape:
            raise ValueError("target_mean and target_std must have the same length")
        return cls(mean[()], std[()])

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        self.check_columns(y, name)
        targets = _read_numbers(y, name, self.shape)
        check_length(n_series, targets, name, of=of)
        scaled: Targets = (targets - self.mean) / self.std
        for case in np.argwhere(np.abs(scaled) > np.finfo(np.float32).max)[:1, 0]:
            raise ValueError(f"{name} of series {case} is an outlier beyond float32; remove it")
        return scaled.astype(np.float32)

    def decode(self, outputs: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return the numbers of outputs ``[..., n_outputs]``."""
        return (outputs if self.shape else outputs[..., 0]) * self.std + self.mean

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        errors = (outputs.reshape(targets.shape) - targets).square()
        return errors if errors.ndim == 1 else errors.mean(dim=1)

    def score(self, outputs: Tensor, targets: Tensor) -> float:
        residual = (outputs.reshape(targets.shape) - targets).square().sum(dim=0)
        total = (targets - targets.mean(dim=0)).square().sum(dim=0)
        # As in scikit-learn, 0 or 1 for a constant target.
        total = total.where(total > 0, residual.clamp(min=torch.finfo(total.dtype).tiny))
        return 1.0 - (residual / total).mean().item()


def columns_of(y: Any) -> tuple[str, ...]:
    """Return the names of several columns of a table of targets."""
    columns = getattr(y, "columns", ())
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
    binary = np.isin(columns, (0, 1)) | np.isnan(columns)
    return columns if binary.all() or not labels else None


def read_as_fitted(
    y: Any, name: str, shape: tuple[int, ...], *, labels: bool = False
) -> npt.NDArray[Any]:
    """Return targets that have the `shape` for each series, () for a single value."""
    if not shape or y is None:
        return read_targets(y, name)
    columns = read_columns(y, labels=labels)
    if columns is None or columns.shape[1:] != shape:
        kind = f"{'0 and 1' if labels else 'numbers'} of shape (n, {shape[0]})"
        raise ValueError(f"{name} must be {kind}, as in fit; got {shortened(y)}")
    return columns


def check_length(n_series: int, values: npt.NDArray[Any], name: str, of: str = "X") -> None:
    """Raise ValueError unless there is one value for each series in `of`."""
    if len(values) != n_series:
        raise ValueError(f"{of} has {n_series} series, but {name} has {len(values)} values")


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
    message = (
        "class_weight must be 'balanced', None, or a dict from labels of their type, such as "
        f"{classes.tolist()[:10]}, to finite weights of at least 0; got {shortened(class_weight)}"
    )
    if not isinstance(class_weight, Mapping):
        if not is_one_of(class_weight, ("balanced", None)):
            raise ValueError(message)
        return np.asarray(compute_sample_weight(class_weight, targets))
    # Unlike scikit-learn's, where "1" is 1.
    labels = classes.tolist()
    weights: list[Any] = [class_weight.get(label, 1.0) for label in labels]
    misnamed = not class_weight.keys() <= set(labels) and not class_weight.keys() >= set(labels)
    if misnamed or not all(isinstance(w, Real) and 0 <= float(w) < np.inf for w in weights):
        raise ValueError(message)
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


def read_labels(y: Any, name: str) -> npt.NDArray[Any]:
    """Read one label per series."""
    labels = read_targets(y, name)
    assert_all_finite(labels, input_name=name)
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(
            f"{error} Convert {name} to text or ints, or use TSTransformerRegressor for numbers"
        ) from error
    return labels


def _logs(weights: Sequence[float], members: Tensor) -> Tensor:
    """Return the logarithms of weights, to be added to members ``[members, n, K]``."""
    return members.new_tensor([log(weight) for weight in weights])[:, None, None]


def described_labels(labels: npt.NDArray[Any]) -> dict[str, Any]:
    """Serialise class labels for JSON; `restored_labels` is the inverse."""
    # Dates become text, and durations integers.
    plain = labels.astype({"M": np.str_, "m": np.int64}.get(labels.dtype.kind, labels.dtype))
    return {"dtype": labels.dtype.str, "values": plain.tolist()}


def restored_labels(described: Any) -> npt.NDArray[Any]:
    """Deserialise class labels."""
    labels = read_fields(described, "classes", dtype=str, values=list[Any])
    name, values = labels["dtype"], labels["values"]
    try:
        dtype = np.dtype(name)
        plain = {*map(type, values)} <= {bool, int, float, str}
        if dtype.kind not in "biufUOMm" or dtype.itemsize * len(values) > _MOST_LABELS or not plain:
            raise TypeError("not a dtype of labels")
        classes = np.array(values, dtype=dtype)
        if not values or described_labels(np.unique(classes))["values"] != values:
            raise ValueError("of another dtype, not sorted, or not distinct")
    except (TypeError, ValueError, OverflowError, SyntaxError) as error:
        raise ValueError(
            f"classes.values must be distinct, sorted labels of classes.dtype {shortened(name)}"
        ) from error
    return classes


def _read_numbers(y: Any, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Read finite numbers of the shape for each series."""
    targets = read_as_fitted(y, name, shape)
    # The numbers of dates depend on the unit of the dtype.
    if targets.dtype.kind not in "biuf" or not len(targets):
        raise ValueError(
            f"{name} must be numbers, for TSTransformerRegressor; got {len(targets)} values of "
            f"{targets.dtype}: convert text with astype(float)"
        )
    targets = targets.astype(np.float64)
    assert_all_finite(targets, input_name=name)
    return targets


def _moments(
    targets: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None
) -> tuple[float, float]:
    """Return mean and standard deviation; for constant targets, the rounding error."""
    if weights is not None:
        targets, weights = targets[weights > 0], weights[weights > 0]
    values = torch.from_numpy(targets)
    summary = summarise(values, torch.ones_like(values, dtype=torch.bool), dim=(0,))
    mean, std = summary.mean.item(), summary.std.item()
    if not np.isfinite(std):
        raise ValueError("the variance of y overflows float64; divide y by a constant")
    if summary.deviation(0.0).item() == 0:
        return mean, ROUNDING * abs(mean) or 1.0
    if weights is None or np.ptp(weights) == 0:
        return mean, std
    scaled = (targets - mean) / std
    shift = np.average(scaled, weights=weights)
    spread = np.sqrt(np.average(np.square(scaled - shift), weights=weights))
    return float(mean + std * shift), float(std * max(spread, ROUNDING))
