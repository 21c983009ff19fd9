"""LabelClassifier: class labels, and predictions from logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tsformer._torch_state import in_plain_torch
from tsformer.data.ids import check_ids
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import Padded
from tsformer.estimators.conformal import SetClassifier
from tsformer.estimators.saved import described_labels, restored_labels
from tsformer.estimators.targets import Targets, check_length, read_targets, series_weights
from tsformer.explain.methods import Occlusion
from tsformer.explain.relevance import make_method, occlusion

__all__ = ["LabelClassifier"]


class LabelClassifier(ClassifierMixin, SetClassifier):
    """Base class of the classifiers; precedes `SeriesEstimator` among the bases."""

    # A constructor parameter, which the subclasses assign.
    class_weight: Mapping[Any, float] | str | None

    @abstractmethod
    def _logits(self, X: Any, times: Any) -> npt.NDArray[np.floating[Any]]:
        """Return the logits of all classes, ndarray ``(n, n_classes)``."""

    @in_plain_torch
    def decision_function(self, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
        """Compute logits; for several members, the log of the mean probabilities.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n, n_classes), or (n,) for two classes: the second logit minus the first
        """
        logits = self._logits(X, times)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    @in_plain_torch
    def predict(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each series.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n,) of labels
        """
        check_is_fitted(self)
        series = self._source(X, times, reset=False)
        best = np.empty(len(series), dtype=np.int64)
        for rows, logits in self._in_chunks(series, lambda chunk: self._logits(chunk, None)):
            best[rows] = logits.argmax(axis=1)
        predicted: npt.NDArray[Any] = self.classes_[best]
        return predicted

    @in_plain_torch
    def score(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None, *, times: Any = None
    ) -> float:
        """Compute the accuracy of `predict`.

        Parameters
        ----------
        X, times : as in `transform`
        y : array-like (n,)
            True labels.
        sample_weight : array-like (n,), optional
            Weight of each series.

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score  # here, as in scikit-learn: importing it is slow

        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        labels, predicted = read_targets(y, "y"), self.predict(X, times)
        check_length(len(predicted), labels, "y")
        return float(accuracy_score(labels, predicted, sample_weight=sample_weight))

    @in_plain_torch
    def explain(
        self,
        X: Any,
        method: str = "occlusion",
        target: Any = None,
        baseline: Any = "mean",
        *,
        times: Any = None,
        method_params: Mapping[str, Any] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Compute the relevance of every value of series to the logit of a class.

        The relevance is the mean drop of the logit over the windows of one channel that contain the
        value, when the window is replaced by the baseline. It takes two predictions for each
        window's length of each channel.

        Parameters
        ----------
        X, times : as in `transform`
        method : {"occlusion"}, default="occlusion"
            `TSTransformerClassifier` has more.
        target : label or array-like (n,) of labels, optional
            The explained class; by default the predicted class of each series.
        baseline : {"mean", "zero"}, number, or ndarray (C,), (C, L) or (n, C, L), default="mean"
            Replacement of an absent value. "mean" is the mean of each channel over the training
            series with ``scaling="channel"``, and over the series itself otherwise.
        method_params : dict, optional
            ``window`` and ``stride`` in steps, such as ``{"window": 8}``; by default a tenth of the
            longest series, and half a window.

        Returns
        -------
        ndarray (n, channels, length) of float64
            Zero at missing values and padding; length is the maximum over the series. Positive
            values support the class.

        Raises
        ------
        ValueError
            For an unknown method, option, label or baseline.
        """
        check_is_fitted(self)
        if method != "occlusion":
            raise ValueError(
                f"method must be 'occlusion' for {type(self).__name__}, which has no gradients; "
                f"got {method!r}. TSTransformerClassifier has more methods"
            )
        made = make_method(method, method_params)
        assert isinstance(made, Occlusion)
        series = self._read(X, times, reset=False)
        return occlusion(
            lambda occluded: self._logits(occluded, None),
            self._scaler(),
            series,
            self._explained_classes(X, series, target),
            method=made,
            baseline=baseline,
        )

    def _explained_classes(self, X: Any, series: Padded, target: Any) -> Targets:
        """Return the index of the explained class of each series."""
        if target is None:
            predicted: Targets = self._logits(series, None).argmax(axis=1)
            return predicted
        check_ids(X, target, "target")
        labels = [target] * len(series) if np.ndim(target) == 0 else target
        classes = self._targets(labels, "target", reset=False)
        check_length(len(series), classes, "target")
        return classes

    def _scaler(self) -> Scaler:
        """Return the preprocessor, for the means of the baseline."""
        raise NotImplementedError

    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        labels = read_targets(y, name)
        assert_all_finite(labels, input_name=name)
        try:
            check_classification_targets(labels)
        except ValueError as error:
            raise ValueError(f"{error} To predict numbers use TSTransformerRegressor") from error
        if reset:
            self.classes_ = np.unique(labels)
        position = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        index: Targets = position.astype(np.int64)
        new = self.classes_[index] != labels
        if np.any(new):
            raise ValueError(
                f"{name} has labels that are not in the training data: "
                f"{np.unique(labels[new]).tolist()[:10]}; "
                f"the known labels are {self.classes_.tolist()[:20]}"
            )
        return index

    def _weights(self, sample_weight: npt.ArrayLike | None, targets: Targets) -> Targets | None:
        return series_weights(sample_weight, self.class_weight, targets, self.classes_)

    def _describe_targets(self) -> dict[str, Any]:
        return {"classes": described_labels(self.classes_)}

    def _restore_targets(self, described: dict[str, Any]) -> None:
        self.classes_ = restored_labels(described.get("classes"))
