"""Groups of series, which are left out and held out whole, together with copies of series."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tsformer._warnings import warn_caller
from tsformer.data.layout import check_ids, refuse_alike
from tsformer.data.series import SeriesSource, parts_of
from tsformer.estimators.targets import check_length, read_targets

#: The index of the group of each series.
Groups = npt.NDArray[np.int64]
_INSTEAD = ", so that early_stopping can hold out none; pass X_val and y_val, or switch it off"
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
    first = np.arange(len(series))
    known: dict[bytes, int] = {}
    for index in () if _grouped.get() else parts_of(series):
        chunk = series.read(index)
        values = np.where(np.isnan(chunk.values), np.nan, chunk.values + 0.0)  # -0.0 is 0.0
        for i, (case, length) in enumerate(zip(index, chunk.lengths, strict=True)):
            content = blake2b(values[i, :length].tobytes(), digest_size=16)
            if chunk.times is not None:
                content.update(chunk.times[i, :length].tobytes())
            first[case] = known.setdefault(content.digest(), int(case))
    return first


def merge_copies(groups: Groups | None, first: npt.NDArray[np.int64]) -> Groups | None:
    """Return the groups, joined where they share equal series; warn if any are joined."""
    n = len(first)
    group_of = np.arange(n) if groups is None else groups
    if (group_of[first] == group_of).all():
        return groups
    shape = (int(group_of.max()) + 1,) * 2
    shared = coo_array((np.ones(n), (group_of, group_of[first])), shape=shape)
    joined: Groups = connected_components(shared)[1].astype(np.int64)[group_of]
    n_copies, all_joined = np.count_nonzero(first != np.arange(n)), np.ptp(joined) == 0
    if all_joined and groups is not None:
        remedy = "every group has some, so that equal series are not held out together"
    else:
        remedy = "equal series, with their groups, are left out and held out together"
    warn_caller(
        f"{n_copies} of {n} series equal another series in values and times: {remedy}. For near "
        "copies, such as overlapping windows, pass groups"
    )
    return groups if all_joined and groups is not None else joined


def read_groups(groups: Any, X: Any, n_series: int) -> Groups:
    """Return the index of the group of each series."""
    check_ids(X, groups, "groups")
    labels = read_targets(groups, "groups")
    check_length(n_series, labels, "groups")
    names, numbers = np.unique(labels, return_inverse=True)
    refuse_alike(names, "groups")
    return numbers.astype(np.int64)


def hold_out(
    targets: npt.NDArray[np.int64],
    fraction: float,
    seed: int,
    groups: Groups | None = None,
) -> npt.NDArray[np.bool_]:
    """Choose a stratified part of the series for validation, never all members of a class."""
    if groups is not None:
        return _hold_out_groups(targets, fraction, seed, groups)
    rng = np.random.default_rng(seed)
    held_out = np.zeros(len(targets), dtype=bool)
    owed = 0.0  # series that earlier classes could not contribute
    for label in np.unique(targets):
        members = rng.permutation(np.flatnonzero(targets == label))
        owed += fraction * len(members)
        count = min(round(owed), len(members) - 1)
        held_out[members[:count]] = True
        owed -= count
    if not held_out.any():
        classes, counts = np.unique(targets, return_counts=True)
        if counts.max() < 2:
            raise ValueError(f"each of the {len(classes)} classes has only one member{_INSTEAD}")
        held_out[rng.choice(np.flatnonzero(targets == classes[counts.argmax()]))] = True
    return held_out


def _hold_out_groups(
    targets: npt.NDArray[np.int64], fraction: float, seed: int, groups: Groups
) -> npt.NDArray[np.bool_]:
    """Choose the fold of groups with the share nearest to `fraction`."""
    wanted = round(1 / min(fraction, 1 - fraction))
    folds = group_folds(targets, groups, wanted, seed)
    n_classes = len(np.unique(targets))
    masks = [
        mask
        for mask in (fold if fraction <= 0.5 else ~fold for fold in folds)
        if mask.any() and len(np.unique(targets[~mask])) == n_classes
    ]
    if not masks:
        raise ValueError(f"each fold of groups has all series of some class{_INSTEAD}")
    return min(masks, key=lambda mask: abs(float(mask.mean()) - fraction))


def group_folds(
    targets: npt.NDArray[np.int64], groups: Groups, n_folds: int, seed: int
) -> list[npt.NDArray[np.bool_]]:
    """Return the test part of each stratified fold of whole groups, at most `n_folds`."""
    # StratifiedGroupKFold of scikit-learn takes minutes for 50,000 groups.
    of_group = np.unique(groups, return_inverse=True)[1]
    of_class = np.unique(targets, return_inverse=True)[1]
    n_groups, n_classes = int(of_group.max()) + 1, int(of_class.max()) + 1
    cells = np.bincount(of_group * n_classes + of_class, minlength=n_groups * n_classes)
    counts = cells.reshape(n_groups, n_classes)
    counts = np.column_stack([counts, counts.sum(axis=1)])
    shares = counts / counts.sum(axis=0)
    order = np.random.default_rng(seed).permutation(n_groups)
    order = order[np.argsort(-np.square(shares[order]).sum(axis=1), kind="stable")]
    filled = np.zeros((min(max(n_folds, 2), n_groups), n_classes + 1))
    fold_of = np.empty(n_groups, dtype=np.int64)
    for group in order:
        fold = (filled * shares[group]).sum(axis=1).argmin()
        filled[fold] += shares[group]
        fold_of[group] = fold
    return [fold_of[of_group] == fold for fold in range(len(filled))]
