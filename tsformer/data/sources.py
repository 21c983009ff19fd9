"""Read series from a data set's name, a file or a folder, and write them to files."""

import os
import shutil
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.archive import load_dataset
from tsformer.data.containers import SERIES_FILE, to_source
from tsformer.data.formats import FRAMES
from tsformer.data.long import to_long
from tsformer.data.parquet import PARQUET, parquet_files
from tsformer.data.series import SeriesSource, parts_of
from tsformer.data.table import TEXT, Source, TableSchema, read_table, read_windows, write_table
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
        raise ValueError(
            f"{source} has no columns to name: leave out {fields}, or name a table "
            f"({', '.join((*TEXT, *FRAMES))})"
        )
    if is_series_folder(source):
        stored = to_source(source)
        labels = None if labelled is False else read_labels(source, len(stored))
        if labelled and labels is None:
            raise DatasetError(f"the series in {source} have no labels: it has no {LABELS_FILE}")
        return Source(stored, labels)
    X, y = read_ts(path) if suffix == ".ts" else load_dataset(source, split)
    if labelled and y is not None and y.dtype.kind == "f":
        raise DatasetError(
            f"{source} has numbers in place of classes (@targetLabel true): pass what load_dataset "
            "or read_ts return to TSTransformerRegressor in Python"
        )
    if labelled and y is None:
        raise DatasetError(f"{path} has no labels (@classLabel false)")
    return Source(X, None if labelled is False else y)


def _read_npz(path: Path, schema: TableSchema, labelled: bool | None) -> Source:
    """Read X and y, or the arrays that `value` and `label` name."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays)
            chosen = {"value": "X", "label": "y", "case": None, "group": None}
            for role, usual in chosen.items():
                name = getattr(schema, role)
                name = name[0] if isinstance(name, tuple) and len(name) == 1 else name
                chosen[role] = name or (usual if usual in names else None)
            if chosen["value"] is None and len(names) == 1:
                chosen["value"] = names[0]
            for role in ("value", *(["label"] if labelled else [])):
                if chosen[role] is None or chosen[role] not in names:
                    what = {"value": "X, the series,", "label": "y, the labels,"}[role]
                    if chosen[role] is not None:  # such as the columns of a model's table
                        what = f"array {shortened(chosen[role])}"
                    raise ValueError(
                        f"it has no {what} but {', '.join(names[:10])}; pass `{role}=NAME`"
                    )
            if labelled is False or chosen["label"] not in names:
                chosen["label"] = None
            read = {role: arrays[name] for role, name in chosen.items() if name is not None}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error)
        if "allow_pickle" in reason:
            reason = "an array holds Python objects; save numbers and text"
        raise ValueError(f"{path} cannot be read: {reason}") from error
    X = read.pop("value")
    for role, array in read.items():
        if array.shape != X.shape[:1]:
            raise ValueError(
                f"{path}: {chosen[role]} has shape {array.shape}, expected {X.shape[:1]}, an entry "
                "for each series"
            )
        if array.dtype.kind in "fmM" and np.isnan(array).any():
            row = int(np.isnan(array).argmax())
            raise ValueError(f"{path}: {chosen[role]} is missing for series {row}; leave it out")
    texts = {role: array.astype(str) for role, array in read.items()}
    cases = texts["case"].tolist() if "case" in texts else None
    schema = replace(schema, value=(str(chosen["value"]),), label=chosen["label"] or schema.label)
    return Source(X, texts.get("label"), cases, schema, texts.get("group"))


def write_series(path: Path, source: Source, *, comment: str | None = None) -> None:
    """Write series to a new file: `.ts`, or a long table."""
    if ending(path) not in (".ts", *TEXT, *PARQUET):
        endings = ", ".join((".ts", *TEXT, *PARQUET))
        raise ValueError(f"{path} ends in {path.suffix!r}; series are written to one of {endings}")
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
    table = to_long(
        source.X,
        source.y,
        cases=source.cases,
        case=schema.case or "case",
        time=schema.time or "time",
        label=schema.label or "label",
    )
    write_table(path, table)


def convert_to_folder(
    sources: Sequence[str], folder: Path, schema: TableSchema | None = None, *, split: str = "train"
) -> tuple[int, bool]:
    """Write series to ``series.npy`` in a new folder, and labels to ``labels.npy``."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists; choose another name, or remove it first")

    sources = [str(f) for source in sources for f in parquet_files(source) or [Path(source)]]

    def read(source: str) -> tuple[SeriesSource, npt.NDArray[Any] | None, bool]:
        columns = schema if is_table(source) else None
        X, y, *_ = read_source(source, columns, split=split, labelled=None)
        timed = not isinstance(X, SeriesSource) and any(map(has_times, X))
        return to_source(X), y, timed

    def values() -> Iterator[SeriesSource]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # issued by the first reading
            yield from (read(source)[0] for source in sources)

    shapes, labels, timed = [], [], []
    names: tuple[str, ...] | None = None
    for source in sources:
        X, y, has = read(source)
        shapes.append((len(X), X.n_channels, X.n_steps))
        labels.append(y)
        timed += [source] if has else []
        if X.n_channels != shapes[0][1]:
            raise ValueError(
                f"all series must have the same channels: {sources[0]} has {shapes[0][1]}, "
                f"{source} has {X.n_channels}"
            )
        names = names or X.channels
        if names and X.channels and X.channels != names:
            raise ValueError(
                f"all series must have the same channels: {source} has {X.channels[:10]}, and an "
                f"earlier file {names[:10]}; name them in one order, `value=`"
            )
    known = [y for y in labels if y is not None]
    if known and len(known) < len(labels):
        unlabelled = next(source for source, y in zip(sources, labels, strict=True) if y is None)
        raise ValueError(f"{unlabelled} has no labels, and other sources have; give all or none")
    if timed:
        warn_caller(f"a folder of series has no times: the times in {timed[0]} are left out")
    sizes, _, steps = zip(*shapes, strict=True)
    shape = sum(sizes), shapes[0][1], max(steps)
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = 4 * prod(shape), shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"{folder} has {free / 2**30:.1f} GiB free, and {shape[0]} series, padded to the "
            f"longest of {shape[2]} steps, take {needed / 2**30:.1f} GiB; shorten the longest "
            "series, or choose another disk"
        )
    if known:
        np.save(folder / LABELS_FILE, np.concatenate(known).astype(np.str_))
    unfinished = folder / f"{SERIES_FILE}.unfinished"
    try:
        _write_padded(unfinished, shape, values())
        unfinished.rename(folder / SERIES_FILE)  # only a complete folder has this file
    finally:
        unfinished.unlink(missing_ok=True)
    return shape[0], bool(known)


