"""Kinds of labels: one label of `K` classes, or `K` labels of 0 and 1, for each series.

The two classes have the same methods. Everything that differs between the kinds is in them:
encoding, loss, probabilities, decision, the targets of a ridge, and the words of the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, eq=False)
class OneLabel:
    """One label of `K` classes: a softmax. Targets are class indices ``[n]``, -1 if unknown."""

    classes: npt.NDArray[Any]
    noun: ClassVar = "classes"
    purpose: ClassVar = "Predicts one of {} classes"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the prediction for one series."""
        return ()

    def encode(self, labels: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        """Return the targets of labels ``(n,)``."""
        position = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        index = position.astype(np.int64)
        new = self.classes[index] != labels
        if np.any(new):
            raise ValueError(
                f"{name} has labels that are not in the training data: "
                f"{np.unique(labels[new]).tolist()[:10]}; "
                f"the known labels are {self.classes.tolist()[:20]}"
            )
        return index

    def decode(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the labels of targets."""
        return np.asarray(self.classes[targets])

    def known(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return whether each series has a known label."""
        return np.asarray(targets >= 0)

    def strata(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return one class index per series, for stratified splits."""
        return targets

    def counts(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Count the series of each class or label."""
        return np.bincount(targets, minlength=len(self.classes))

    def loss(self, logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """Return the loss of each series ``[n]``."""
        return F.cross_entropy(logits, targets, reduction="none", label_smoothing=label_smoothing)

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return whether the prediction of each series is right ``[n]``."""
        return logits.argmax(dim=1) == targets

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
        """Return the predicted labels of logits or probabilities."""
        return self.decode(scores.argmax(axis=1))

    def decisions(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of `decision_function`; ``(n,)`` for two classes."""
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def signs(self, targets: Tensor) -> Tensor:
        """Return the targets of a ridge ``[n, K]``: 1 for the class of a series, or -1."""
        signs = targets.new_full((len(targets), len(self.classes)), -1.0, dtype=torch.float64)
        return signs.scatter_(1, targets[:, None], 1.0)

    def questions(self, scores: Tensor) -> list[Tensor]:
        """Return the scores ``[n, C]`` of each softmax that is calibrated."""
        return [scores]


@dataclass(frozen=True, eq=False)
class SeveralLabels:
    """`K` labels of 0 and 1: a sigmoid for each. Targets are ``[n, K]``, NaN if unknown.

    Same methods as `OneLabel`.
    """

    classes: npt.NDArray[np.int64]
    noun: ClassVar = "labels"
    purpose: ClassVar = "Predicts each of {} labels, 0 or 1,"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.classes),)

    def encode(self, labels: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        return labels.astype(np.float32)

    def decode(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return targets

    def known(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return np.asarray(~np.isnan(targets).all(axis=1))

    def strata(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return one class index per series: its rarest label, or `K` without any."""
        present = targets == 1
        rarest = np.where(present, self.counts(targets), len(targets) + 1).argmin(axis=1)
        return np.where(present.any(axis=1), rarest, len(self.classes))

    def counts(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        return np.asarray((targets == 1).sum(axis=0))

    def loss(self, logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """Return the mean loss of the labels of each series ``[n]``; unknown labels have none."""
        known = ~targets.isnan()
        wanted = targets.nan_to_num(0.5) * (1 - label_smoothing) + label_smoothing / 2
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return losses.where(known, 0.0).mean(dim=1)

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
        """Return the predicted labels of logits, or with `least` 0.5 of probabilities."""
        return (scores > least).astype(np.int64)

    def decisions(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return logits

    def signs(self, targets: Tensor) -> Tensor:
        return 2 * targets.double() - 1

    def questions(self, scores: Tensor) -> list[Tensor]:
        """Return the scores ``[n, 2]`` of 0 and 1 for each label: its sigmoid as a softmax."""
        return [torch.stack([torch.zeros_like(each), each], dim=1) for each in scores.T]


LabelKind = OneLabel | SeveralLabels


def _logs(weights: Sequence[float], members: Tensor) -> Tensor:
    """Return the logarithms of weights, to be added to members ``[members, n, K]``."""
    return members.new_tensor([log(weight) for weight in weights])[:, None, None]
