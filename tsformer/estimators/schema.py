"""Schema: what `X` looked like in `fit`, and the judge of every later `X`."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import check_array
from sklearn.utils.validation import _get_feature_names, validate_data

from tsformer._checks import one_of, read_dataclass, whole
from tsformer.data.containers import to_source
from tsformer.data.layout import SWAPPED, check_ids, warn_of_layout, warn_of_order
from tsformer.data.series import SeriesSource

_CHECKS: dict[str, Any] = {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": False}
_CLOCKS = {None: "no times", "numbers": "times in numbers", "dates": "dates"}


@dataclass(frozen=True)
class Schema:
    """Channels, names and times of the training series."""

    n_channels: Annotated[int, whole(1)]
    #: Unit of the times: None, "numbers" or "dates".
    clock: Annotated[str | None, one_of(*_CLOCKS)] = None
    #: Names of the channels, or of the columns of a 2-D `X`.
    names: tuple[str, ...] = ()
    #: Number of columns of a 2-D `X`, its steps, which scikit-learn calls features.
    n_columns: Annotated[int | None, whole(1, None)] = None

    @property
    def n_features(self) -> int:
        """The number of features as scikit-learn counts: columns of a 2-D `X`, or channels."""
        return self.n_channels if self.n_columns is None else self.n_columns

    @classmethod
    def restored(cls, described: Any) -> Self:
        """Return a saved schema; raise ValueError if its fields do not belong together."""
        schema = read_dataclass(cls, described, "schema")
        if schema.names and len(schema.names) != schema.n_features:
            raise ValueError(
                f"schema.names must be {schema.n_features} names; got {schema.names!r}"
            )
        return replace(schema, names=tuple(schema.names))

    @classmethod
    def learn(cls, estimator: Any, X: Any, times: Any) -> tuple[SeriesSource, Self]:
        """Read the training series."""
        if isinstance(times, pd.DataFrame):
            check_ids(X, times, "times")
        tables: list[Any] = []  # X, if it is 2-D

        def check(array: Any) -> npt.NDArray[Any]:
            checked = check_array(array, estimator=estimator, input_name="X", **_CHECKS)
            tables.extend([array] * (checked.ndim == 2))
            return checked

        series = to_source(X, times, index=estimator.timestamps == "index", check=check)
        names: Any = _get_feature_names(tables[0]) if tables else series.channels
        if tables:
            warn_of_order(X, series.n_steps)
        warn_of_layout(X, series, flat=bool(tables))
        n_columns, names = series.n_steps if tables else None, () if names is None else names
        return series, cls(series.n_channels, series.clock, tuple(names), n_columns)

    def read(self, estimator: Any, X: Any, times: Any) -> SeriesSource:
        """Read later series; raise ValueError unless they are like the series of `fit`."""
        if isinstance(times, pd.DataFrame):
            check_ids(X, times, "times")
        shapes: list[int] = []  # the number of axes of X, if it is a single array
        owner, n = type(estimator).__name__, self.n_columns

        def check(array: Any) -> npt.NDArray[Any]:
            if np.ndim(array) == 1:
                raise ValueError(
                    "Reshape your data: X must be (n, channels, length); got an array of shape "
                    f"({len(array)},). To pass a single series use [np.asarray(X)]"
                )
            shapes.append(np.ndim(array))
            if n is not None and shapes == [2] and array.shape[1] != n:
                raise ValueError(
                    f"X has {array.shape[1]} features, but {owner} is expecting {n} features as "
                    "input: the time steps of fit. For series of another length pass "
                    "np.asarray(X)[:, None], which is (n, 1, length)"
                )
            # Only the columns of a 2-D X are features of fixed number: series have any length.
            if n is None or np.ndim(array) > 2:
                return np.asarray(check_array(array, **_CHECKS))
            return np.asarray(validate_data(estimator, array, reset=False, **_CHECKS))

        series = to_source(X, times, index=estimator.timestamps == "index", check=check)
        flat = shapes == [2]
        if flat:
            warn_of_order(X, series.n_steps)
        if series.n_channels != self.n_channels:
            swapped = not flat and series.n_steps == self.n_channels
            raise ValueError(
                f"X has {series.n_channels} channels, but {owner} was fitted with "
                f"{self.n_channels}; X must be (n, channels, length), or a list of "
                "(channels, length) arrays"
                + f"; if it is (n, length, channels), pass {SWAPPED}"
                * swapped
            )
        if series.clock != self.clock:
            raise ValueError(
                f"{owner} was fitted with {_CLOCKS[self.clock]}, but X comes with "
                f"{_CLOCKS[series.clock]}; give times of the same kind to both"
            )
        # The ensemble, or the original of this copy, has checked a source already.
        named = n is None and not flat and not isinstance(X, SeriesSource)
        if named and (series.channels or self.names):
            columns = series.channels
            channels = pd.DataFrame(columns=columns) if columns else np.empty((0, self.n_channels))
            validate_data(estimator, channels, reset=False, skip_check_array=True, ensure_2d=False)
        return series
