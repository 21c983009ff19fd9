"""Convert containers of other libraries to NumPy arrays, pandas objects and lists.

A container is known by its methods. No library is imported to recognise one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch.nn.utils.rnn import PackedSequence, unpack_sequence

from tsformer._optional import require

#: Names of dimensions, without the s of a plural.
_ROLES = {
    "case": (
        *("batch", "case", "case_id", "epoch", "example", "id", "instance", "n_case", "patient"),
        *("record", "recording", "sample", "segment", "serie", "subject", "trial", "window"),
    ),
    "channel": (
        *("band", "ch", "channel", "component", "electrode", "feature", "lead", "n_channel"),
        *("sensor", "signal", "variable"),
    ),
    "time": (
        *("date", "datetime", "frame", "n_timepoint", "step", "t", "time", "time_step"),
        *("timepoint", "timestamp", "timestep"),
    ),
}
#: What `pandas.api.types.infer_dtype` calls numbers among missing values.
_NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty")


def native(X: Any) -> Any:
    """Convert a container to NumPy, pandas, a list, or numbered items."""
    if isinstance(X, PackedSequence):
        return [to_numpy(x).T for x in unpack_sequence(X)]
    if isinstance(X, torch.Tensor) and X.is_nested:
        nested = [to_numpy(x) for x in X.unbind()]
        jagged = X.layout == torch.jagged and not isinstance(X.shape[1], int)  # along the time
        return [x.T for x in nested] if jagged else nested
    X = _one_array(X)
    if has_dims(X):
        return _in_order(X, ("case", "channel", "time") if len(X.dims) > 2 else ("case", "time"))
    if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # some sparse matrices are mappings
        raise TypeError(
            f"X is a {type(X).__name__} with the keys {list(X)[:10]}; pass a single value, as "
            "X[key], or list(X.values()) if each value is a series"
        )
    if _is_table(X):
        return _to_pandas(X)
    if isinstance(X, (pd.DataFrame, pd.Series, torch.Tensor)) or not hasattr(X, "__array__"):
        return X
    if getattr(getattr(X, "dtype", None), "kind", "O") != "O":
        return X
    if isinstance(X, np.ma.MaskedArray):
        return to_numpy(X)
    try:
        return np.asarray(X)  # h5py's arrays of variable length
    except (TypeError, ValueError):  # awkward's
        return [X[i] for i in range(len(X))]


def native_item(x: Any, what: str) -> npt.NDArray[Any] | pd.DataFrame | pd.Series:
    """Convert one series to an array (channels, length), or to a pandas object."""
    x = _one_array(x)
    if has_dims(x) and len(x.dims) == 2 and not _is_unnamed(x):
        x = _in_order(x, ("time", "channel")).to_pandas()
    elif _is_table(x) and not has_dims(x):
        x = _to_pandas(x)
    if isinstance(x, pd.Series) and x.dtype == object and any(map(is_series, x)):
        x = x.to_numpy()  # a list of channels
    if isinstance(x, (pd.DataFrame, pd.Series)):
        return x
    try:
        return to_numpy(x)
    except ValueError as error:
        raise ValueError(
            f"{what} must be (length,) or (channels, length); its channels differ in length"
        ) from error


def to_numpy(x: Any) -> npt.NDArray[Any]:
    """Convert an array, a tensor or nested sequences; None and masked values become NaN."""
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided or x.is_quantized or x.is_nested:
            raise TypeError(
                f"X holds a tensor of layout {x.layout} and dtype {x.dtype}; pass X.to_dense(), or "
                "X.dequantize()"
            )
        x = x.detach().cpu().resolve_conj().resolve_neg()
        wide = x.dtype in (torch.float16, torch.float32, torch.float64)
        return (x.float() if x.dtype.is_floating_point and not wide else x).numpy()
    if isinstance(x, np.ma.MaskedArray):
        return np.ma.filled(x.astype(np.promote_types(x.dtype, np.float32)), np.nan)
    if _holds_masked(x):  # NumPy makes an array of lists without their masks
        x = [to_numpy(each) for each in x]
    if hasattr(x, "as_py"):  # a cell of Arrow
        x = x.as_py()
    convert = "convert X to an array (n, channels, length), or to a list of (channels, length)"
    try:
        by_dlpack = hasattr(x, "__dlpack__") and not hasattr(x, "__array__")
        array = np.from_dlpack(x) if by_dlpack else np.asarray(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if not (hasattr(x, "__len__") and hasattr(x, "__getitem__")):
            raise TypeError(f"X holds a {type(x).__name__}: {error}; {convert}") from error
        array = np.asarray([to_numpy(x[i]) for i in range(len(x))])
    if array.dtype == object and not array.ndim and is_series(x):  # such as a sparse matrix
        raise TypeError(f"X holds a {type(x).__name__}; {convert}")
    if array.dtype.kind == "V" and array.dtype.names is None:  # such as bfloat16 of JAX
        return array.astype(np.float32)
    return _from_objects(array) if array.dtype == object else array


def _holds_masked(x: Any) -> bool:
    """Whether nested lists have masked arrays in them."""
    if not isinstance(x, (list, tuple)) or not x or np.isscalar(x[0]):
        return False
    return any(isinstance(each, np.ma.MaskedArray) or _holds_masked(each) for each in x)


def is_series(x: Any) -> bool:
    """Whether this has several values, and is not a nested list."""
    if isinstance(x, (list, tuple, str, bytes, dict)) or np.isscalar(x):
        return False
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and getattr(x, "ndim", 1) > 0


def channel_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the channels in the second dimension."""
    if not has_dims(X) or len(X.dims) != 3 or X.dims[1] not in X.coords:
        return None
    return as_names(X.coords[X.dims[1]].values.tolist())


