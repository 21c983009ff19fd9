"""Parquet files of series: one row per series, with a list of values for each channel.

A Parquet file is decoded in groups of rows, and a batch of shuffled series lies in many groups.
`unpacked` therefore decodes all files once, into a temporary file that is read by series.
"""

import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known
from tsformer._files import FileVersion
from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.data.layout import refuse_nul
from tsformer.data.series import FileRows

#: Endings of the files.
PARQUET = (".parquet", ".pq")
#: Values to decode at a time: 16 MiB of float32.
_VALUES = 2**22
#: Bytes of a file to read at a time; pyarrow's default is a whole group of rows.
_BUFFER = 2**20
#: Unpacked bytes from which on a warning names `tsformer convert`.
_MANY_BYTES = 2**30


class _Kind(NamedTuple):
    """Nesting of the lists in a column, and the type of their numbers."""

    depth: int
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return "list of " * self.depth + str(self.dtype)


class _Lists(NamedTuple):
    """The lists of `m` rows: the numbers ``[sum of k * lengths]``, lengths ``[m]``, channels k."""

    numbers: npt.NDArray[Any]
    lengths: npt.NDArray[np.int64]
    k: int


class ParquetSeries:
    """The series of a Parquet file, or of all in a folder, read from first to last."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None):
        self.path = Path(path)
        self._files = parquet_files(path)
        self._n = self.n_values = 0
        self._versions: dict[Path, FileVersion] = {}
        for file in self._files:
            with open_parquet(file) as opened:
                self._versions[file] = FileVersion.of(file)
                kinds = _kinds(file, opened.schema_arrow, columns)
                if file == self._files[0]:
                    self._kinds = kinds
                elif kinds != self._kinds:
                    described = [
                        ", ".join(f"{name}: {kind}" for name, kind in each.items())
                        for each in (self._kinds, kinds)
                    ]
                    raise ValueError(
                        f"all files must have the same columns of values: {self._files[0]} has "
                        f"{described[0]}, and {file} has {described[1]}"
                    )
                self._n += opened.metadata.num_rows
                self.n_values += _n_values(opened.metadata, kinds)
        if not self._n:
            raise ValueError(f"{path} holds no series: Found array with 0 sample(s)")
        self.columns = tuple(self._kinds)
        self.dtype = np.result_type(np.float32, *(kind.dtype for kind in self._kinds.values()))

    def __len__(self) -> int:
        return self._n

    def parts(self) -> Iterator[_Lists]:
        """Yield the series part by part, each channel after channel."""
        size = max(_VALUES * len(self) // max(self.n_values, 1), 1)
        channels: list[int] = []
        for file in self._files:
            start = 0
            with self._reopened(file) as opened:
                for batch in opened.iter_batches(size, columns=list(self.columns)):
                    lists = [self._lists(name, batch, file, start) for name in self.columns]
                    channels = channels or [each.k for each in lists]
                    for name, each, k in zip(self.columns, lists, channels, strict=True):
                        if each.k != k:
                            raise ValueError(
                                f"all series must have the same channels: row {start} of {file} "
                                f"has {each.k} in column {name!r}, and the first series {k}"
                            )
                        differ = each.lengths != lists[0].lengths
                        if differ.any():
                            raise ValueError(
                                f"row {start + int(differ.argmax())} of {file} has lists of "
                                f"unequal length in the columns {self.columns[0]!r} and {name!r}; "
                                "the channels of a series must have the same steps"
                            )
                    yield _merged(lists)
                    start += batch.num_rows

    def texts(self, column: str) -> npt.NDArray[np.str_]:
        """Return a column without lists, such as the labels, as text."""
        found = []
        for file in self._files:
            with self._reopened(file) as opened:
                check_known(f"column of {file}", column, opened.schema_arrow.names)
                values: pd.Series = opened.read([column])[column].to_pandas()
            texts = values.astype(str).str.strip()
            missing = values.isna() | (texts == "")
            if missing.any():
                row = int(missing.to_numpy().argmax())
                raise ValueError(f"row {row} of {file} has no value in column {column!r}")
            refuse_nul(values, f"{file}: column {column!r}")
            found.append(texts.to_numpy(dtype=np.str_))
        return np.concatenate(found)

    @contextmanager
    def _reopened(self, file: Path) -> Iterator[Any]:
        """Open a file again; raise OSError if it changed, now or in the block."""
        self._versions[file].check(file)
        with open_parquet(file) as opened:
            yield opened
        self._versions[file].check(file)

    def _lists(self, name: str, batch: Any, file: Path, start: int) -> _Lists:
        """Return the lists of a column in a batch of rows from `start` on."""
        pa = _arrow()
        pc = require("pyarrow.compute", extra="parquet", purpose="reading Parquet")

        def refuse(wrong: npt.NDArray[np.bool_], what: str) -> None:
            if wrong.any():
                raise ValueError(
                    f"row {start + int(wrong.argmax())} of {file} {what} in column {name!r}; drop "
                    "the row, or mend it"
                )

        def lengths_of(lists: Any) -> npt.NDArray[np.int64]:
            null = lists.is_null().to_numpy(zero_copy_only=False)
            refuse(null.reshape(m, -1).any(axis=1), "has no list")
            return pc.list_value_length(lists).to_numpy().astype(np.int64).reshape(m, -1)

        lists, m = _plain(batch.column(name)), batch.num_rows
        if self._kinds[name].depth == 2:
            k = lengths_of(lists)
            refuse(
                k[:, 0] != max(k[0, 0], 1), f"has not the {max(k[0, 0], 1)} lists of row {start}"
            )
            lists = _plain(lists.flatten())
        lengths = lengths_of(lists)
        refuse((lengths != lengths[:, :1]).any(axis=1), "has lists of unequal length")
        refuse(lengths[:, 0] == 0, "has an empty list")
        numbers = lists.flatten().cast(pa.from_numpy_dtype(self.dtype), safe=False)
        return _Lists(numbers.to_numpy(zero_copy_only=False), lengths[:, 0], lengths.shape[1])


def unpacked(series: ParquetSeries) -> FileRows:
    """Unpack the series into a temporary file, which is removed after its last use."""
    folder = Path(tempfile.mkdtemp(prefix="tsformer-", dir=_temporary()))
    try:
        _check_room(series, folder)
        lengths = []
        with (folder / "series").open("wb") as file:
            for part in series.parts():
                part.numbers.tofile(file)
                lengths.append(part.lengths)
        rows = FileRows(folder / "series", series.dtype, np.concatenate(lengths), part.k)
        weakref.finalize(rows, _remove, folder, os.getpid())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return rows


def parquet_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return a Parquet file, or all in a folder by name, except for ``.*`` and ``_*``."""
    path = Path(path)
    if not path.is_dir():
        return [path] if path.suffix.lower() in PARQUET else []
    return sorted(
        each
        for each in path.iterdir()
        if each.suffix.lower() in PARQUET and each.is_file() and each.name[0] not in "._"
    )


