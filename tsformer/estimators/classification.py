"""Predictions, scores, explanations and prediction sets: the methods of all classifiers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted

from tsformer._checks import check_number, check_type
from tsformer._precision import in_plain_torch
from tsformer._random import imported
from tsformer.data.layout import check_ids
from tsformer.estimators.prediction_sets import Conformal
from tsformer.estimators.targets import (
    Classes,
    Labels,
    LabelTarget,
    check_length,
    read_as_fitted,
    read_columns,
    read_labels,
    read_weights,
    restored_labels,
    warn_of_labels,
)
from tsformer.explain.explainers import make_method, occlusion, relevance


def classes(self: Any) -> npt.NDArray[Any]:
    """Return the class labels, sorted; of several labels their column numbers."""
    labels: npt.NDArray[Any] = self.target_.classes
    return labels


@in_plain_torch
def decision_function(self: Any, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
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
    return self.target_.decisions(self.logits(X, times))


@in_plain_torch
def predict(self: Any, X: Any, times: Any = None) -> npt.NDArray[Any]:
    """Predict the class or the labels of each series.

    Parameters
    ----------
    X, times : as in `predict_proba`

    Returns
    -------
    ndarray (n,) of labels, or (n, n_labels) of 0 and 1 for several labels
    """
    series = self._source(X, times)
    chunks = self._in_chunks(series, lambda chunk: self.target_.decide(self.logits(chunk, None)))
    return np.concatenate([predicted for _, predicted in chunks])


@in_plain_torch
def score(
    self: Any, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None, *, times: Any = None
) -> float:
    """Compute the accuracy of `predict`, or R² of a regressor.

    Of several labels all must be right; of several numbers, R² is the mean.

    Parameters
    ----------
    X, y, sample_weight, times : as in `fit`

    Returns
    -------
    float
    """
    check_is_fitted(self)
    target = self.target_
    check_ids(X, y, "y")
    check_ids(X, sample_weight, "sample_weight")
    target.check_columns(y)
    predicted = self.predict(X, times)
    targets = read_as_fitted(y, "y", target.shape, labels=hasattr(target, "classes"))
    assert_all_finite(targets, input_name="y")
    check_length(len(predicted), targets, "y")
    weights = None if sample_weight is None else read_weights(sample_weight, len(targets))
    metric = getattr(imported("sklearn.metrics"), target.metric)  # importing it is slow
    return float(metric(targets, predicted, sample_weight=weights))


@in_plain_torch
def explain(
    self: Any,
    X: Any,
    method: str | None = None,
    target: Any = None,
    baseline: Any = "mean",
    *,
    times: Any = None,
    method_params: Mapping[str, Any] | None = None,
) -> npt.NDArray[np.float64]:
    """Compute the relevance of every value of series to the logit of a class.

    The logit is divided by its temperature, or the mean over several members. Relevance refers to
    the raw values; ``docs/explanations.md`` describes the limits.

    Parameters
    ----------
    X, times : as in `predict_proba`
    method : str, optional
        "integrated_gradients" (default of a transformer), "occlusion" (the only method of other
        classifiers), "gradient_x_input", "shapley_sampling" or "attention_rollout"; see
        `tsformer.explain.explainers`. All but the last need the extra ``explain``.
    target : label or array-like (n,) of labels, optional
        The explained class; by default the predicted class of each series.
    baseline : {"mean", "zero"}, number, or ndarray (C,), (C, L) or (n, C, L), default="mean"
        Reference value of each channel. "mean" is over the training series with
        ``scaling="channel"``, else over the series itself; of codes, the mean embedding, and "zero"
        the unknown code.
    method_params : dict, optional
        Options of the method, such as ``{"n_steps": 64}``.

    Returns
    -------
    ndarray (n, channels, length) of float64
        Zero at missing values. Positive values support the class, except with "attention_rollout".

    Raises
    ------
    ValueError, ImportError
        For an unknown method, option, label or baseline; or if captum is not installed.

    Examples
    --------
    >>> from tsformer import TSTransformerClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(24, 2, 30)), [0, 1] * 12
    >>> clf = TSTransformerClassifier(max_epochs=5, random_state=0).fit(X, y)
    >>> clf.explain(X[:3], "gradient_x_input").shape
    (3, 2, 30)
    """
    refuse_several(self, "explain")
    method = self.default_method if method is None else method
    if method != "occlusion" == self.default_method:
        raise ValueError(f"method must be 'occlusion' for {type(self).__name__}; got {method!r}")
    options = {"method": make_method(method, method_params), "baseline": baseline}
    series = self.read_series(X, times)
    if target is None:
        classes = self.logits(series, None).argmax(axis=1)
    else:
        check_ids(X, target, "target")
        labels = [target] * len(series) if np.ndim(target) == 0 else target
        classes = self.target_.encode(labels, "target", len(series))
    if self.default_method == "occlusion":
        scaler = getattr(self, "random_convolutions_", self).preprocessor_
        return occlusion(lambda chunk: self.logits(chunk, None), scaler, series, classes, **options)
    options["temperatures"] = self.temperatures_
    return relevance(self.models_, self.preprocessor_, series, classes, **options)


@in_plain_torch
def calibrate_sets(
    self: Any, X: Any = None, y: Any = None, *, by_class: bool = False, times: Any = None
) -> Any:
    """Calibrate `predict_set` with series that the model was not trained on.

    The attribute `conformal_` keeps the score ``1 - p`` of each calibration series, with the
    probability `p` of its true class [1]_. Scores are saved with the model; `fit` discards them.

    Parameters
    ----------
    X, y, times : as in `fit`, optional
        Held-out series, neither trained on nor passed to `calibrate`, and of other groups if new
        series come from new groups. Without them, random convolutions use their leave-one-out
        predictions of the training series.
    by_class : bool, default=False
        Whether each class has a threshold of its own, for coverage within each class [2]_; a
        coverage of 0.9 needs 9 calibration series of every class.

    Returns
    -------
    self

    Raises
    ------
    ValueError
        For new labels, for `X` without `y`, or if there are no leave-one-out predictions.

    References
    ----------
    .. [1] Sadinle, Lei and Wasserman, JASA 114, 2019. https://arxiv.org/abs/1609.00451
    .. [2] Vovk, "Conditional validity", ACML 2012. https://arxiv.org/abs/1209.2673

    Examples
    --------
    >>> from tsformer import RandomConvolutionClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> clf = RandomConvolutionClassifier(1000, random_state=0).fit(X[:40], y[:40])
    >>> clf.calibrate_sets(X[40:], y[40:]).predict_set(X[:3], coverage=0.9).sum(axis=1)
    array([1, 1, 1])
    """
    refuse_several(self, "calibrate_sets")
    if (X is None) != (y is None):
        raise ValueError(f"X and y go together; {'X' if X is None else 'y'} is missing")
    if X is None:
        gated = getattr(self, "transformer_", self) is None  # an ensemble of convolutions alone
        convolutions = self.random_convolutions_ if gated else self
        if not hasattr(convolutions, "left_out"):
            raise ValueError(
                "only random convolutions have leave-one-out predictions; pass X and y"
            )
        proba, targets = convolutions.left_out()
    else:
        check_ids(X, y, "y")
        series = self._source(X, times)
        targets = self.target_.encode(y, "y", len(series))
        proba = self.predict_proba(series)
    self.conformal_ = Conformal.fit(proba, targets, by_class=by_class, mixture=_mixture(self))
    return self


@in_plain_torch
def predict_set(
    self: Any, X: Any, times: Any = None, *, coverage: float = 0.9
) -> npt.NDArray[np.bool_]:
    """Predict a set of classes that contains the true class with probability `coverage`.

    A class is in the set if its score ``1 - p`` is at most the calibration score of rank
    ``ceil((n + 1) * coverage)`` among `n`. For exchangeable, held-out calibration series the
    coverage is from `coverage` to ``coverage + 1 / (n + 1)`` without ties, on average;
    leave-one-out predictions have no such guarantee [1]_. Reject a series with an empty set.

    Parameters
    ----------
    X, times : as in `predict_proba`
    coverage : float in (0, 1), default=0.9
        Probability that a set contains the true class. Choose it before looking at the sets.

    Returns
    -------
    ndarray (n, n_classes) of bool
        Whether each class is in the set, in the order of `classes_`. A warning names the classes
        in every set, as too few series calibrate them for this coverage.

    Raises
    ------
    ValueError
        Before `calibrate_sets`, or if `calibrate` changed the probabilities since.

    References
    ----------
    .. [1] Barber et al., "The jackknife+", Ann. Stat. 49, 2021. https://arxiv.org/abs/1905.02928
    """
    check_is_fitted(self)
    check_number("coverage", coverage, 0, 1, excluded=True)
    if not hasattr(self, "conformal_"):
        raise ValueError("there are no calibration scores; call calibrate_sets(X, y) after fit")
    if self.conformal_.mixture != _mixture(self):
        raise ValueError(
            "the probabilities changed since calibrate_sets; call calibrate_sets again"
        )
    self.conformal_.warn_of_few(self.classes_.tolist(), coverage)
    return self.conformal_.sets(self.predict_proba(X, times), coverage)


def learn_target(self: Any, y: Any, sample_weight: Any) -> LabelTarget:
    """Learn the meaning of the labels of the training series."""
    if (columns := read_columns(y, labels=True)) is not None:
        return Labels.learn(y, columns, sample_weight, unknown=self.masks_unknown)
    classes = np.unique(read_labels(y, "y"))
    warn_of_labels(classes)
    return Classes(classes)


def restored_target(self: Any, described: dict[str, Any]) -> LabelTarget:
    """Make the target from its description."""
    classes = restored_labels(described.get("classes"))
    several = described.get("several_labels", False)
    check_type("several_labels", several, bool)
    if several and classes.tolist() != list(range(max(len(classes), 2))):
        raise ValueError("classes of several labels must be their column numbers")
    return Labels(classes, unknown=self.masks_unknown) if several else Classes(classes)


def refuse_several(classifier: Any, method: str) -> None:
    """Raise an error unless the classifier was fitted to one label per series."""
    check_is_fitted(classifier)
    if classifier.target_.shape:
        raise ValueError(f"{method} needs one label per series; fit a classifier for each label")


def _mixture(classifier: Any) -> list[float]:
    """Return weights and temperatures, which shape the probabilities."""
    transformer = getattr(classifier, "transformer_", classifier)
    weights = getattr(classifier, "weights_", {})
    return [*weights.values(), *getattr(transformer, "temperatures_", [])]
