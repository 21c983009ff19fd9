"""What the fitted models make of series: their outputs, and the embeddings before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tsformer.data.codes import CodeBook
from tsformer.data.scaling import Scaler
from tsformer.estimators.members import Members
from tsformer.estimators.reading import SeriesReader
from tsformer.training import forward
from tsformer.training.plan import resolve_precision

__all__ = ["Outputs"]


class Outputs(
    SeriesReader, Members, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Mixin: run the models over series."""

    scaler_: Scaler | CodeBook
    device_: torch.device

    @property
    def _n_features_out(self) -> int:
        return len(self.models_) * self.model_.config.d_model

    def _outputs(
        self, X: Any, times: Any = None, function: str = "forward"
    ) -> npt.NDArray[np.float32]:
        """Run the models, or another method of them, over `X`, read once: ``[members, n, ...]``."""
        check_is_fitted(self)
        panel = self.scaler_.transform(self._read(X, times, reset=False)).to(self.device_)
        bfloat16 = resolve_precision(self.precision, self.device_)
        outputs = np.stack(
            [
                forward(model, panel, bfloat16=bfloat16, function=getattr(model, function)).numpy()
                for model in self.models_
            ]
        )
        finite = np.isfinite(outputs).all(axis=(0, 2))
        if not finite.all():
            case = int(np.flatnonzero(~finite)[0])
            raise ValueError(
                f"the model's outputs for series {case} are not finite: after scaling its values "
                f"reach {float(panel.values[case].abs().max()):.3g}, far from what training saw; "
                "look for wrong units or marks of missing values in X"
            )
        return outputs

    def transform(self, X: Any, times: Any = None) -> npt.NDArray[np.float32]:
        """Embed series: what the head sees after pooling.

        Parameters
        ----------
        X : as in `fit`
            Series with the channels of those in `fit`, of any length.
        times : as in `fit`, optional
            Their times, if `fit` had times.

        Returns
        -------
        ndarray (n, n_estimators * d_model) of float32
            The embeddings of several members side by side: each has a space of its own.
        """
        return np.concatenate(list(self._outputs(X, times, "embed")), axis=1)
