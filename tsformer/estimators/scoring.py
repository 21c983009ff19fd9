"""How good predictions are, for series that come with times."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.base import is_classifier

__all__ = ["TimedScore"]


class TimedScore:
    """Mixin: scikit-learn's `score`, with times."""

    predict: Any

    def score(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None, *, times: Any = None
    ) -> float:
        """Compute the accuracy of `predict`, or of a regressor its determination R².

        Parameters
        ----------
        X, times : as in `transform`
        y : array-like (n,)
            True labels, or targets.
        sample_weight : array-like (n,), optional
            Weight of each series.

        Returns
        -------
        float
        """
        from sklearn import metrics  # late, as scikit-learn's own mixins do: it loads a lot

        measure = metrics.accuracy_score if is_classifier(self) else metrics.r2_score
        return float(measure(y, self.predict(X, times), sample_weight=sample_weight))