def as_names(names: Iterable[Any]) -> tuple[str, ...] | None:
    """Return names of channels as text; 0, 1, 2, ... are no names."""
    found = list(names)
    return None if found == list(range(len(found))) else tuple(map(str, found))


def _from_objects(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert objects that are numbers, None or arrays; return others unchanged."""
    flat = array.ravel()
    if any(is_series(x) or isinstance(x, (list, tuple)) for x in flat):
        inner = [to_numpy(x) for x in flat]
        return np.stack(inner).reshape(*array.shape, *inner[0].shape)
    if pd.api.types.infer_dtype(flat, skipna=True) not in _NUMBERS:
        return array
    try:
        return np.where(pd.isna(flat), np.nan, flat).astype(np.float64).reshape(array.shape)
    except OverflowError as error:
        raise ValueError(f"X holds an integer beyond float64: {error}") from error


def has_dims(X: Any) -> bool:
    """Whether this is an array of xarray, with names for its dimensions."""
    return isinstance(getattr(X, "dims", None), tuple) and hasattr(X, "coords")


def _one_array(X: Any) -> Any:
    """Stack the variables of a data set of xarray, which are channels."""
    if not hasattr(X, "to_dataarray"):
        return X
    dims = {name: variable.dims for name, variable in X.data_vars.items()}
    if len({frozenset(each) for each in dims.values()}) != 1:
        raise TypeError(
            f"the variables of X have different dimensions: {dims}; select the channels, as "
            "in X[[name, name]]"
        )
    return X.to_dataarray()


def _in_order(X: Any, roles: Sequence[str]) -> Any:
    """Transpose an array by the names of its dimensions."""
    dims = [str(name) for name in X.dims]
    if len(dims) != len(roles) or _is_unnamed(X):
        return X
    role_of = {name: role for role, names in _ROLES.items() for name in names}
    found = [role_of.get(name.lower().removesuffix("s")) for name in dims]
    missing = [role for role in roles if role not in found]
    if found.count(None) == len(missing) == 1:
        found[found.index(None)] = missing[0]
    if sorted(map(str, found)) != sorted(roles):
        raise TypeError(
            f"X has the dimensions {dims}, which must be {', '.join(roles)}; rename them with "
            "X.rename, or pass a single series as X.expand_dims('case')"
        )
    return X.transpose(*(X.dims[found.index(role)] for role in roles))


def _is_unnamed(X: Any) -> bool:
    """Whether an array has the default names of dimensions."""
    return all(str(name) == f"dim_{i}" for i, name in enumerate(X.dims))


def _is_table(X: Any) -> bool:
    """Whether this is a table or a column of polars, Arrow or the like."""
    if isinstance(X, (np.ndarray, pd.DataFrame, pd.Series, torch.Tensor)):
        return False
    with_method = hasattr(X, "to_pandas") and hasattr(X, "__array__")
    return with_method or hasattr(X, "__arrow_c_stream__") or hasattr(X, "to_numpy_ndarray")


def _to_pandas(X: Any) -> Any:
    """Convert a table or a column to pandas."""
    if hasattr(X, "to_numpy_ndarray"):  # tensors of Arrow
        return X.to_numpy_ndarray()
    types = [getattr(each, "type", None) for each in (X, *getattr(X, "schema", ()))]
    if any(hasattr(kind, "permutation") for kind in types):
        raise TypeError(
            f"X is a {type(X).__name__} of tensors; pass its column as an array, with "
            "column.combine_chunks().to_numpy_ndarray()"
        )
    if not hasattr(X, "to_pandas"):
        X = require("pyarrow", extra="parquet", purpose="reading Arrow data").table(X)
    try:
        return X.to_pandas()
    except ImportError:  # polars without pyarrow
        if not hasattr(X, "columns"):
            return pd.Series(X.to_list())
        return pd.DataFrame({name: X[name].to_list() for name in X.columns})
