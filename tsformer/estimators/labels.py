"""Labels: one of `K` classes or `K` labels of 0 and 1 for each series, and the base of classifiers.

`Classes` and `Labels` have the same methods. Everything that differs between the kinds is
in them: encoding, loss, probabilities, decision, the targets of a ridge, and the words of the card.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tsformer._checks import listed
from tsformer._precision import in_plain_torch
from tsformer._warnings import warn_caller
from tsformer.data.layout import check_ids
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import Padded
from tsformer.estimators.saved import LABELS, check_fields, described_labels, restored_labels
from tsformer.estimators.series import SeriesEstimator
from tsformer.estimators.targets import (
    Target,
    Targets,
    check_length,
    class_weights,
    columns_of,
    read_as_fitted,
    read_columns,
    read_targets,
    read_weights,
    refuse_no_targets,
    refuse_no_weight,
    warn_of_labels,
)
from tsformer.explain.relevance import make_method, occlusion


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

    @classmethod
    def learn(cls, y: Any) -> Self:
        """Learn the classes from the labels of the training series."""
        classes, counts = np.unique(_read_labels(y, "y", pretrains=True), return_counts=True)
        warn_of_labels(classes, counts)
        return cls(classes)

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        """Return the class index of each label."""
        labels = _read_labels(y, name)
        check_length(n_series, labels, name, of=of)
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
        weights = read_weights(sample_weight, len(targets))
        weights = weights * class_weights(class_weight, targets, self.classes)
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
class Labels(Target):
    """`K` labels of 0 and 1: a sigmoid for each. Targets are ``[n, K]``, NaN if unknown.

    Same methods as `Classes`.
    """

    classes: npt.NDArray[np.int64]
    #: Whether labels may be unknown.
    unknown: bool = field(default=False, kw_only=True)
    score_name: ClassVar = "accuracy"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.classes),)

    @property
    def n_outputs(self) -> int:
        return len(self.classes)

    @property
    def purpose(self) -> str:
        return f"Predicts each of {len(self.classes)} labels, 0 or 1,"

    @classmethod
    def learn(cls, y: Any, n_labels: int, sample_weight: Any, *, unknown: bool) -> Self:
        """Learn the number of labels; warn if they are classes."""
        target = cls(np.arange(n_labels), unknown=unknown, columns=columns_of(y))
        labels = target._read(y, "y")
        if np.isnan(labels[read_weights(sample_weight, len(labels)) > 0]).all(axis=0).any():
            raise ValueError(
                "a column of y has no known label: all of its values are NaN, or of weight 0"
            )
        if (labels.sum(axis=1) == 1).all():
            warn_caller(
                f"each series has exactly one label in y; if the {n_labels} columns are classes, "
                "pass np.asarray(y).argmax(axis=1)"
            )
        return target

    def _read(self, y: Any, name: str) -> npt.NDArray[Any]:
        labels = read_as_fitted(y, name, self.shape, labels=True)
        if not self.unknown and np.isnan(labels).any():
            raise ValueError(
                f"Input {name} contains NaN, but this classifier needs every label of a series; "
                "TSTransformerClassifier accepts unknown labels"
            )
        return labels

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        refuse_no_targets(y, name)
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
            raise ValueError(
                f"class_weight={class_weight!r} weights classes of one label per series; of "
                "several labels, pass sample_weight"
            )
        return super().weights(sample_weight, targets)

    def facts(self, targets: Targets) -> dict[str, Any]:
        return {"labels": listed(self.classes.tolist(), (targets == 1).sum(axis=0).tolist())}

    def loss(self, logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean loss of each series over its known labels, ``[n]``."""
        known = ~targets.isnan()
        wanted = targets.nan_to_num(0.5) * (1 - label_smoothing) + label_smoothing / 2
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return losses.where(known, 0.0).mean(dim=1)

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (((logits > 0) == (targets > 0.5)) | targets.isnan()).all(dim=1)

    def score(self, logits: Tensor, targets: Tensor) -> float:
        return self.correct(logits, targets).float().mean().item()

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


LabelTarget = Classes | Labels


def learn_labels(y: Any, sample_weight: Any, *, unknown: bool = False) -> LabelTarget:
    """Learn the target of a classifier: one label per series, or several columns of 0 and 1."""
    refuse_no_targets(y, "y")
    if (columns := read_columns(y, labels=True)) is None:
        return Classes.learn(y)
    return Labels.learn(y, columns.shape[1], sample_weight, unknown=unknown)


