"""Scores of methods from a file: of a study run here or of anything else, finished or not."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tsformer._checks import check_known
from tsformer.data.formats import EXACT
from tsformer.studies.design.study import read_study_file

COLUMNS = ("dataset", "method", "seed", "score")
#: Column of a cost -> its name in tables and figures, in their order.
COSTS = {
    "fit_seconds": "seconds per fit",
    "predict_seconds": "seconds to predict",
    "n_parameters": "parameters",
    "peak_memory_mb": "peak memory of fitting (MB)",
    "predict_memory_mb": "peak memory of predicting (MB)",
}
#: Column names in the results of `tsformer compare` -> names used here.
_OURS = {"encoding": "method", "accuracy": "score"}
#: Columns of text: a method named "None" is not a missing value, and an id of digits no number.
_WORDS = ("dataset", "method", "encoding", "helped", "run_id", "error")
#: The error of a fit that was skipped begins with it.
_UNREADABLE = "UnreadableSeries: "


@dataclass(frozen=True)
class StudyScores:
    """The scores of a study, with its design, and its failed and skipped fits."""

    rows: pd.DataFrame
    path: Path
    ours: bool
    varied: tuple[str, ...] = ()
    design: Mapping[str, Any] | None = None
    failed: int = 0
    n_skipped: int = 0
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """The scores of one variant of a study, and what `analyse` found in them."""

    label: str
    rows: pd.DataFrame
    used: pd.DataFrame
    statistics: Any = None  # Statistics, whose module imports this one
    mean_gains: pd.DataFrame | None = None
    costs: pd.DataFrame | None = None
    obstacle: str = ""

    @property
    def stem(self) -> str:
        """The beginning of the names of its figures."""
        return f"{re.sub(r'[^A-Za-z0-9]+', '_', self.label)}_" if self.label else ""

    @property
    def left_out(self) -> list[str]:
        """Data sets that lack some method's score, in their order."""
        compared = self.used["dataset"].unique() if self.on_one_data_set else ()
        compared = compared if self.statistics is None else self.statistics.scores.index
        return [name for name in self.rows["dataset"].unique() if name not in compared]

    @property
    def on_one_data_set(self) -> bool:
        """Whether all scores are of one data set, which allows no statistics."""
        one = self.used["dataset"].nunique() == 1 and self.used["method"].nunique() > 1
        return self.statistics is None and one


def read_study(
    path: str | os.PathLike[str], *, vary: str | Iterable[str] | None = None
) -> StudyScores:
    """Read a study from its folder, or from a CSV as `read_scores` takes it."""
    file = Path(path)
    file = file / "results.csv" if file.is_dir() else file
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}; name the folder that `tsformer compare --out` wrote, or a CSV "
            f"with the columns {', '.join(COLUMNS)}"
        )
    design_file = file.with_name("study.json")
    design = read_study_file(design_file) if design_file.is_file() else None
    planned, varied = design or {}, [vary] if isinstance(vary, str) else list(vary or ())
    if vary is None:
        varied = [*planned.get("vary", {}), *["train_size"] * bool(planned.get("train_sizes"))]
    table = _read_csv(file, varied)
    renamed = {ours: name for ours, name in _OURS.items() if name not in table.columns}
    ours = "encoding" in renamed and "encoding" in table.columns
    ours = ours or ("accuracy" in renamed and bool(planned.get("methods")))
    table = table.rename(columns=renamed)
    for name in COLUMNS:
        check_known("column", name, table.columns, where=f"{file} lacks a column: ")
    if table.empty:
        raise ValueError(f"{file} has no rows yet")
    for name in table.columns.intersection(["dataset", "method", *COSTS, "score"], sort=False):
        column, wrong = table[name], table[name] == ""
        if name not in _WORDS:
            wrong = column.notna() & pd.to_numeric(column, errors="coerce").isna()
        if wrong.any():
            raise ValueError(
                f"{file}, row {column.index[wrong][0] + 2}: {column[wrong].iloc[0]!r} is no "
                f"{name}; correct it, or leave the row out"
            )
    free = table.columns.drop([*COLUMNS, "resample"], errors="ignore")
    for name in varied if vary is not None else ():
        check_known("column to vary", name, list(free), where=f"{file}: ")
    varied = [name for name in dict.fromkeys(varied) if name in free]
    failures = file.with_name("failures.csv")
    there = ours and failures.is_file()
    fits = _read_csv(failures).rename(columns=renamed) if there else pd.DataFrame({"error": []})
    skipped = skipped_fits(fits)
    lines = [f"{fit.method} on {fit.dataset}: {fit.reason}" for fit in skipped.itertuples()]
    counts = {"failed": len(fits) - len(lines), "n_skipped": len(lines)}
    unread = tuple(dict.fromkeys(lines))
    return StudyScores(table, file, ours, tuple(varied), design, **counts, skipped=unread)


