"""Published accuracies under the protocol of a study."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tsformer._checks import nearest, unknown
from tsformer.data.archive import in_catalog, n_test

#: The protocol of a study without resamples: trained on the archive's train split, scored on its
#: test split.
PROTOCOL = "default split"
_COLUMNS = ("dataset", "method", "protocol", "accuracy", "source")
_KEYS = ["dataset", "method", "protocol"]
#: Highest probability that a rounded figure looks like a share of right answers by chance.
_CHANCE = 0.05

#: A file or a folder of files, or several of them.
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True)
class Published:
    """Published results that are comparable with a study, and messages about the rest."""

    rows: pd.DataFrame
    left_out: tuple[str, ...] = ()


def marked(method: str) -> str:
    """Mark the name of a published method, as in ``"HC2 (published)"``."""
    return f"{method} (published)"


def read_published(paths: Paths) -> pd.DataFrame:
    r"""Read published accuracies from CSV files of one format.

    Parameters
    ----------
    paths : path or iterable of paths
        A CSV with the columns `dataset`, `method`, `protocol`, `accuracy` (a share, not a
        percentage) and `source` (repository and path, or paper and table), or a folder of such
        files, or several of either. A rounded accuracy is replaced by the exact share of correct
        test series that rounds to it, so that equal results are ties.

    Returns
    -------
    DataFrame
        These columns; one row per data set, method and protocol.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or no CSV in the folder.
    ValueError
        If a file is no such table: a column is missing or unknown, with the nearest match; a cell
        is empty; an accuracy is not between 0 and 1; or there are two rows of a data set, method
        and protocol, in whichever files.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rocket.csv"
    >>> _ = path.write_text("dataset,method,protocol,accuracy,source\n"
    ...                     "Coffee,ROCKET,default split,1.0,Dempster et al. 2020 table 2\n")
    >>> read_published(path)["accuracy"].tolist()
    [1.0]
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found = {file.resolve(): file for path in given for file in _files(Path(path))}
    files = list(found.values())
    tables = [_read(file) for file in files]
    if not tables:
        raise ValueError("published must name at least one file or folder; got none")
    table = pd.concat(tables, ignore_index=True)
    twice = table.duplicated(_KEYS, keep=False)
    if twice.any():
        first, second = table[twice].sort_values(_KEYS, kind="stable").to_dict("records")[:2]
        raise ValueError(
            f"two published rows of {first['method']!r} on {first['dataset']!r} under the protocol "
            f"{first['protocol']!r}: {first['place']} and {second['place']}; keep one of them, or "
            "name the methods apart"
        )
    return table[list(_COLUMNS)]


def published_beside(rows: pd.DataFrame, paths: Paths) -> Published:
    """Return the published results on a study's data sets and the archive's split."""
    table = read_published(paths)
    none = pd.DataFrame(columns=["dataset", "method", "score", "source"])
    if "resample" in rows.columns and (rows["resample"] != 0).any():
        return Published(
            none,
            (
                f"The published results are left out: they are of the {PROTOCOL}, and the study's "
                "scores are means over resamples.",
            ),
        )
    left_out = []
    other = table[table["protocol"] != PROTOCOL]
    if len(other):
        protocols = ", ".join(map(repr, sorted(other["protocol"].unique())))
        left_out.append(
            f"{len(other)} published results are left out, because their protocol is {protocols} "
            f"and not {PROTOCOL!r}."
        )
    found = table[table["protocol"] == PROTOCOL]
    left_out += _misspelt(found, rows["dataset"].unique().tolist())
    found = found[found["dataset"].isin(rows["dataset"])]
    if found.empty:
        left_out.append(f"There is no published result of the {PROTOCOL} on any of the data sets.")
        return Published(none, tuple(left_out))
    found = found.assign(method=found["method"].map(marked))
    clash = sorted(set(found["method"]) & set(rows["method"]))
    if clash:
        raise ValueError(
            f"the study has a method called {clash[0]!r}, as a published one would be; rename it"
        )
    order = {name: place for place, name in enumerate(rows["dataset"].unique())}
    found = found.sort_values("dataset", key=lambda names: names.map(order), kind="stable")
    found = found.rename(columns={"accuracy": "score"})[list(none.columns)]
    return Published(found.reset_index(drop=True), tuple(left_out))


def _misspelt(table: pd.DataFrame, datasets: list[str]) -> list[str]:
    """Report names that look like misspelt data sets of the study."""
    said = []
    for name, rows in table.groupby("dataset", sort=False):
        if name in datasets or in_catalog(str(name)):
            continue
        there = table[table["method"].isin(rows["method"])].groupby("method")["dataset"].agg(set)
        all_have = set.intersection(*there)
        near = nearest(name, [each for each in datasets if each not in all_have])
        if near:
            said.append(
                f"Published results on {name!r} are left out, because the study has no such data "
                f"set: did you mean {near[0]!r}?"
            )
    return said


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.glob("*.csv"))
        if not files:
            raise FileNotFoundError(f"there is no CSV of published results in the folder {path}")
        return files
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path}; name a CSV with the columns {', '.join(_COLUMNS)}, or a folder "
            "of such files"
        )
    return [path]


def _read(file: Path) -> pd.DataFrame:
    """Return the rows of one file, and the `place` of each, as in ``"hc2.csv, line 2"``."""
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{file} is empty") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not a CSV of published results: {error}") from error
    if not isinstance(table.index, pd.RangeIndex):  # pandas took the first cells for an index
        raise ValueError(f"{file}: a row has more cells than there are columns; quote its commas")
    for name in table.columns:
        if name not in _COLUMNS:
            raise ValueError(f"{file}: {unknown('column of published results', name, _COLUMNS)}")
    for name in _COLUMNS:
        if name not in table.columns:
            raise ValueError(f"{file} lacks the column {name!r}; it has {', '.join(table.columns)}")
    if table.empty:
        raise ValueError(f"{file} has no rows")
    table = table.apply(lambda column: column.str.strip())
    places = pd.Series([f"{file}, line {number}" for number in range(2, len(table) + 2)])
    for name in _COLUMNS:
        if (table[name] == "").any():
            raise ValueError(f"{places[(table[name] == '').idxmax()]}: {name} is empty")
    accuracy = pd.to_numeric(table["accuracy"], errors="coerce")
    wrong = ~accuracy.between(0, 1)
    if wrong.any():
        first = wrong.idxmax()
        text, number = table["accuracy"][first], accuracy[first]
        percent = "; divide percentages by 100" if 1 < number <= 100 else ""
        raise ValueError(
            f"{places[first]}: an accuracy is a number between 0 and 1; got {text!r}{percent}"
        )
    whole = [
        _right_of_all(dataset, float(number), text)
        for dataset, number, text in zip(table["dataset"], accuracy, table["accuracy"], strict=True)
    ]
    return table.assign(accuracy=np.array(whole, dtype=np.float64), place=places)


def _right_of_all(dataset: str, accuracy: float, text: str) -> float:
    """Return the exact share of right answers behind a rounded figure."""
    n, step = n_test(dataset), 10.0 ** -len(text.partition(".")[2])
    if n is None or n * step > _CHANCE:
        return accuracy
    share = round(accuracy * n) / n
    return share if abs(share - accuracy) <= step / 2 + 1e-12 else accuracy
