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
    found = np.arange(len(series))
    first: dict[bytes, int] = {}
    for index in () if _grouped.get() else parts_of(series):
        part = series.read(index)
        values = np.where(np.isnan(part.values), np.nan, part.values + 0.0)  # -0.0 is 0.0
        for i, (case, length) in enumerate(zip(index, part.lengths, strict=True)):
            content = blake2b(values[i, :length].tobytes(), digest_size=16)
            if part.times is not None:
                content.update(part.times[i, :length].tobytes())
            found[case] = first.setdefault(content.digest(), int(case))
    return found


def merge_copies(groups: Groups | None, first: npt.NDArray[np.int64]) -> Groups | None:
    """Return the groups, joined where they share equal series; warn if any are joined."""
    n = len(first)
    given = np.arange(n) if groups is None else groups
    if (given[first] == given).all():
        return groups
    shape = (int(given.max()) + 1,) * 2
    shared = coo_array((np.ones(n), (given, given[first])), shape=shape)
    joined: Groups = connected_components(shared, directed=False)[1].astype(np.int64)[given]
    n_copies, all_joined = np.count_nonzero(first != np.arange(n)), np.ptp(joined) == 0
    if all_joined and groups is not None:
        remedy = "every group has some, so that equal series are not held out together"
    else:
        remedy = "equal series, with their groups, are left out and held out together"
    warn_caller(
        f"{n_copies} of {n} series equal another one in values and times: {remedy}. For near "
        "copies, such as overlapping windows, pass groups"
    )
    return groups if all_joined and groups is not None else joined
