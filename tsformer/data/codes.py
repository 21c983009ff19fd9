"""Symbolic series: whole numbers as codes, numbered for an embedding."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from tsformer.data.panel import Floats, Padded, Panel
from tsformer.data.scaling import make_panel, regular_step

__all__ = ["CodeBook"]


class CodeBook:
    """Number the codes of the training series from 1; 0 stands for codes that they lack.

    Takes the place of a `Scaler`: the panel holds the numbers, not the values.

    Parameters
    ----------
    known : ndarray (n_codes,) of int64, optional
        The codes in ascending order; `fit` learns them.
    """

    def __init__(self, known: npt.NDArray[np.int64] | None = None):
        self.known = np.empty(0, dtype=np.int64) if known is None else known
        self.step: float | None = None

    @property
    def n_codes(self) -> int:
        """Number of codes known."""
        return len(self.known)

    @property
    def n_inputs(self) -> int:
        """Channels of the panel."""
        return 1

    def fit(self, series: Padded) -> CodeBook:
        """Learn the codes in the one channel of `series`."""
        codes, there = _read(series)
        self.known = np.unique(codes[there])
        self.step = regular_step(series)
        return self

    def transform(self, series: Padded) -> Panel:
        """Return the number of each code; warn of codes that are not known. Gaps are masked."""
        codes, there = _read(series)
        place = np.searchsorted(self.known, codes).clip(max=self.n_codes - 1)
        known = self.known[place] == codes
        new = np.unique(codes[there & ~known])
        if len(new):
            few = ", ".join(map(str, new[:10])) + (", ..." if len(new) > 10 else "")
            warnings.warn(
                f"codes that the training data lack, {len(new)} of them, are read as one unknown "
                f"code: {few}",
                stacklevel=4,
            )
        numbers = np.where(there & known, place + 1, 0).astype(np.float64)
        return make_panel(numbers[..., None], series, there, self.step)


def _read(series: Padded) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return codes ``[n, L]`` and where there are any."""
    if series.values.shape[2] != 1:
        raise ValueError(
            f"stem='embedding' reads one channel of codes; X has {series.values.shape[2]} channels"
        )
    values: Floats = series.values[..., 0]
    there = series.there & ~np.isnan(values)
    codes = np.where(there, values, 0.0)
    wrong = (np.rint(codes) != codes) | (np.abs(codes) > 2**53)  # where floats skip whole numbers
    if wrong.any():
        case, step = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            "stem='embedding' reads whole numbers as codes; got "
            f"{values[case, step]:g} at series {case}, step {step}. For measurements use "
            "stem='conv' or 'linear', or turn them into codes first"
        )
    return codes.astype(np.int64), there
