"""How estimators read X: any container, checked against what `fit` saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import validate_data

from tsformer.data.containers import to_padded
from tsformer.data.panel import Padded
from tsformer.estimators.parameters import Parameters

__all__ = ["SeriesReader"]


class SeriesReader(Parameters, BaseEstimator):
    """Mixin: read `X`, set and check `n_features_in_`, `n_channels_` and `feature_names_in_`."""

    n_channels_: int
    n_features_in_: int
    _clock: str | None
    _columns_are_steps: bool

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = self.stem == "embedding"
        # An embedding is float32, whatever came.
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _read(self, X: Any, times: Any = None, *, reset: bool) -> Padded:
        """Check `X` and convert it; with `reset` learn what later calls must agree with."""
        columns: list[bool] = []  # filled where X is one array of all series

        def check(array: Any) -> npt.NDArray[Any]:
            checks = {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": False}
            # Columns of a 2-D X are features to scikit-learn, which then insists on their number.
            # With channels given, only these are features, and series may have any length.
            if reset or (self._columns_are_steps and np.asarray(array).ndim <= 2):
                array = validate_data(self, array, reset=reset, **checks)
            else:
                array = check_array(array, **checks)
            columns.append(array.ndim == 2)
            return array

        series = to_padded(X, times, index=self.timestamps == "index", check=check)
        n_channels = series.values.shape[2]
        if reset:
            self.n_channels_, self._clock = n_channels, series.clock
            self._columns_are_steps = columns == [True]
            if not columns:
                self.n_features_in_ = n_channels
        elif n_channels != self.n_channels_:
            alone = columns == [True] and len(series) == self.n_channels_
            raise ValueError(
                f"X has {n_channels} channels, but {type(self).__name__} was fitted with "
                f"{self.n_channels_}; "
                "X must be (n, channels, length), or a list of (channels, length) arrays"
                + ("; one series alone is X[None]" if alone else "")
            )
        elif series.clock != self._clock:
            raise ValueError(
                f"{type(self).__name__} was fitted with {_kind(self._clock)}, but X comes with "
                f"{_kind(series.clock)}; give times of the same kind to both"
            )
        if not columns:
            self._check_channel_names(series.channels, reset=reset)
        return series

    def _check_channel_names(self, names: tuple[str, ...] | None, *, reset: bool) -> None:
        """Let scikit-learn compare the channels' names: another order would go unseen."""
        named = pd.DataFrame(columns=names) if names else np.empty((0, self.n_channels_))
        if names or (not reset and hasattr(self, "feature_names_in_")):
            validate_data(self, named, reset=reset, skip_check_array=True, ensure_2d=False)
        elif reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _kind(clock: str | None) -> str:
    return {None: "no times", "numbers": "times in numbers", "dates": "dates"}[clock]
