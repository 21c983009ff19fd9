"""Symbolic series: whole numbers as codes, numbered for an embedding."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from tsformer.data.panel import Floats, Panel, is_there

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

    @property
    def n_codes(self) -> int:
        """Number of codes known."""
        return len(self.known)

    def fit(self, values: Floats, lengths: npt.NDArray[np.int64]) -> CodeBook:
        """Learn the codes in padded `values` ``[n, L, 1]``."""
        self.known = np.unique(_whole(values)[is_there(values, lengths)[..., 0]])
        return self

    def transform(self, values: Floats, lengths: npt.NDArray[np.int64]) -> Panel:
        """Return the number of each code; warn of codes that are not known."""
        codes, there = _whole(values), is_there(values, lengths)
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
        numbers = np.where(there & known, place + 1, 0)
        return Panel(torch.from_numpy(numbers.astype(np.float32)), torch.from_numpy(lengths))


def _whole(values: Floats) -> npt.NDArray[np.int64]:
    codes = np.rint(values).astype(np.int64)
    if not np.array_equal(codes, values):
        case, step, channel = (int(i) for i in np.argwhere(codes != values)[0])
        raise ValueError(
            "stem='embedding' reads whole numbers as codes; got "
            f"{values[case, step, channel]:g} at series {case}, step {step}. For measurements use "
            "stem='conv' or 'linear', or turn them into codes first"
        )
    return codes