def holds_lists(path: str | os.PathLike[str]) -> bool:
    """Whether the first Parquet file at a path has lists in its rows."""
    files = parquet_files(path)
    if not files:
        return False
    with open_parquet(files[0]) as opened:
        return any(_nesting(each.type)[0] for each in opened.schema_arrow)


def _arrow() -> Any:
    return require("pyarrow", extra="parquet", purpose="reading Parquet")


@contextmanager
def open_parquet(file: Path) -> Iterator[Any]:
    """Open a Parquet file, and name it in errors about its content."""
    pa = _arrow()
    parquet = require("pyarrow.parquet", extra="parquet", purpose="reading Parquet")
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {file}")
    try:
        with parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False) as opened:
            refuse_repeated(file, opened.schema_arrow.names)
            yield opened
    except MemoryError:  # of Arrow it is one of the following too
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{file} cannot be read as Parquet: {error}") from error


def refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Raise ValueError if two columns have the same name."""
    for name, count in Counter(names).items():
        if count > 1 and name:
            raise ValueError(f"{path} has {count} columns called {name!r}; rename all but one")


def _nesting(kind: Any) -> tuple[int, Any]:
    """Return the depth of nested lists, 0 for none, and the type in them."""
    types = _arrow().types
    depth = 0
    kind = _storage(kind)
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind, depth = _storage(kind.value_type), depth + 1
    return depth, kind


def _storage(kind: Any) -> Any:
    """Return the storage type: arrays of Hugging Face are nested lists."""
    return getattr(kind, "storage_type", kind)


def _plain(column: Any) -> Any:
    return getattr(column, "storage", column)


def _kinds(file: Path, schema: Any, columns: Sequence[str] | None) -> dict[str, _Kind]:
    """Return the columns of values; raise ValueError if they are not lists of numbers."""
    types = _arrow().types
    found = {}
    for name in columns or ():
        check_known(f"column of {file}", name, schema.names)
    for field in schema:
        depth, kind = _nesting(field.type)
        if not depth if columns is None else field.name not in columns:
            continue
        numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        flat = hasattr(field.type, "shape") and len(field.type.shape) > 1  # a tensor in one list
        if depth not in (1, 2) or not numbers or flat:
            raise ValueError(
                f"column {field.name!r} of {file} has {field.type} in a row; a channel is a list "
                "of numbers, and several are a list of such lists. Columns without lists are left "
                "out; otherwise select the columns with `tsformer convert FILE... --value NAME "
                "--out FOLDER`, and pass the folder"
            )
        found[field.name] = _Kind(depth, np.dtype(kind.to_pandas_dtype()))
    if not found:
        listed = ", ".join(f"{each.name}: {each.type}" for each in list(schema)[:10])
        raise ValueError(
            f"{file} has no series in its rows, as lists of numbers; it has {listed}. A table with "
            "a row for each observation, or a column for each step, cannot be read in parts: "
            "`tsformer convert FILE... --case ID --time T --label Y --out FOLDER` makes a folder "
            "of it that can, and pandas.read_parquet with tsformer.data.from_long reads it whole"
        )
    return {name: found[name] for name in columns} if columns else found


def _n_values(metadata: Any, kinds: dict[str, _Kind]) -> int:
    """Return the number of values in a file, from its metadata."""
    groups = (metadata.row_group(group) for group in range(metadata.num_row_groups))
    columns = (group.column(column) for group in groups for column in range(group.num_columns))
    names = tuple(f"{name}." for name in kinds)  # a list's path is x.list.element
    return sum(each.num_values for each in columns if each.path_in_schema.startswith(names))


def _merged(lists: list[_Lists]) -> _Lists:
    """Merge columns: all channels of one series, then of the next."""
    lengths, k = lists[0].lengths, sum(each.k for each in lists)
    if len(lists) == 1:
        return lists[0]
    cut = [np.split(each.numbers, np.cumsum(each.k * lengths)[:-1]) for each in lists]
    numbers = np.concatenate([piece for row in zip(*cut, strict=True) for piece in row])
    return _Lists(numbers, lengths, k)


def _temporary() -> str:
    """Return the folder for temporary files that may be large."""
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    # /tmp is often in memory.
    on_disk = not chosen and os.access("/var/tmp", os.W_OK)
    return "/var/tmp" if on_disk else tempfile.gettempdir()


def _check_room(series: ParquetSeries, folder: Path) -> None:
    """Raise OSError if the disk is too small; warn of many bytes."""
    needed, free = series.n_values * series.dtype.itemsize, shutil.disk_usage(folder).free
    once = f"unpack it once, with `tsformer convert {series.path} --out FOLDER`, and pass FOLDER"
    if needed > free:
        raise OSError(
            f"{series.path} takes {needed / 2**30:.1f} GiB unpacked, and {folder.parent} has "
            f"{free / 2**30:.1f} GiB free: set TMPDIR to a folder with more room, or {once}"
        )
    if needed >= _MANY_BYTES:
        warn_caller(
            f"each call of fit and predict unpacks {series.path} into {needed / 2**30:.1f} GiB of "
            f"{folder.parent}; {once}",
            UserWarning,
        )


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)
