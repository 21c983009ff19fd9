"""Equal series are one group: what is left out or held out has no copy among the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tsformer._warnings import warn_caller
from tsformer.data.series import SeriesSource, parts_of
from tsformer.estimators.targets import Groups

_grouped: ContextVar[bool] = ContextVar("copies_are_grouped", default=False)


@contextmanager
def copies_are_grouped() -> Iterator[None]:
    """Keep the groups of fits in this block: prefixes of unlike series may be equal."""
    token = _grouped.set(True)
    try:
        yield
    finally:
        _grouped.reset(token)


def first_equal(series: SeriesSource) -> npt.NDArray[np.int64]:
    """Return the index of the first series with the same values, length and times ``[n]``."""
    if _grouped.get():
        return np.arange(len(series))
    first: dict[bytes, int] = {}
    found = np.empty(len(series), dtype=np.int64)
    for index in parts_of(series):
        part = series.read(index)
        values = part.values + 0.0  # -0.0 is 0.0
        values[np.isnan(values)] = np.nan  # of any sign
        for case, row, length, i in zip(
            index, values, part.lengths, range(len(index)), strict=True
        ):
            content = blake2b(row[:length].tobytes(), digest_size=16)
            if part.times is not None:
                content.update(part.times[i, :length].tobytes())
            found[case] = first.setdefault(content.digest(), int(case))
    return found


def merge_copies(groups: Groups | None, first: npt.NDArray[np.int64]) -> Groups | None:
    """Return the groups, joined where they share equal series; warn if any are joined."""
    copied = first != np.arange(len(first))
    given = np.arange(len(first)) if groups is None else groups
    if (given[first] == given).all():
        return groups
    n_groups = int(given.max()) + 1
    shared = coo_array((np.ones(len(first)), (given, given[first])), shape=(n_groups, n_groups))
    joined: Groups = connected_components(shared, directed=False)[1].astype(np.int64)[given]
    if groups is not None and len(np.unique(joined)) == 1:
        warn_caller(
            f"{copied.sum()} of {len(first)} series equal another one, and every group has such a "
            "series: equal series of different groups are not held out together"
        )
        return groups
    warn_caller(
        f"{copied.sum()} of {len(first)} series equal another one in values and times: equal series"
        f"{' and their groups' if groups is not None else ''} are left out and held out together. "
        "For near copies, such as overlapping windows, pass groups"
    )
    return joined
