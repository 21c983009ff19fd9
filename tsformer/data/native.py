"""Convert containers of other libraries to NumPy arrays and pandas objects.

A container is known by its methods. No library is imported to recognise one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch.nn.utils.rnn import PackedSequence


def native(X: Any) -> Any:
    """Convert a table to pandas; return others as they are."""
    if isinstance(X, PackedSequence) or getattr(X, "is_nested", False):
        raise TypeError(f"X is a nested {type(X).__name__}; pass a list of (channels, length)")
    if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # some sparse matrices are mappings
        keys = f"the keys {list(X)[:10]}"
        raise TypeError(f"X is a {type(X).__name__} with {keys}; pass one, as X[key]")
    return _to_pandas(X)


def native_item(x: Any, name: str) -> npt.NDArray[Any] | pd.DataFrame | pd.Series:
    """Convert one series to an array (channels, length), or to a pandas object."""
    if x is None:
        raise ValueError(f"{name} is None; leave it out, and its label")
    x = _to_pandas(x)
    return x if isinstance(x, (pd.DataFrame, pd.Series)) else to_numpy(x, name)


def to_numpy(x: Any, name: str = "X") -> npt.NDArray[Any]:
    """Convert an array, a tensor or nested sequences; None and masked values become NaN."""
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided or x.is_quantized or x.is_nested:
            kind = f"tensor of layout {x.layout} and dtype {x.dtype}"
            raise TypeError(f"{name} holds a {kind}; pass a dense tensor")
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)
    if isinstance(x, np.ma.MaskedArray):
        x = np.ma.filled(x.astype(np.promote_types(x.dtype, np.float32)), np.nan)
    if isinstance(x, (list, tuple)) and x and (isinstance(x[0], (list, tuple)) or is_series(x[0])):
        x = [to_numpy(row, name) for row in x]  # NumPy would drop their masks
    try:
        array = np.asarray(x)
    except (RuntimeError, TypeError, ValueError) as error:
        problem = f"holds a {type(x).__name__} that is no array ({error})"
        raise TypeError(f"{name} {problem}; pass arrays (channels, length)") from error
    if array.dtype != object:
        return array
    if not array.ndim and is_series(x):  # such as a sparse matrix
        raise TypeError(f"{name} holds a {type(x).__name__}; pass arrays (channels, length)")
    if any(is_series(cell) or isinstance(cell, (list, tuple)) for cell in array.flat):
        return to_numpy([to_numpy(row, name) for row in array], name)
    try:
        return np.where(pd.isna(array), np.nan, array).astype(np.float64)
    except (TypeError, ValueError):
        return array
    except OverflowError as error:
        raise ValueError(f"{name} holds an integer beyond float64: {error}") from error


def is_series(x: Any) -> bool:
    """Whether this has several values, and is not a nested list."""
    if isinstance(x, (list, tuple, str, bytes, dict)) or np.isscalar(x):
        return False
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and getattr(x, "ndim", 1) > 0


def as_names(names: Iterable[Any]) -> tuple[str, ...] | None:
    """Return names of channels as text; 0, 1, 2, ... are no names."""
    names = list(names)
    return None if names == list(range(len(names))) else tuple(map(str, names))


def _to_pandas(X: Any) -> Any:
    """Convert a table or a column of polars, Arrow or the like; refuse arrays of xarray."""
    if isinstance(getattr(X, "dims", None), tuple) and hasattr(X, "coords"):
        way = "X.transpose('case', 'channel', 'time').to_numpy()"
        raise TypeError(f"X has the dimensions {X.dims} of xarray; pass an array, as of {way}")
    if not hasattr(X, "to_pandas") or not hasattr(X, "__array__"):
        return X
    types = [getattr(column, "type", None) for column in (X, *getattr(X, "schema", ()))]
    if any(hasattr(kind, "permutation") for kind in types):
        raise TypeError(f"X is a {type(X).__name__} of tensors; pass an array")
    return X.to_pandas()
