"""Hold out series for validation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tsformer.estimators.targets import Groups


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
            raise ValueError(
                f"early_stopping holds out validation data, but each of the {len(classes)} classes "
                "has only one member; pass X_val and y_val, or early_stopping=False"
            )
        held_out[rng.choice(np.flatnonzero(targets == classes[counts.argmax()]))] = True
    return held_out


def _hold_out_groups(
    targets: npt.NDArray[np.int64], fraction: float, seed: int, groups: Groups
) -> npt.NDArray[np.bool_]:
    """Choose the fold of groups with the share nearest to `fraction`."""
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError(
            f"early_stopping holds out whole groups, but all {len(groups)} series are in one "
            "group; pass X_val and y_val, or early_stopping=False"
        )
    classes = np.unique(targets)
    wanted = round(1 / min(fraction, 1 - fraction))
    candidates = [
        test if fraction <= 0.5 else ~test for test in group_folds(targets, groups, wanted, seed)
    ]
    parts = [
        part
        for part in candidates
        if part.any() and np.array_equal(np.unique(targets[~part]), classes)
    ]
    if not parts:
        raise ValueError(
            f"early_stopping holds out whole groups, but each fold of the {n_groups} groups has "
            "all series of some class; pass X_val and y_val, or early_stopping=False"
        )
    return min(parts, key=lambda part: abs(float(part.mean()) - fraction))


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
