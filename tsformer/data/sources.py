"""Read series from a data set's name, a file or a folder, and write them to files."""

import os
import shutil
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._warnings import warn_caller
from tsformer.data.archive import load_dataset
from tsformer.data.containers import SERIES_FILE, to_source
from tsformer.data.formats import FRAMES, TEXT
from tsformer.data.long import to_long
from tsformer.data.parquet import PARQUET, parquet_files
from tsformer.data.series import SeriesSource, parts_of
from tsformer.data.table import Source, TableSchema, read_table, read_windows, write_table
from tsformer.data.text import COMPRESSED, ending
from tsformer.data.tsfile import DatasetError, has_times, read_ts, writable_labels, write_ts

#: The labels in a folder that `convert_to_folder` made.
LABELS_FILE = "labels.npy"


def is_file(source: str) -> bool:
    """Return whether a source is a file, by its ending."""
    return Path(source).suffix != "" and not is_series_folder(source)


def is_table(source: str) -> bool:
    """Return whether a source is a table, by its ending."""
    return ending(source) in (*TEXT, *FRAMES)


def is_folder(source: str) -> bool:
    """Return whether a source is a folder, as ``series/``."""
    return "/" in source.replace("\\", "/") and Path(source).is_dir()


def read_folder(source: str, schema: TableSchema | None = None) -> Source:
    """Read the series, without labels, of all files in a folder."""
    if is_series_folder(source):
        return read_source(source, schema, labelled=False)
    endings = (".ts", *TEXT, *FRAMES)
    files = sorted(file for file in Path(source).iterdir() if ending(file) in endings)
    if not files:
        raise ValueError(f"{source} has no file of series, ending in one of {', '.join(endings)}")
    return _read_files(files, schema, labelled=False)


def _read_files(files: Sequence[Path], schema: TableSchema | None, **options: Any) -> Source:
    """Read the series of several files, with the columns of the first table."""
    parts: list[Source] = []
    for file in files:
        schema = next((part.schema for part in parts if part.schema), schema)
        parts.append(read_source(str(file), None if ending(file) == ".ts" else schema, **options))
    X, ys, cases, schemas, groups, _ = zip(*parts, strict=True)
    return Source(
        [x for series in X for x in series],
        None if any(y is None for y in ys) else np.concatenate(ys),
        None if any(names is None for names in cases) else [n for names in cases for n in names],
        next(filter(None, schemas), None),
        None if any(group is None for group in groups) else np.concatenate(groups),
    )


def read_source(
    source: str,
    schema: TableSchema | None = None,
    *,
    trained: TableSchema | None = None,
    split: str = "train",
    labelled: bool | None = True,
) -> Source:
    """Read series from a data set, a file or a folder."""
    path = Path(source)
    if path.is_fifo():
        raise ValueError(f"{source} is a pipe, which is read only once; save it to a file first")
    suffix = ending(path)
    schema = schema or TableSchema()
    columns = (trained or TableSchema()).updated(schema)
    if trained and columns.header is None:
        columns = replace(columns, header=True)  # the names may be numbers, such as wavelengths
    if columns.window is not None and (is_table(source) or is_folder(source)):
        if trained and trained.window is None:
            raise ValueError("the model was not fitted on windows; leave out `window=`")
        return read_windows(path, columns, labelled=labelled, trained=trained is not None)
    if path.is_dir() and not is_series_folder(path) and (files := parquet_files(path)):
        options = {"trained": trained, "labelled": labelled}
        return _read_files(files, schema, **options)
    if is_table(source):
        by_model = bool(trained and not schema)
        return read_table(path, columns, labelled=labelled, by_model=by_model)
    if suffix == ".npz":
        return _read_npz(path, columns, labelled)
    if is_file(source) and suffix != ".ts":
        endings = ", ".join((".ts", *TEXT, *FRAMES, ".npz"))
        raise ValueError(
            f"{path} ends in {path.suffix!r}; files of series end in one of {endings}; text may be "
            f"compressed ({', '.join(COMPRESSED)}); save another spreadsheet as CSV"
        )
    if schema:
        fields = ", ".join(f"`{name}=`" for name in schema.as_dict())
        raise ValueError(f"{source} has no columns to name: leave out {fields}, or name a table")
    if is_series_folder(source):
        stored, file = to_source(source), path / LABELS_FILE
        if labelled and not file.is_file():
            raise DatasetError(f"the series in {source} have no labels: it has no {LABELS_FILE}")
        if labelled is False or not file.is_file():
            return Source(stored, None)
        try:
            labels = np.load(file, allow_pickle=False)
        except (ValueError, EOFError):  # its message may advise to run the content
            labels = np.zeros(0)
        if labels.shape != (len(stored),) or labels.dtype.kind != "U":
            raise ValueError(f"{file} must have a text for each of the {len(stored)} series")
        return Source(stored, labels)
    X, y = read_ts(path) if suffix == ".ts" else load_dataset(source, split)
    if labelled and y is not None and y.dtype.kind == "f":
        raise DatasetError(
            f"{source} has numbers in place of classes (@targetLabel true): use "
            "TSTransformerRegressor in Python"
        )
    if labelled and y is None:
        raise DatasetError(f"{path} has no labels (@classLabel false)")
    return Source(X, None if labelled is False else y)