def _write_padded(path: Path, shape: tuple[int, ...], sources: Iterable[SeriesSource]) -> None:
    """Write series to a `.npy` file of float32, padded with NaN."""
    array = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    start = 0
    for series in sources:
        for index in parts_of(series):
            values = series.read(index).values.transpose(0, 2, 1)
            with np.errstate(over="ignore"):
                rows = values.astype(np.float32)
            if np.isinf(rows).any():  # infinite values are refused before
                raise ValueError(
                    f"values up to {np.nanmax(np.abs(values)):.3g} do not fit into float32; divide "
                    "them by a constant first"
                )
            stop = start + len(index)
            array[start:stop, :, : values.shape[2]] = rows
            array[start:stop, :, values.shape[2] :] = np.nan
            start = stop
    if start != len(array):
        raise OSError("a source changed while it was converted; convert it again")
    array.flush()


def is_series_folder(path: str | os.PathLike[str]) -> bool:
    """Whether `convert_to_folder` made this folder."""
    return (Path(path) / SERIES_FILE).is_file()


def read_labels(folder: str | os.PathLike[str], n: int) -> npt.NDArray[np.str_] | None:
    """Return the labels of the `n` series in a folder, or None."""
    path = Path(folder) / LABELS_FILE
    if not path.is_file():
        return None
    try:
        labels = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        reason = "it holds Python objects" if "allow_pickle" in str(error) else str(error)
        raise ValueError(
            f"{path} does not hold labels: {reason}; write them with np.save(path, y.astype(str))"
        ) from error
    if not isinstance(labels, np.ndarray) or labels.shape != (n,) or labels.dtype.kind != "U":
        found = getattr(labels, "dtype", type(labels).__name__), np.shape(labels)
        raise ValueError(
            f"{path} must have a text for each of the {n} series; got {found[0]} of shape "
            f"{found[1]}"
        )
    return labels
