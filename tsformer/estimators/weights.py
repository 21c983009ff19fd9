"""Weights of the series in the loss: sample weights times class weights."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

from tsformer._names import shortened, unknown
from tsformer.estimators.targets import check_length

__all__ = ["series_weights"]


def series_weights(
    sample_weight: npt.ArrayLike | None,
    class_weight: Mapping[Any, float] | str | None,
    targets: npt.NDArray[np.int64],
    classes: npt.NDArray[Any],
) -> npt.NDArray[np.float64] | None:
    """Return the weight of each series, or None if all are equal.

    Parameters
    ----------
    sample_weight : array-like (n,), optional
        Weight of each series.
    class_weight : dict, "balanced" or None
        Weight of each label; labels missing from a dict have weight 1.
    targets : ndarray (n,)
        Class index of each series.
    classes : ndarray (n_classes,)
        The class labels.
    """
    if sample_weight is None and class_weight is None:
        return None
    given = np.asarray(sample_weight)
    if given.ndim == 1:
        check_length(len(targets), given, "sample_weight")
    weights: npt.NDArray[np.float64] = _check_sample_weight(
        sample_weight, targets, dtype=np.float64, ensure_non_negative=True
    )
    if isinstance(class_weight, Mapping):
        weights = weights * _by_label(class_weight, classes.tolist())[targets]
    elif isinstance(class_weight, str) and class_weight != "balanced":
        raise ValueError(unknown("class_weight", class_weight, ["balanced", None]))
    elif not isinstance(class_weight, (str, NoneType)):
        raise TypeError(
            "class_weight must be a dict from labels to weights, 'balanced' or None; got "
            f"{shortened(class_weight)}"
        )
    else:
        weights = weights * compute_sample_weight(class_weight, targets)
    if weights.sum() <= 0:
        raise ValueError(
            "all weights are zero; sample_weight and class_weight must leave some series with a "
            "positive weight"
        )
    return weights


def _by_label(given: Mapping[Any, Any], labels: list[Any]) -> npt.NDArray[np.float64]:
    """Return the weight of each label; scikit-learn's look-up would match "1" with the int 1."""
    strange = [key for key in given if key not in labels]
    missing = [label for label in labels if label not in given]
    if strange and missing:  # unknown keys alone may be classes missing from a subset
        raise ValueError(
            f"class_weight has keys that are not labels, {strange[:10]}, and lacks the labels "
            f"{missing[:10]}; its keys must be labels, of the same type"
        )
    for label, weight in given.items():
        if not (isinstance(weight, Real) and 0 <= float(weight) < np.inf):
            raise ValueError(
                f"class_weight must have finite weights of at least 0; got {shortened(weight, 40)} "
                f"for {label!r}"
            )
    return np.array([given.get(label, 1.0) for label in labels], dtype=np.float64)
