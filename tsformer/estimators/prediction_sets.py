"""Prediction sets: all classes that are likely enough, by scores of calibration series."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from tsformer._checks import check_number
from tsformer._precision import in_plain_torch
from tsformer._warnings import warn_caller
from tsformer.data.layout import check_ids
from tsformer.estimators.labels import LabelClassifier
from tsformer.estimators.saved import SETS, check_fields
from tsformer.estimators.targets import Targets

#: Rounding error of ``(n + 1) * coverage``, which must not move the rank.
_ROUNDING = 1e-9
_Proba = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Conformal:
    """Sorted scores ``1 - p`` of calibration series, of all classes or one array for each."""

    scores: list[npt.NDArray[np.float64]]
    #: Temperatures and weights of members, to detect other probabilities.
    mixture: list[float] = field(default_factory=list)

    @classmethod
    def fit(
        cls,
        proba: _Proba,
        targets: Targets,
        *,
        by_class: bool = False,
        mixture: Sequence[float] = (),
    ) -> Self:
        """Compute the scores from probabilities ``[n, K]`` and class indices ``[n]``."""
        own = 1.0 - proba[np.arange(len(targets)), targets]
        groups = [own[targets == each] for each in range(proba.shape[1])] if by_class else [own]
        return cls([np.sort(each) for each in groups], list(mixture))

    def sets(self, proba: _Proba, coverage: float) -> npt.NDArray[np.bool_]:
        """Return the sets ``[n, K]`` for probabilities ``[n, K]``."""
        thresholds = [_threshold(scores, coverage) for scores in self.scores]
        return 1.0 - proba <= np.array(thresholds)

    def warn_of_few(self, classes: Sequence[Any], coverage: float) -> None:
        """Warn of classes with too few calibration series."""
        needed = ceil(coverage / (1 - coverage) - _ROUNDING)
        counts = list(map(len, self.scores))
        few = [i for i, count in enumerate(counts) if count < needed]
        if few:
            by_class = len(counts) == len(classes) > 1
            counted = {classes[i]: counts[i] for i in few} if by_class else counts[0]
            warn_caller(
                f"coverage={coverage:g} needs {needed} calibration series"
                f"{' of each class' if by_class else ''}; got {counted}. Every set contains "
                f"{'these' if by_class else 'all'} classes; calibrate with more series"
            )

    def describe(self) -> dict[str, Any]:
        """Return the scores as saved."""
        return {"scores": [each.tolist() for each in self.scores], "mixture": self.mixture}

    @classmethod
    def restored(cls, described: dict[str, Any], n_classes: int) -> Self:
        """Return what `describe` described."""
        check_fields(described, SETS, of="sets")
        scores = described["scores"]
        if len(scores) not in (1, n_classes):
            raise ValueError(
                f"sets.scores must be 1 list or {n_classes}, one for each class; got {len(scores)}"
            )
        return cls(
            [np.sort(np.array(each, dtype=np.float64)) for each in scores], described["mixture"]
        )


def _threshold(scores: npt.NDArray[np.float64], coverage: float) -> float:
    """Return the score of rank ``ceil((n + 1) * coverage)``; infinity if there are too few."""
    rank = max(ceil((len(scores) + 1) * coverage - _ROUNDING), 1)
    return float(scores[rank - 1]) if rank <= len(scores) else inf


class SetClassifier(LabelClassifier):
    """A classifier that also predicts sets of classes; precedes the other bases."""

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
        self._refuse_several("calibrate_sets")
        if (X is None) != (y is None):
            raise ValueError(f"X and y go together; {'X' if X is None else 'y'} is missing")
        if X is None:
            proba, targets = self._left_out()
        else:
            check_ids(X, y, "y")
            series = self._source(X, times, reset=False)
            targets = self.target_.encode(y, "y", len(series))
            proba = self.predict_proba(series)
        self.conformal_ = Conformal.fit(proba, targets, by_class=by_class, mixture=self._mixture())
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
        X, times : as in `predict_proba`
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
                "the probabilities changed since calibrate_sets, by calibrate or by a choice of "
                "members; call calibrate_sets again"
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
