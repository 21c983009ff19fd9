"""Targets of classifiers: one of `K` classes or `K` labels of 0 and 1 for each series.

Everything that differs between the kinds is in them: encoding, loss, probabilities, decision, the
targets of a ridge, and the words of the card.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from tsformer._checks import listed, read_fields, shortened
from tsformer._warnings import warn_caller
from tsformer.estimators.targets import (
    Target,
    Targets,
    check_length,
    class_weights,
    columns_of,
    read_as_fitted,
    read_targets,
    read_weights,
    refuse_no_weight,
)

#: Largest size in bytes of all class labels of a saved estimator.
_MOST_LABELS = 2**26


@dataclass(frozen=True, eq=False)
class Classes(Target):
    """One label of `K` classes: a softmax. Targets are class indices ``[n]``."""

    classes: npt.NDArray[Any]
    score_name: ClassVar = "accuracy"

    @property
    def n_outputs(self) -> int:
        return len(self.classes)

    @property
    def purpose(self) -> str:
        return f"Predicts one of {len(self.classes)} classes"

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
        return np.asarray(self.classes[targets])

    def strata(self, targets: Targets) -> npt.NDArray[Any]:
        return targets

    def weights(
        self, sample_weight: npt.ArrayLike | None, targets: Targets, class_weight: Any = None
    ) -> Targets | None:
        if sample_weight is None and class_weight is None:
            return None
        weights = read_weights(sample_weight, len(targets)).copy()
        counted = weights > 0
        weights[counted] *= class_weights(class_weight, targets[counted], self.classes)
        refuse_no_weight(weights)
        return weights

    def facts(self, targets: Targets) -> dict[str, Any]:
        counts = np.bincount(targets, minlength=len(self.classes))
        return {"classes": listed(self.classes.tolist(), counts.tolist())}

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
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def signs(self, targets: Tensor) -> Tensor:
        """Return the targets of a ridge ``[n, K]``: 1 for the class of a series, or -1."""
        signs = targets.new_full((len(targets), len(self.classes)), -1.0, dtype=torch.float64)
        return signs.scatter_(1, targets[:, None], 1.0)


@dataclass(frozen=True, eq=False)
class Labels(Classes):
    """`K` labels of 0 and 1: a sigmoid for each. Targets are ``[n, K]``, NaN if unknown."""

    #: Whether labels may be unknown.
    unknown: bool = field(default=False, kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.classes),)

    @property
    def purpose(self) -> str:
        return f"Predicts each of {len(self.classes)} labels, 0 or 1,"

    @classmethod
    def learn(cls, y: Any, n_labels: int, sample_weight: Any, *, unknown: bool) -> Self:
        """Learn the number of labels; warn if they are classes."""
        target = cls(np.arange(n_labels), unknown=unknown, columns=columns_of(y))
        labels = target._read(y, "y")
        if np.isnan(labels[read_weights(sample_weight, len(labels)) > 0]).all(axis=0).any():
            raise ValueError("a column of y has no known label of positive weight")
        if (labels.sum(axis=1) == 1).all():
            warn_caller(
                f"each series has exactly one label in y; if the {n_labels} columns are classes, "
                "pass np.asarray(y).argmax(axis=1)"
            )
        return target

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"several_labels": True}

    def _read(self, y: Any, name: str) -> npt.NDArray[Any]:
        labels = read_as_fitted(y, name, self.shape, labels=True)
        if not self.unknown and np.isnan(labels).any():
            raise ValueError(
                f"Input {name} contains NaN, but this classifier needs every label of a series; "
                "TSTransformerClassifier accepts unknown labels"
            )
        return labels

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        self.check_columns(y, name)
        labels = self._read(y, name)
        check_length(n_series, labels, name, of=of)
        return labels.astype(np.float32)

    def decode(self, targets: Targets) -> npt.NDArray[Any]:
        return targets

    def strata(self, targets: Targets) -> npt.NDArray[Any]:
        """Return one class index per series: its rarest label, or `K` without any."""
        present = targets == 1
        rarest = np.where(present, present.sum(axis=0), len(targets) + 1).argmin(axis=1)
        return np.where(present.any(axis=1), rarest, len(self.classes))

    def weights(
        self, sample_weight: npt.ArrayLike | None, targets: Targets, class_weight: Any = None
    ) -> Targets | None:
        if class_weight is not None:
            raise ValueError("class_weight needs one label per series; pass sample_weight")
        return Target.weights(self, sample_weight, targets)

    def facts(self, targets: Targets) -> dict[str, Any]:
        return {"labels": listed(self.classes.tolist(), (targets == 1).sum(axis=0).tolist())}

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
            (F.logsigmoid(each) + shift).logsumexp(dim=0) for each in (logits, -logits)
        )
        return present - absent

    def decide(self, scores: npt.NDArray[Any], least: float = 0.0) -> npt.NDArray[Any]:
        return (scores > least).astype(np.int64)

    def decisions(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return logits

    def signs(self, targets: Tensor) -> Tensor:
        return 2 * targets.double() - 1


LabelTarget = Classes | Labels


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


def check_label(name: str, value: Any) -> None:
    """Allow a label as JSON has it."""
    if type(value) not in (bool, int, float, str):
        raise ValueError(f"{name} must be labels; got {shortened(value)}")


def restored_labels(described: Any) -> npt.NDArray[Any]:
    """Deserialise class labels."""
    labels = read_fields(described, "classes", dtype=str, values=list[Annotated[Any, check_label]])
    name, values = labels["dtype"], labels["values"]
    try:
        dtype = np.dtype(name)
        if dtype.kind not in "biufUOMm" or dtype.itemsize * len(values) > _MOST_LABELS:
            raise TypeError("not a dtype of labels")
        classes = np.array(values, dtype=dtype)
        if not values or described_labels(np.unique(classes))["values"] != values:
            raise ValueError("of another dtype, not sorted, or not distinct")
    except (TypeError, ValueError, OverflowError, SyntaxError) as error:
        raise ValueError(
            f"classes.values must be distinct, sorted labels of classes.dtype {shortened(name)}"
        ) from error
    return classes