def _read_labels(y: Any, name: str, *, pretrains: bool = False) -> npt.NDArray[Any]:
    """Read one label per series."""
    refuse_no_targets(y, name)
    use = ", or pretrain on them with TSTransformerEncoder and init_from"
    labels = read_targets(y, name, advice=use if pretrains else "")
    assert_all_finite(labels, input_name=name)
    try:
        check_classification_targets(labels)
    except ValueError as error:
        if labels.dtype == object:  # such as the intervals of pandas.cut
            raise ValueError(
                f"{name} holds labels of type {type(labels[0]).__name__}; convert them to "
                f"text, as in [str(label) for label in {name}]"
            ) from error
        raise ValueError(f"{error} To predict numbers use TSTransformerRegressor") from error
    return labels


def _logs(weights: Sequence[float], members: Tensor) -> Tensor:
    """Return the logarithms of weights, to be added to members ``[members, n, K]``."""
    return members.new_tensor([log(weight) for weight in weights])[:, None, None]


class LabelClassifier(ClassifierMixin, SeriesEstimator):
    """Base class of the classifiers; precedes `SeriesEstimator` among the bases."""

    #: One label or several per series; set by `fit`.
    target_: LabelTarget
    #: Whether `fit` accepts unknown labels among several.
    _masks_unknown: ClassVar[bool] = False
    #: Method of `explain` by default.
    _method: ClassVar[str] = "occlusion"

    # A constructor parameter, which the subclasses assign.
    class_weight: Mapping[Any, float] | str | None

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The class labels, sorted; of several labels their column numbers."""
        return self.target_.classes

    @abstractmethod
    def predict_proba(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Compute the probability of each class or label, in the order of `classes_`.

        Parameters
        ----------
        X, times : as in `fit`
            Series of any length, with the same channels; times if `fit` had times.

        Returns
        -------
        ndarray (n, n_classes) of float64
            Rows sum to 1, unless there are several labels per series.
        """

    @abstractmethod
    def _logits(self, X: Any, times: Any) -> npt.NDArray[np.floating[Any]]:
        """Return the logits of all classes, ndarray ``(n, n_classes)``."""

    @in_plain_torch
    def decision_function(self, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
        """Compute logits; for several members, the log of the mean probabilities.

        Parameters
        ----------
        X, times : as in `predict_proba`

        Returns
        -------
        ndarray (n, n_classes), or (n,) for two classes: the second logit minus the first
            ``(n, n_labels)`` for several labels.
        """
        check_is_fitted(self)
        return self.target_.decisions(self._logits(X, times))

    @in_plain_torch
    def predict(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each series.

        Parameters
        ----------
        X, times : as in `predict_proba`

        Returns
        -------
        ndarray (n,) of labels, or (n, n_labels) of 0 and 1 for several labels
        """
        series = self._source(X, times, reset=False)
        chunks = self._in_chunks(
            series, lambda chunk: self.target_.decide(self._logits(chunk, None))
        )
        return np.concatenate([predicted for _, predicted in chunks])

    @in_plain_torch
    def score(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None, *, times: Any = None
    ) -> float:
        """Compute the accuracy of `predict`; of several labels, all must be right.

        Parameters
        ----------
        X, times : as in `predict_proba`
        y : array-like (n,) or (n, n_labels)
            True labels.
        sample_weight : array-like (n,), optional
            Weight of each series.

        Returns
        -------
        float
        """
        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        self.target_.check_columns(y)
        (accuracy,) = accuracies([self.predict(X, times)], y, sample_weight, self.target_.shape)
        return accuracy

    @in_plain_torch
    def explain(
        self,
        X: Any,
        method: str | None = None,
        target: Any = None,
        baseline: Any = "mean",
        *,
        times: Any = None,
        method_params: Mapping[str, Any] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Compute the relevance of every value of series to the logit of a class.

        The logit is the model's, divided by its temperature, or the mean over several members.
        Relevance refers to the raw values: gap filling and views are differentiated. With
        ``scaling="series"``, mean and deviation of each series are constants.
        ``docs/explanations.md`` describes the limits of each method. Only
        `TSTransformerClassifier` has methods other than "occlusion". Except "attention_rollout",
        they need the extra ``explain``.

        Parameters
        ----------
        X, times : as in `predict_proba`
        method : str, optional
            By default "integrated_gradients" for a transformer, and "occlusion" otherwise.

            - "integrated_gradients": the gradient, averaged along the path from the baseline, times
              the difference from the baseline. Sums to the change of the logit from the baseline,
              up to 1 %, or .01 if the change is less than 1.
            - "occlusion": the drop of the logit when a window of a channel is replaced by the
              baseline, averaged over the windows that contain the value. It takes two predictions
              for each window's length of each channel.
            - "gradient_x_input": the gradient times the difference from the baseline.
            - "shapley_sampling": Shapley values of windows of a channel, from random orders. Sums
              to the change of the logit, up to float32 rounding.
            - "attention_rollout": the share of each token in the output, by the attention weights.
              Independent of class, channel and baseline. Sums to 1.
        target : label or array-like (n,) of labels, optional
            The explained class; by default the predicted class of each series.
        baseline : {"mean", "zero"}, number, or ndarray (C,), (C, L) or (n, C, L), default="mean"
            Reference value of each channel. "mean" is the mean of each channel over the training
            series with ``scaling="channel"``, and over the series itself otherwise; for codes, the
            mean of their embeddings. "zero" is 0; for codes, the unknown code.
        method_params : dict, optional
            Options of the method, such as ``{"n_steps": 64}`` or ``{"window": 8}``; see
            `tsformer.explain.methods`.

        Returns
        -------
        ndarray (n, channels, length) of float64
            Zero at missing values and padding; length is the maximum over the series. Positive
            values support the class, except with "attention_rollout".

        Raises
        ------
        ValueError
            For an unknown method, option, label or baseline.
        ImportError
            If the method needs captum, which is not installed.

        Examples
        --------
        >>> from tsformer import TSTransformerClassifier
        >>> X = np.random.default_rng(0).normal(size=(24, 2, 30))
        >>> y = (X[:, 0, :15].mean(axis=1) > 0).astype(int)
        >>> clf = TSTransformerClassifier(max_epochs=5, random_state=0).fit(X, y)
        >>> clf.explain(X[:3], "gradient_x_input").shape
        (3, 2, 30)
        """
        check_is_fitted(self)
        self._refuse_several("explain")
        method = self._method if method is None else method
        if method != "occlusion" == self._method:
            raise ValueError(
                f"method must be 'occlusion' for {type(self).__name__}, which has no gradients; "
                f"got {method!r}. TSTransformerClassifier has more methods"
            )
        made = make_method(method, method_params)
        series = self._read(X, times, reset=False)
        return self._relevance(series, self._explained_classes(X, series, target), made, baseline)

    def _relevance(
        self, series: Padded, target: Targets, method: Any, baseline: Any
    ) -> npt.NDArray[np.float64]:
        """Return the relevance of each value for the class of index `target`."""
        return occlusion(
            lambda occluded: self._logits(occluded, None),
            self._scaler(),
            series,
            target,
            method=method,
            baseline=baseline,
        )

    def _explained_classes(self, X: Any, series: Padded, target: Any) -> Targets:
        """Return the index of the explained class of each series."""
        if target is None:
            return self._logits(series, None).argmax(axis=1)
        check_ids(X, target, "target")
        labels = [target] * len(series) if np.ndim(target) == 0 else target
        return self.target_.encode(labels, "target", len(series))

    def _refuse_several(self, method: str) -> None:
        """Raise ValueError for a method that needs one label per series."""
        if self.target_.shape:
            raise ValueError(
                f"{method} needs one label per series, but this {type(self).__name__} was fitted "
                f"with {len(self.classes_)} labels per series; fit one classifier for each label"
            )

    def _scaler(self) -> Scaler:
        """Return the preprocessor, for the means of the baseline."""
        raise NotImplementedError

    def _learn_target(self, y: Any, sample_weight: Any) -> LabelTarget:
        return learn_labels(y, sample_weight, unknown=self._masks_unknown)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_label = True
        return tags

    def _describe_targets(self) -> dict[str, Any]:
        several = {"several_labels": True} if self.target_.shape else {}
        return {"classes": described_labels(self.classes_), **several}

    def _restore_targets(self, described: dict[str, Any]) -> None:
        classes = restored_labels(described.get("classes"))
        several = described.get("several_labels", False)
        check_fields({"several_labels": several}, LABELS)
        if several and classes.tolist() != list(range(max(len(classes), 2))):
            raise ValueError("classes of several labels must be their column numbers")
        self.target_ = Labels(classes, unknown=self._masks_unknown) if several else Classes(classes)


def accuracies(
    predictions: Iterable[npt.NDArray[Any]],
    y: Any,
    sample_weight: npt.ArrayLike | None,
    shape: tuple[int, ...] = (),
) -> list[float]:
    """Return the accuracy of each prediction of the same labels."""
    from sklearn.metrics import accuracy_score  # here, as in scikit-learn: importing it is slow

    labels = read_as_fitted(y, "y", shape, labels=True)
    assert_all_finite(labels, input_name="y")
    weights = None if sample_weight is None else read_weights(sample_weight, len(labels))
    scores = []
    for predicted in predictions:
        check_length(len(predicted), labels, "y")
        scores.append(float(accuracy_score(labels, predicted, sample_weight=weights)))
    return scores
