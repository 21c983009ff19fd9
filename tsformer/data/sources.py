"""Read series from a data set's name, a file or a folder, and write them to files."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tsformer._files import replacing
from tsformer._warnings import warn_caller
from tsformer.data.archive import load_dataset
from tsformer.data.containers import SERIES_FILE, to_source
from tsformer.data.formats import COMPRESSED, PARQUET, TABLES, ending, parquet_files
from tsformer.data.layout import layout_is_checked
from tsformer.data.long import to_long
from tsformer.data.series import SeriesSource, parts_of
from tsformer.data.table import Source, TableSchema, read_table, read_windows
from tsformer.data.tsfile import DatasetError, has_times, read_ts, writable_labels, write_ts

#: The labels in a folder that `convert_to_folder` made.
LABELS_FILE = "labels.npy"


def is_file(source: str) -> bool:
    """Return whether a source is a file, by its ending."""
    return Path(source).suffix != "" and not is_series_folder(source)


def is_series_folder(path: str | os.PathLike[str]) -> bool:
    """Whether `convert_to_folder` made this folder."""
    return (Path(path) / SERIES_FILE).is_file()


def read_source(
    source: str | os.PathLike[str],
    schema: TableSchema | None = None,
    *,
    trained: TableSchema | None = None,
    split: str = "train",
    labelled: bool | None = True,
) -> Source:
    """Read series from a data set, a file or a folder."""
    source, path, suffix = os.fspath(source), Path(source), ending(source)
    schema = schema or TableSchema()
    columns = (trained or TableSchema()).updated(schema)
    if trained and columns.header is None:
        columns = replace(columns, header=True)  # the names may be numbers, such as wavelengths
    if path.is_fifo():
        raise ValueError(f"{source} is a pipe, which is read only once; save it to a file first")
    is_folder = "/" in source.replace("\\", "/") and path.is_dir()
    if columns.window is not None and (suffix in TABLES or is_folder):
        if trained and trained.window is None:
            raise ValueError("the model was not fitted on windows; leave out `window=`")
        return read_windows(path, columns, labelled=labelled, trained=trained is not None)
    if suffix in TABLES:
        return read_table(path, columns, labelled=labelled)
    stored = is_series_folder(path)
    files = [] if stored or not path.is_dir() else parquet_files(path)
    if is_folder and not stored and not files:
        files = [f for f in sorted(path.iterdir()) if ending(f) in (".ts", *TABLES)]
    if files:
        return _read_files(files, schema, trained=trained, labelled=labelled)
    if is_file(source) and suffix != ".ts":
        endings = ", ".join((".ts", *TABLES, *COMPRESSED))
        ways = f"files of series end in one of {endings}; save as CSV, or arrays in a folder"
        raise ValueError(f"{path} ends in {path.suffix!r}; {ways}: {SERIES_FILE}, {LABELS_FILE}")
    if schema:
        fields = ", ".join(f"`{name}=`" for name in schema.as_dict())
        raise ValueError(f"{source} has no columns to name: leave out {fields}, or name a table")
    if stored:
        X: Any = to_source(path)
        y = None if labelled is False else _stored_labels(path / LABELS_FILE, len(X))
    else:
        X, y = read_ts(path) if suffix == ".ts" else load_dataset(source, split)
    if labelled and (y is None or y.dtype.kind == "f"):
        kind = "no labels" if y is None else "numbers in place of classes (@targetLabel true)"
        raise DatasetError(f"{source} has {kind}; use TSTransformerRegressor in Python for numbers")
    return Source(X, None if labelled is False else y)


def _read_files(files: Sequence[Path], schema: TableSchema, **options: Any) -> Source:
    """Read the series of several files, with the columns of the first table."""
    sources: list[Source] = []
    for file in files:
        schema = next((source.schema for source in sources if source.schema), schema)
        sources.append(read_source(file, None if ending(file) == ".ts" else schema, **options))
    X, ys, cases, schemas, groups, _ = zip(*sources, strict=True)
    return Source(
        [x for series in X for x in series],
        None if any(y is None for y in ys) else np.concatenate(ys),
        None if any(names is None for names in cases) else [n for names in cases for n in names],
        next(filter(None, schemas), None),
        None if any(group is None for group in groups) else np.concatenate(groups),
    )


def _stored_labels(file: Path, n: int) -> npt.NDArray[Any] | None:
    """Read the labels of a folder of series, if it has any."""
    if not file.is_file():
        return None
    try:
        labels: npt.NDArray[Any] = np.load(file, allow_pickle=False)
    except (ValueError, EOFError):  # its message may advise to run the content
        labels = np.zeros(0)
    if labels.shape != (n,) or labels.dtype.kind != "U":
        raise ValueError(f"{file} must have a text for each of the {n} series")
    return labels


def write_series(path: Path, source: Source, *, comment: str | None = None) -> None:
    """Write series to a new file: `.ts`, or a long table."""
    if ending(path) not in (endings := (".ts", *TABLES)):
        raise ValueError(f"{path} ends in {path.suffix!r}; series are written to {endings}")
    if path.exists():
        raise FileExistsError(f"{path} exists; choose another name, or remove it first")
    with layout_is_checked():
        to_source(source.X)  # refuses infinite values, and series without any
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".ts":
        if source.y is not None and source.y.dtype.kind == "f":
            raise ValueError(f"{path} would have classes in place of numbers; write a table")
        labels = None if source.y is None else writable_labels(source.y)
        write_ts(path, source.X, labels, comment=comment)
        return
    schema = source.schema or TableSchema()
    names = {role: getattr(schema, role) or role for role in ("case", "time", "label")}
    table = to_long(source.X, source.y, cases=source.cases, **names)
    if ending(path) in PARQUET:
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if ending(path) == ".tsv" else ",")


def convert_to_folder(
    sources: Sequence[str], folder: Path, schema: TableSchema | None = None, *, split: str = "train"
) -> tuple[int, bool]:
    """Write series to ``series.npy`` in a new folder, and labels to ``labels.npy``."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists; choose another name, or remove it first")
    sources = [str(f) for source in sources for f in parquet_files(source) or [Path(source)]]

    def read() -> Iterator[tuple[str, SeriesSource, npt.NDArray[Any] | None]]:
        for source in sources:
            columns = schema if ending(source) in TABLES else None
            X, y, *_ = read_source(source, columns, split=split, labelled=None)
            if not isinstance(X, SeriesSource) and any(map(has_times, X)):
                warn_caller(f"a folder of series has no times: the times in {source} are left out")
            yield source, to_source(X), y

    n = n_channels = n_steps = 0
    names: tuple[str, ...] | None = None
    labels: list[Any] = []
    for source, X, y in read():
        n_channels, names = n_channels or X.n_channels, names or X.channels
        if X.n_channels != n_channels or X.channels not in (None, names):
            channels = f"{names or n_channels} and, in {source}, {X.channels or X.n_channels}"
            raise ValueError(f"channels differ: {channels}; name them in one order, `value=`")
        if labels and (y is None) != (labels[0] is None):
            raise ValueError(f"only one of {sources[0]} and {source} has labels")
        n, n_steps = n + len(X), max(n_steps, X.n_steps)
        labels.append(y)
    folder.mkdir(parents=True, exist_ok=True)
    header: Any = {"descr": "<f4", "fortran_order": False, "shape": (n, n_channels, n_steps)}
    with (
        replacing(folder / SERIES_FILE) as file,  # only a complete folder has this file
        warnings.catch_warnings(action="ignore"),  # issued by the first reading
    ):
        form: Any = np.lib.format
        form.write_array_header_1_0(file, header)
        for _, X, _ in read():
            for index in parts_of(X, least=n_channels * n_steps):
                block = np.full((len(index), n_channels, n_steps), np.nan, np.float32)
                values = X.read(index).values.transpose(0, 2, 1)
                block[..., : values.shape[2]] = values
                if np.isinf(block).any():  # infinite values are refused before
                    raise ValueError("values do not fit into float32; divide them first")
                file.write(block.tobytes())
                n -= len(index)
        if n:
            raise OSError("a source changed while it was converted; convert it again")
        if labels[0] is not None:
            np.save(folder / LABELS_FILE, np.concatenate(labels).astype(np.str_))
    return header["shape"][0], labels[0] is not None
