"""Fits into a CSV, a row each: what is there already is not fitted again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd


def fit_missing(
    path: Path,
    keys: Sequence[str],
    cells: Iterable[tuple[Any, ...]],
    fit: Callable[..., dict[str, Any]],
    jobs: int,
) -> pd.DataFrame:
    """Call `fit` on the cells, values of `keys`, that the CSV lacks; return the whole CSV.

    Each row is written, and printed, when its fit ends.
    """
    done = set()
    if path.exists():
        done = set(pd.read_csv(path)[list(keys)].itertuples(index=False, name=None))
    rows = joblib.Parallel(jobs, return_as="generator_unordered")(
        joblib.delayed(fit)(*cell) for cell in cells if cell not in done
    )
    for row in rows:
        pd.DataFrame([row]).to_csv(path, mode="a", header=not path.exists(), index=False)
        print(row, flush=True)
    return pd.read_csv(path)
