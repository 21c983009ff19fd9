"""Data sets of the UCR and UEA archives: find, read and check against the catalogue."""

import functools
import importlib.util
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import shortened, unknown
from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.data.formats import number_in, separator_of
from tsformer.data.table import TableSchema, read_table
from tsformer.data.tsfile import DatasetError, read_ts

Series = Any
Labels = npt.NDArray[Any]
_SPLITS = ("train", "test")
_BOTH = "+".join(_SPLITS)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
#: Endings of the files of a data set, in the order in which they are looked for. The UCR archive
#: came as ``.tsv``, and before that as ``.txt``, with commas or blanks.
_ENDINGS = (".ts", ".tsv", ".txt")


def load_dataset(
    name: str, split: str | None = None, *, folder: str | os.PathLike[str] | None = None
) -> tuple[Any, Labels]:
    """Load a data set of the UCR or UEA archive, or your own data in its layout.

    A data set is ``<name>/<name>_TRAIN.ts`` and ``_TEST.ts``, or ``.tsv`` or ``.txt`` with labels
    first, in ``$TSFORMER_DATA``, ``data/`` or sktime, which else downloads it to ``data/``.

    Parameters
    ----------
    name : str
        As in `list_datasets`, case included: ``"NATOPS"``.
    split : {"train", "test", "train+test"}
        Which part; by default both, with a warning: a classifier has then seen the test series.
    folder : path-like, optional
        Search only this folder, and download nothing.

    Returns
    -------
    X : ndarray (n, channels, length) of float64, or list of n arrays (channels, length)
        A list if lengths differ, of DataFrames (length, channels) with time stamps. Missing is NaN.
    y : ndarray (n,) of str or float64
        Labels, spelled as in the files, or the numbers of a regression problem.

    Raises
    ------
    DatasetError, ValueError, ImportError
        For an unknown data set, a failed download, and a file that differs from the catalogue.

    Examples
    --------
    >>> X, y = load_dataset("BasicMotions", split="train")
    >>> X.shape, sorted(set(y.tolist()))
    ((40, 6, 100), ['Badminton', 'Running', 'Standing', 'Walking'])
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DatasetError(f"{shortened(name)} is not a data set name, as 'NATOPS'; pass folder=")
    if split is not None and split not in (*_SPLITS, _BOTH):
        raise DatasetError(unknown("split", split, [*_SPLITS, _BOTH]))

    roots = _roots() if folder is None else [("folder", Path(folder))]
    _, home = _find(name, roots)
    if home is None and (folder is not None or name not in _catalog().index):
        known = [*_catalog().index, *(path.name for _, path in _own(roots))]
        problem = f"no {name} in {folder}" if name in known else unknown("data set", name, known)
        files = f"Your own data set is {_files(Path(folder or 'data'), name)}"
        hint = f"{files}; a folder of series is {name}/"
        raise DatasetError(f"{problem}; list_datasets() lists names. {hint}")
    home = home or _download(name, Path("data"))
    splits = [_read(home, name) for name in (split or _BOTH).split("+")]
    X = [x for series, _ in splits for x in series]
    y = np.concatenate([labels for _, labels in splits])
    if len({_shape(series)[0] for series in X}) > 1:
        raise DatasetError(f"the training and test series in {home} differ in number of channels")
    if split is None:
        both = f"load_dataset({name!r}) returns train and test series together"
        warn_caller(f"{both}; pass split='train', 'test' or, if both are meant, {_BOTH!r}")
    timed = isinstance(X[0], pd.DataFrame)
    return (X if timed or len({series.shape[1] for series in X}) > 1 else np.stack(X)), y


def list_datasets() -> pd.DataFrame:
    """List the data sets of the UCR and UEA archives, and your own beside them.

    Returns
    -------
    DataFrame
        One row per data set: `name`, `archive` (UCR, UEA or "own"), `train_size`, `test_size`,
        `channels`, `length_min`, `length_max`, `classes` (missing if a file is damaged), `type`,
        and `available`: "TSFORMER_DATA", "data", "sktime", or "" before its download.
    """
    roots, table = _roots(), _catalog().reset_index()
    table["available"] = [_find(name, roots)[0] for name in table["name"]]
    rows = [{"name": home.name, **_count(home), "available": root} for root, home in _own(roots)]
    local = pd.DataFrame(rows, columns=table.columns).assign(archive="own")
    return pd.concat([table, local.astype(table.dtypes)], ignore_index=True)


def folder_of(name: str) -> Path | None:
    """Return the folder of a data set on this machine; None if it has not been downloaded."""
    return _find(name, _roots())[1]


@functools.cache
def _catalog() -> pd.DataFrame:
    table = pd.read_csv(Path(__file__).with_name("catalog.csv"), index_col="name")
    return table.convert_dtypes()  # undocumented numbers are missing, and others stay whole


def _roots() -> list[tuple[str, Path]]:
    """Return the folders to search, in order, each with its name in `list_datasets`."""
    roots = []
    if named := os.environ.get("TSFORMER_DATA"):
        if not Path(named).is_dir():
            raise DatasetError(f"TSFORMER_DATA={named!r} is no folder: correct or unset it")
        roots.append(("TSFORMER_DATA", Path(named)))
    roots.append(("data", Path("data")))
    project = Path(__file__).parents[2]
    if (project / "pyproject.toml").is_file():  # a checkout, not an installed package
        roots.append(("data", project / "data"))
    sktime = importlib.util.find_spec("sktime")  # finds without importing, which takes seconds
    if sktime is not None and sktime.origin is not None:
        roots.append(("sktime", Path(sktime.origin).parent / "datasets" / "data"))
    return roots


def _find(name: str, roots: list[tuple[str, Path]]) -> tuple[str, Path | None]:
    """Return the first root with any split of the data set, and its folder there."""
    for root, folder in roots:
        if any(_file(folder / name, split) for split in _SPLITS):
            return root, folder / name
    return "", None


def _own(roots: list[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Find data sets outside the catalogue, except in sktime."""
    folders = [folder for root, folder in roots if root != "sktime" and folder.is_dir()]
    names = {home.name for folder in folders for home in folder.iterdir()} - {*_catalog().index}
    homes = [_find(name, roots) for name in sorted(names) if _NAME.fullmatch(name)]
    return [(root, home) for root, home in homes if home is not None]


