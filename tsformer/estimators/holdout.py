"""Choose the series that are held out for validation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["hold_out"]


def hold_out(targets: npt.NDArray[np.int64], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Choose a stratified part of the series for validation, never a class's only member.

    scikit-learn's stratified split refuses classes with one member; here they stay in training.

    Parameters
    ----------
    targets : ndarray (n,)
        Class index of each series.
    fraction : float
        Share of the series to hold out.
    seed : int
        Seed of the random choice.

    Returns
    -------
    ndarray (n,) of bool
        True for the series held out.

    Raises
    ------
    ValueError
        If no class has two members.
    """
    rng = np.random.default_rng(seed)
    held_out = np.zeros(len(targets), dtype=bool)
    owed = 0.0  # series that earlier classes were too small to contribute
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
                f"early_stopping holds out validation data, but none of the {len(classes)} "
                "classes has two members; pass X_val and y_val, or early_stopping=False"
            )
        held_out[rng.choice(np.flatnonzero(targets == classes[counts.argmax()]))] = True
    return held_out
