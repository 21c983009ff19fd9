"""LabelClassifier: class labels, predictions from logits, and prediction sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tsformer._numbers import check_number
from tsformer._torch_state import in_plain_torch
from tsformer.data.ids import check_ids
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import Padded
from tsformer.estimators.conformal import Conformal
from tsformer.estimators.saved import described_labels, restored_labels
from tsformer.estimators.series import SeriesEstimator
from tsformer.estimators.targets import Targets, check_length, read_targets, series_weights
from tsformer.explain.methods import Occlusion
from tsformer.explain.relevance import make_method, occlusion

__all__ = ["LabelClassifier"]


class LabelClassifier(ClassifierMixin, SeriesEstimator):
    """Base class of the classifiers; precedes `SeriesEstimator` among the bases."""

    classes_: npt.NDArray[Any]

    # A constructor parameter, which the subclasses assign.
    class_weight: Mapping[Any, float] | str | None

    @abstractmethod
    def predict_proba(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Compute the probability of each class, in the order of `classes_`."""

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

    @in_plain_torch
    def calibrate_sets(
        self, X: Any = None, y: Any = None, *, by_class: bool = False, times: Any = None
    ) -> Self:
        """Calibrate `predict_set` with series that the model was not trained on.

        The attribute `conformal_` keeps the score ``1 - p`` of each calibration series, with the
        probability `p` of its true class [1]_. Scores are saved with the model; `fit` discards
        them. `predict_proba` and `predict` stay unchanged.

        Parameters
        ----------
        X, y : as in `fit`, optional
            Held-out series, exchangeable with the series to predict: neither trained on nor passed
            to `calibrate`, and of other groups, such as persons, if new series come from new
            groups. Without them, random convolutions use their leave-one-out predictions of the
            training series; other models need held-out series.
        by_class : bool, default=False
            Whether each class has a threshold of its own, so that the coverage holds for the series
            of each class [2]_. It needs enough calibration series of every class: 9 for a coverage
            of 0.9, 19 for 0.95.
        times : as in `fit`, optional
            Times of the steps, if `fit` had times.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For labels absent from training, for `X` without `y`, or if there are no leave-one-out
            predictions.

        References
        ----------
        .. [1] Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded
           error levels", JASA 114, 2019. https://arxiv.org/abs/1609.00451
        .. [2] Vovk, "Conditional validity of inductive conformal predictors", ACML 2012.
           https://arxiv.org/abs/1209.2673

        Examples
        --------
        >>> from tsformer import RandomConvolutionClassifier, load_dataset
        >>> X, y = load_dataset("ItalyPowerDemand", split="train")
        >>> clf = RandomConvolutionClassifier(1000, random_state=0).fit(X[:40], y[:40])
        >>> clf.calibrate_sets(X[40:], y[40:]).predict_set(X[:3], coverage=0.9).sum(axis=1)
        array([1, 1, 1])
        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError(f"X and y go together; {'X' if X is None else 'y'} is missing")
        if X is None:
            proba, targets = self._left_out()
        else:
            check_ids(X, y, "y")
            series = self._source(X, times, reset=False)
            targets = self._targets(y, "y", reset=False)
            check_length(len(series), targets, "y")
            proba = self.predict_proba(series)
        known = targets >= 0  # -1 marks unlabelled series
        self.conformal_ = Conformal.fit(
            proba[known], targets[known], by_class=by_class, mixture=self._mixture()
        )
        return self

    @in_plain_torch
    def predict_set(
        self, X: Any, times: Any = None, *, coverage: float = 0.9
    ) -> npt.NDArray[np.bool_]:
        """Predict a set of classes that contains the true class with probability `coverage`.

        A class is in the set if its score ``1 - p`` is at most the calibration score of rank
        ``ceil((n + 1) * coverage)`` among `n` [1]_. For held-out calibration series, exchangeable
        with `X`, the true class is in the set with a probability from `coverage` to
        ``coverage + 1 / (n + 1)``,
        on average over calibration series and `X` (the upper bound without ties). With
        ``by_class=True`` it holds for the series of each class. Leave-one-out predictions have no
        such guarantee [2]_: their coverage is approximate.

        The more accurate the classifier, the smaller the sets. A set of several classes is a
        decision not to choose. An empty set means that no class is likely enough: reject the
        series. Where a series has one class at least, it is the prediction of `predict`, unless
        thresholds differ between the classes.

        Parameters
        ----------
        X : as in `fit`
            Series of any length, with the same channels as in `fit`.
        times : as in `fit`, optional
            Times of the steps, if `fit` had times.
        coverage : float in (0, 1), default=0.9
            Probability that a set contains the true class. Choose it before looking at the sets.

        Returns
        -------
        ndarray (n, n_classes) of bool
            Whether each class is in the set, in the order of `classes_`.

        Raises
        ------
        ValueError
            Before `calibrate_sets`, or if `calibrate` changed the probabilities since.

        Warns
        -----
        UserWarning
            If there are too few calibration series for this coverage: every set contains the
            classes concerned.

        References
        ----------
        .. [1] Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded
           error levels", JASA 114, 2019. https://arxiv.org/abs/1609.00451
        .. [2] Barber, Candes, Ramdas and Tibshirani, "Predictive inference with the jackknife+",
           Annals of Statistics 49, 2021. https://arxiv.org/abs/1905.02928
        """
        check_is_fitted(self)
        check_number("coverage", coverage, 0, 1, excluded=True)
        if not hasattr(self, "conformal_"):
            raise ValueError(
                f"this {type(self).__name__} has no calibration scores; call calibrate_sets(X, y) "
                "with held-out series after fit"
            )
        if self.conformal_.mixture != self._mixture():
            raise ValueError(
                "the probabilities are not those of calibrate_sets: a calibration of temperatures "
                "or another choice of members changed them; call calibrate_sets again"
            )
        self.conformal_.warn_of_few(self.classes_.tolist(), coverage)
        return self.conformal_.sets(self.predict_proba(X, times), coverage)

    def _left_out(self) -> tuple[npt.NDArray[Any], Targets]:
        """Return leave-one-out probabilities and classes of the training series."""
        raise ValueError(
            f"{type(self).__name__} has no leave-one-out predictions of its training series; pass "
            "held-out series: calibrate_sets(X, y)"
        )

    def _mixture(self) -> list[float]:
        """Return temperatures and weights, which shape the probabilities."""
        return []

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

    def _describe(self) -> dict[str, Any]:
        described = super()._describe()
        if hasattr(self, "conformal_"):
            described["sets"] = self.conformal_.describe()
        return described

    @classmethod
    def _restored(cls, state: dict[str, Any], device: Any) -> Self:
        estimator = super()._restored(state, device)
        if "sets" in state:
            estimator.conformal_ = Conformal.restored(state["sets"], len(estimator.classes_))
        return estimator