def _read_npz(path: Path, schema: TableSchema, labelled: bool | None) -> Source:
    """Read X and y, or the arrays that `value` and `label` name."""
    value = ",".join(schema.value or ())
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays)
            label = schema.label or ("y" if labelled or "y" in names else None)
            value = value or (names[0] if len(names) == 1 else "X")
            roles = {"value": value, "case": schema.case, "group": schema.group}
            if labelled or (labelled is None and label in names):
                roles["label"] = label
            for role, name in roles.items():
                if name is not None and name not in names:
                    raise ValueError(
                        f"it has no array {name!r} but {', '.join(names[:10])}; pass `{role}=NAME`"
                    )
            read = {role: arrays[name] for role, name in roles.items() if name is not None}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error)
        if "allow_pickle" in reason:
            reason = "an array holds Python objects; save numbers and text"
        raise ValueError(f"{path} cannot be read: {reason}") from error
    X, texts = read.pop("value"), {}
    for role, array in read.items():
        name = roles[role]
        if array.shape != X.shape[:1]:
            raise ValueError(f"{path}: {name} has shape {array.shape}, expected {X.shape[:1]}")
        if (empty := pd.isna(array)).any():
            raise ValueError(f"{path}: {name} is missing for series {empty.argmax()}; drop it")
        texts[role] = array.astype(str)
    cases = texts["case"].tolist() if "case" in texts else None
    schema = replace(schema, value=(value,), label=roles.get("label") or schema.label)
    return Source(X, texts.get("label"), cases, schema, texts.get("group"))


def write_series(path: Path, source: Source, *, comment: str | None = None) -> None:
    """Write series to a new file: `.ts`, or a long table."""
    if ending(path) not in (endings := (".ts", *TEXT, *PARQUET)):
        raise ValueError(
            f"{path} ends in {path.suffix!r}; series are written to one of {', '.join(endings)}"
        )
    if path.exists():
        raise FileExistsError(f"{path} exists; choose another name, or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".ts":
        if source.y is not None and source.y.dtype.kind == "f":
            raise ValueError(f"{path} would have classes in place of numbers; write a table")
        labels = None if source.y is None else writable_labels(source.y)
        write_ts(path, source.X, labels, comment=comment)
        return
    schema = source.schema or TableSchema()
    names = {role: getattr(schema, role) or role for role in ("case", "time", "label")}
    write_table(path, to_long(source.X, source.y, cases=source.cases, **names))


def convert_to_folder(
    sources: Sequence[str], folder: Path, schema: TableSchema | None = None, *, split: str = "train"
) -> tuple[int, bool]:
    """Write series to ``series.npy`` in a new folder, and labels to ``labels.npy``."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists; choose another name, or remove it first")
    sources = [str(f) for source in sources for f in parquet_files(source) or [Path(source)]]

    def read() -> Iterator[tuple[str, SeriesSource, npt.NDArray[Any] | None]]:
        for source in sources:
            columns = schema if is_table(source) else None
            X, y, *_ = read_source(source, columns, split=split, labelled=None)
            if not isinstance(X, SeriesSource) and any(map(has_times, X)):
                warn_caller(f"a folder of series has no times: the times in {source} are left out")
            yield source, to_source(X), y

    n, n_steps = 0, 0
    labels: list[Any] = []
    channels: list[tuple[int, tuple[str, ...] | None]] = []
    for source, X, y in read():
        channels.append((X.n_channels, X.channels))
        first, (last, others) = channels[0][0], channels[-1]
        names = next((each for _, each in channels if each), None)
        if first != last or (names and others and names != others):
            raise ValueError(
                f"all series must have the same channels: earlier files have {names or first}, "
                f"{source} has {others or last}; name them in one order, `value=`"
            )
        if labels and (y is None) != (labels[0] is None):
            raise ValueError(f"of {sources[0]} and {source} one has labels and one has none")
        n, n_steps = n + len(X), max(n_steps, X.n_steps)
        labels.append(y)
    shape = n, channels[0][0], n_steps
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = 4 * prod(shape), shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"{folder} has {free / 2**30:.1f} GiB free, and {n} series, padded to the longest of "
            f"{n_steps} steps, take {needed / 2**30:.1f} GiB"
        )
    unfinished = folder / f"{SERIES_FILE}.unfinished"
    try:
        array = np.lib.format.open_memmap(unfinished, "w+", np.float32, shape)
        start = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # issued by the first reading
            for _, X, _ in read():
                for index in parts_of(X):
                    values = X.read(index).values.transpose(0, 2, 1)
                    rows = np.full((len(index), *shape[1:]), np.nan, np.float32)
                    with np.errstate(over="ignore"):
                        rows[:, :, : values.shape[2]] = values
                    if np.isinf(rows).any():  # infinite values are refused before
                        raise ValueError(
                            f"values up to {np.nanmax(np.abs(values)):.3g} do not fit into "
                            "float32; divide them by a constant first"
                        )
                    array[start : start + len(index)] = rows
                    start += len(index)
        if start != n:
            raise OSError("a source changed while it was converted; convert it again")
        array.flush()
        if labels[0] is not None:
            np.save(folder / LABELS_FILE, np.concatenate(labels).astype(np.str_))
        unfinished.rename(folder / SERIES_FILE)  # only a complete folder has this file
    finally:
        unfinished.unlink(missing_ok=True)
    return n, labels[0] is not None


def is_series_folder(path: str | os.PathLike[str]) -> bool:
    """Whether `convert_to_folder` made this folder."""
    return (Path(path) / SERIES_FILE).is_file()
