"""Scores of methods from a file: of a study here or of anything else, whole or not yet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tsformer._names import unknown
from tsformer.estimators.classifier import TSTransformerClassifier

__all__ = ["StudyScores", "complete", "labels", "read_scores", "read_study", "variants"]

_COLUMNS = ("dataset", "method", "seed", "score")
#: What a comparison of ours calls these columns.
_OURS = {"encoding": "method", "accuracy": "score"}


@dataclass(frozen=True)
class StudyScores:
    """The rows of a study with what is known of it.

    Attributes
    ----------
    rows : DataFrame
        A row a fit: `dataset`, `method`, `seed`, `score`, and every other column of the file.
    path : Path
        The file.
    ours : bool
        Whether a comparison of this package wrote it, so that fits of one seed are pairs.
    design : mapping or None
        What was asked, of ``study.json`` beside the file.
    failed : int
        How many fits raised, by ``failures.csv`` beside the file.
    """

    rows: pd.DataFrame
    path: Path
    ours: bool
    design: Mapping[str, Any] | None
    failed: int = 0


def read_study(path: str | os.PathLike[str]) -> StudyScores:
    """Read a study: its folder, or a CSV as `read_scores` takes it.

    Parameters
    ----------
    path : str or path
        A folder with ``results.csv`` (and ``study.json``), or the CSV.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing, or no fit is in it yet.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "results.csv"
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}; name the folder that `tsformer compare --out` wrote, or a CSV "
            f"with the columns {', '.join(_COLUMNS)}"
        )
    try:
        table = pd.read_csv(file, converters=dict.fromkeys(_words(), str))
    except pd.errors.EmptyDataError:
        raise ValueError(f"{file} is empty") from None
    missing = set(_COLUMNS) - set(table.columns)
    renamed = {ours: name for ours, name in _OURS.items() if name in missing}
    ours = "encoding" in renamed and "encoding" in table.columns
    table = table.rename(columns=renamed)
    for name in _COLUMNS:
        if name not in table.columns:
            raise ValueError(f"{file} lacks a column: {unknown('column', name, table.columns)}")
    if table.empty:
        raise ValueError(f"{file} holds no fit yet")
    design, failures = file.with_name("study.json"), file.with_name("failures.csv")
    return StudyScores(
        rows=table.astype({"dataset": str, "method": str}),
        path=file,
        ours=ours,
        design=json.loads(design.read_text(encoding="utf-8")) if design.is_file() else None,
        failed=len(pd.read_csv(failures)) if ours and failures.is_file() else 0,
    )


def _words() -> list[str]:
    """Columns that hold words: a method named "None" is no missing value, nor is a parameter."""
    return ["dataset", "method", "encoding", *_parameters()]


def read_scores(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read scores from a CSV, of a comparison here or of anything else.

    Parameters
    ----------
    path : str or path
        With the columns `dataset`, `method`, `seed` and `score`; in place of `method` and `score`,
        `encoding` and `accuracy`. `resample` and parameters that a study varied are kept where
        they are; other columns are left out.

    Returns
    -------
    DataFrame
        With these columns.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing, or no fit is in it yet.
    """
    rows = read_study(path).rows
    resample = [name for name in ("resample",) if name in rows.columns]
    return rows[[*_COLUMNS, *resample, *_varied(rows)]]


def variants(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Split rows by the parameters that a study varied beside the encoding.

    Parameters
    ----------
    rows : DataFrame
        A row a fit. A column with the name of one of `TSTransformerClassifier`'s parameters
        and more than one value is one that was varied.

    Returns
    -------
    dict
        Label, as ``"stem=linear"``, to rows, in the order of first appearance; of a study that
        varied nothing, the empty label to all rows.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": ["A", "A"], "stem": ["conv", "linear"], "score": [1, 0.5]})
    >>> list(variants(rows))
    ['stem=conv', 'stem=linear']
    """
    varied = _varied(rows)
    if not varied:
        return {"": rows}
    return {str(label): part for label, part in rows.groupby(labels(rows, varied), sort=False)}


def labels(rows: pd.DataFrame, varied: Iterable[str]) -> pd.Series:
    """Return the label of each row's variant, as ``"stem=linear"``."""
    words = rows[list(varied)].map(str)
    return words.apply(lambda row: ", ".join(f"{k}={v}" for k, v in row.items()), axis=1)


def complete(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose data set, seed and resample have a score of every method.

    Of a study under way some encodings have more seeds than others: means over what there is would
    compare other draws, not other encodings.
    """
    keys = repeat_columns(rows)
    there = rows.groupby(keys, sort=False)["method"].transform("nunique")
    return rows[there == rows["method"].nunique()]


def repeat_columns(rows: pd.DataFrame) -> list[str]:
    """Return the columns that tell one draw from another: `dataset`, `seed`, maybe `resample`."""
    return [name for name in ("dataset", "seed", "resample") if name in rows.columns]


def _varied(rows: pd.DataFrame) -> list[str]:
    parameters = _parameters()
    return [
        name
        for name in rows.columns
        if name in parameters and rows[name].map(str).nunique(dropna=False) > 1
    ]


def _parameters() -> set[str]:
    # What a study compares and repeats is no variant of it.
    return set(TSTransformerClassifier().get_params()) - {"encoding", "random_state"}