def _read_csv(file: Path, words: Iterable[str] = ()) -> pd.DataFrame:
    """Read a CSV; names and `words` are text without missing values."""
    text: Any = dict.fromkeys([*_WORDS, *words], str.strip)
    try:  # index_col: rows may have a comma at the end
        return pd.read_csv(file, converters=text, index_col=False, **EXACT)
    except ValueError as error:
        raise ValueError(f"{file} is not a CSV in UTF-8: {error}") from error


def was_skipped(errors: pd.Series) -> pd.Series:
    """Return whether each error says that the method cannot read such series."""
    return errors.astype(str).str.startswith(_UNREADABLE)


def skipped_fits(failures: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of skipped fits, with the `reason` in place of the error."""
    rows = failures[was_skipped(failures["error"])].rename(columns={"error": "reason"})
    return rows.assign(reason=rows["reason"].astype(str).str.removeprefix(_UNREADABLE))


def read_scores(
    path: str | os.PathLike[str], *, vary: str | Iterable[str] | None = None
) -> pd.DataFrame:
    """Read scores from a CSV, of a comparison run here or of anything else.

    Parameters
    ----------
    path : str or path
        A CSV with the columns `dataset`, `method`, `seed` and `score`; in place of `method` and
        `score`, `encoding` and `accuracy`.
    vary : str or iterable of str, optional
        Columns that distinguish variants of a study.

    Returns
    -------
    DataFrame
        These columns, `resample` if present, and the columns of `vary` with several values.
    """
    study = read_study(path, vary=vary)
    names = [*COLUMNS, "resample", *_with_several_values(study.rows, study.varied)]
    return study.rows[[name for name in names if name in study.rows.columns]]


def variant_scores(study: StudyScores) -> list[Findings]:
    """Return the scores of each variant of a study, and the subset to compare."""
    varied = _with_several_values(study.rows, study.varied)
    by_label = study.rows.groupby(labels(study.rows, varied), sort=False) if varied else None
    return [
        Findings(str(label), rows, complete(rows) if study.ours else rows)
        for label, rows in by_label or [("", study.rows)]
    ]


def labels(rows: pd.DataFrame, varied: Iterable[str]) -> pd.Series:
    """Return the label of each row's variant, as in ``"stem=linear"``."""
    words = rows[list(varied)].map(str)
    return words.apply(lambda row: ", ".join(f"{k}={v}" for k, v in row.items()), axis=1)


def complete(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose data set, seed and resample have a score of every method."""
    keys = repeat_columns(rows)
    n_methods = rows.groupby(keys, sort=False)["method"].transform("nunique")
    return rows[n_methods == rows["method"].nunique()]


def repeat_columns(rows: pd.DataFrame) -> list[str]:
    """Return the columns that identify a draw: `dataset`, `seed` and, if present, `resample`."""
    return [name for name in ("dataset", "seed", "resample") if name in rows.columns]


def distinct_fits(rows: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Return rows with each fit once per group: a deterministic fit serves all seeds."""
    if "run_id" not in rows.columns:
        return rows
    return rows[(rows["run_id"] == "") | ~rows.duplicated([*by, "run_id"])]


def _with_several_values(rows: pd.DataFrame, names: Iterable[str]) -> list[str]:
    return [name for name in names if rows[name].map(str).nunique(dropna=False) > 1]
