"""SeriesSource: series in memory or in files, read by index.

Statistics over all series are computed part by part. Parts have a fixed number of values and a
fixed order: the results are the same, bit for bit, wherever the series are. `n` series, `L` time
steps of the longest, `C` channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

#: Values in a part: 16 MiB of float64, and a few times that while it is preprocessed.
_VALUES = 2**21


class SeriesError(ValueError):
    """A series has a value that cannot be used."""

    def __init__(self, case: int, message: str):
        super().__init__(message.replace("{case}", str(case)))
        self.case = case
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return SeriesError, (self.case, self.message)


@contextmanager
def numbered(index: npt.NDArray[np.int64]) -> Iterator[None]:
    """Report errors by index in the whole data set."""
    try:
        yield
    except SeriesError as error:
        raise SeriesError(int(index[error.case]), error.message) from None


class Gaps(NamedTuple):
    """Missing values before the last step of each series."""

    #: Number of missing values of each channel of a series, ``[n, C]``.
    missing: npt.NDArray[np.int32]
    #: Whether the first step of a series has no value, ``[n]``.
    late: npt.NDArray[np.bool_]
    #: Whether any step of a series has no value, ``[n]``.
    empty: npt.NDArray[np.bool_]

    def part(self, index: npt.NDArray[np.int64]) -> Gaps | None:
        """Return the gaps of some series, None without gaps."""
        own = Gaps(self.missing[index], self.late[index], self.empty[index])
        return own if own.missing.any() else None

    @staticmethod
    def joined(parts: Sequence[Gaps | None], sizes: Sequence[int]) -> Gaps | None:
        """Join the gaps of several parts, None without gaps."""
        found = next((part for part in parts if part is not None), None)
        if found is None:
            return None
        n_channels = found.missing.shape[1]
        whole = [
            Gaps(np.zeros((size, n_channels), np.int32), np.zeros(size, bool), np.zeros(size, bool))
            if part is None
            else part
            for part, size in zip(parts, sizes, strict=True)
        ]
        return Gaps(*(np.concatenate(each) for each in zip(*whole, strict=True)))


class SeriesSource(ABC):
    """Series that are read by index, as `Padded`."""

    #: Number of steps of each series ``[n]``; the last step has a value.
    lengths: npt.NDArray[np.int64]
    #: Unit of the times: None, "numbers" for the caller's, or "dates" for seconds.
    clock: str | None
    #: Names of the channels.
    channels: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Time steps `L` of what `read` returns."""

    @property
    @abstractmethod
    def n_channels(self) -> int:
        """Channels `C`."""

    @property
    @abstractmethod
    def gaps(self) -> Gaps | None:
        """Missing values; None without gaps."""

    @abstractmethod
    def read(self, index: npt.NDArray[np.int64]) -> Padded:
        """Return series by their indices ``[m]``, in this order."""

    @abstractmethod
    def part(self, index: npt.NDArray[np.int64]) -> Self:
        """Return some of the series, without reading them."""

    def take(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the series that a boolean mask ``[n]`` selects."""
        return self.part(np.flatnonzero(chosen))

    @abstractmethod
    def joined(self, other: Self) -> Self:
        """Return these series and then others from the same source."""

    @abstractmethod
    def padded(self) -> Padded:
        """Return all series in memory."""

    @abstractmethod
    def intervals(self) -> npt.NDArray[np.floating[Any]]:
        """Return the times between all steps; only with times."""

    def parts(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the indices of all series, in order and part by part."""
        return parts_of(len(self), self.n_steps * self.n_channels)


@dataclass(frozen=True)
class Padded(SeriesSource):
    """Series as one array."""

    #: float64 ``[n, L, C]``, NaN where a value is missing and past the end of a series.
    values: Floats
    lengths: npt.NDArray[np.int64]
    #: Times ``[n, L]`` since the first step of each series; None means 0, 1, 2, ...
    times: Floats | None = None
    clock: str | None = None
    channels: tuple[str, ...] | None = None

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """True at steps that are not padding, ``[n, L]``."""
        return np.arange(self.values.shape[1]) < self.lengths[:, None]

    @property
    def n_steps(self) -> int:
        """Time steps of the array."""
        return self.values.shape[1]

    @property
    def n_channels(self) -> int:
        """Channels."""
        return self.values.shape[2]

    @property
    def gaps(self) -> Gaps | None:
        """Where values are missing."""
        missing = np.isnan(self.values) & self.mask[..., None]
        if not missing.any():
            return None
        nothing = np.asarray(missing.all(axis=2))
        counts = missing.sum(axis=1, dtype=np.int32)
        return Gaps(counts, nothing[:, 0], np.asarray(nothing.any(axis=1)))

    def read(self, index: npt.NDArray[np.int64]) -> Padded:
        """Return series by their indices."""
        times = None if self.times is None else self.times[index]
        return Padded(self.values[index], self.lengths[index], times, self.clock, self.channels)

    def part(self, index: npt.NDArray[np.int64]) -> Padded:
        """Return series by their indices."""
        return self.read(index)

    def padded(self) -> Padded:
        """Return all series."""
        return self

    def intervals(self) -> Floats:
        """Return the times between all steps."""
        assert self.times is not None
        return np.diff(self.times, axis=1)[self.mask[:, 1:]]

    def joined(self, other: Padded) -> Padded:
        """Return these series and then others."""
        times = None
        if self.times is not None and other.times is not None:
            times = np.concatenate([self.times, other.times])
        return Padded(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.lengths, other.lengths]),
            times,
            self.clock,
            self.channels,
        )


def parts_of(n: int, n_values: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the indices of `n` series of `n_values` values each, part by part."""
    size = max(_VALUES // n_values, 1)
    for start in range(0, n, size):
        yield np.arange(start, min(start + size, n))