def _count(home: Path) -> dict[str, int]:
    """Return the sizes of a data set outside the catalogue; none if a file is damaged."""
    paths = {split: path for split in _SPLITS if (path := _file(home, split)) is not None}
    try:
        return _sizes({split: _read_file(path) for split, path in paths.items()})
    except (ValueError, OSError):
        return {}


def _sizes(read: dict[str, tuple[list[Series], Labels | None]]) -> dict[str, int]:
    """Return the sizes of the splits, by their names in the catalogue."""
    shapes = [_shape(series) for X, _ in read.values() for series in X]
    labels = [y for _, y in read.values() if y is not None and y.dtype.kind != "f"]
    return {f"{split}_size": len(X) for split, (X, _) in read.items()} | {
        "channels": shapes[-1][0],
        "length_min": min(steps for _, steps in shapes),
        "length_max": max(steps for _, steps in shapes),
        "classes": len({label for y in labels for label in y.tolist()}),
    }


def _file(home: Path, split: str) -> Path | None:
    files = (home / f"{home.name}_{split.upper()}{ending}" for ending in _ENDINGS)
    return next((file for file in files if file.is_file()), None)


def _files(folder: Path, name: str) -> str:
    return " and ".join(str(folder / name / f"{name}_{split.upper()}.ts") for split in _SPLITS)


def _read_file(path: Path) -> tuple[list[Series], Labels | None]:
    """Read a `.ts` file, or one with a series in each line, its label first."""
    if path.suffix == ".ts":
        return read_ts(path)
    sep = separator_of(path.read_text("utf-8").strip().partition("\n")[0])
    schema = TableSchema(label="0", value=("*",), header=False, sep=sep)
    table = read_table(path, schema, labelled=True)
    X = table.X[:, 0]
    sizes = _catalog()[["length_min", "length_max"]].reindex([path.parent.name]).iloc[0]
    ends = np.full(len(X), X.shape[1])
    if sizes.isna().any() or sizes.nunique() > 1:  # shorter series end in NaN
        ends = np.where(np.isnan(X), 0, np.arange(X.shape[1]) + 1).max(axis=1)
    labels = [  # as in a `.ts` file: 1 for 1.0000000e+00
        label if n is None or n % 1 or label.isdecimal() else str(int(n))
        for label in np.asarray(table.y).tolist()
        for n in [number_in(label)]
    ]
    return [x[None, :end] for x, end in zip(X, ends.tolist(), strict=True)], np.array(labels)


def _read(home: Path, split: str) -> tuple[list[Series], Labels]:
    """Read one split and compare it with the catalogue, if the data set is listed there."""
    if (path := _file(home, split)) is None:
        raise DatasetError(f"{home} lacks {home.name}_{split.upper()}.ts, the {split} split")
    X, y = _read_file(path)
    if y is None:
        raise DatasetError(f"{path} has no labels (@classLabel false)")
    if home.name not in _catalog().index:
        return X, y
    entry: Any = _catalog().loc[home.name]
    # A split may lack the shortest and longest series, and the test split also a class.
    allowed = {"length_min": 1, "length_max": -1, "classes": -1 if split == "test" else 0}
    wrong = [
        f"{size} {n}, expected {entry[size]}"
        for size, n in _sizes({split: (X, y)}).items()
        if not pd.isna(entry[size]) and np.sign(n - entry[size]) not in (0, allowed.get(size))
    ]
    if wrong:
        problem = f"is not the {home.name} of the catalogue: {'; '.join(wrong)}"
        raise DatasetError(f"{path} {problem}. Get it from the archive, or rename it")
    return X, y


def _shape(series: Any) -> tuple[int, int]:
    """Return the number of channels and of steps."""
    channels, steps = np.shape(series)
    return (steps, channels) if isinstance(series, pd.DataFrame) else (channels, steps)


def _download(name: str, folder: Path) -> Path:
    """Download with sktime; the data set appears in `folder` complete and checked or not at all."""
    sktime = require("sktime.datasets", extra="data", purpose=f"downloading {name}")
    folder.mkdir(parents=True, exist_ok=True)
    # In the target folder, so that the move is a rename within one file system.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as temporary:
        try:
            # sktime has no public function that downloads without reading.
            sktime.load_UCR_UEA_dataset(name, split="train", extract_path=temporary)
            for split in _SPLITS:
                _read(Path(temporary) / name, split)
        except Exception as error:
            source = f"get {_files(folder, name)} from timeseriesclassification.com"
            raise DatasetError(f"downloading {name} failed: {error}. Or {source}") from error
        try:
            return (Path(temporary) / name).rename(folder / name)
        except OSError:
            # Another process may have moved its complete copy here first.
            if _find(name, [("data", folder)])[1] is None:
                raise
            return folder / name
