"""Scores of methods from a file: of a study run here or of anything else, finished or not."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tsformer._checks import check_known, shortened
from tsformer.data.text import EXACT, MISSING
from tsformer.studies.design.study_file import LISTS, TABLES, read_design

_COLUMNS = ("dataset", "method", "seed", "score")
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
_WORDS = ("dataset", "method", "encoding", "helped", "run_id")
#: The error of a fit that was skipped begins with it.
_UNREADABLE = "UnreadableSeries: "


@dataclass(frozen=True)
class StudyScores:
    """The scores of a study, with its design and its failures."""

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
    def left_out(self) -> list[str]:
        """Data sets that lack some method's score, in their order."""
        compared: list[str] = []
        if self.statistics is not None:
            compared = list(self.statistics.scores.index)
        elif self.on_one_data_set:
            compared = list(self.used["dataset"].unique())
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
    if file.is_dir():
        file = file / "results.csv"
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}; name the folder that `tsformer compare --out` wrote, or a CSV "
            f"with the columns {', '.join(_COLUMNS)}"
        )
    design = read_design(file.with_name("study.json"))
    for kind, names in ((list, LISTS), (dict, TABLES)):
        for name in names:
            said = (design or {}).get(name, kind())
            if not isinstance(said, kind):
                expected = "a list" if kind is list else "an object"
                raise ValueError(
                    f"{file.with_name('study.json')}: {name} must be {expected}; got "
                    f"{shortened(said)}"
                )
    asked = [vary] if isinstance(vary, str) else None if vary is None else list(vary)
    sizes = ["train_size"] if (design or {}).get("train_sizes") else []
    varied = [*(design or {}).get("vary", {}), *sizes] if asked is None else asked
    try:
        table = _read_csv(file, {*_WORDS, *varied})
    except pd.errors.EmptyDataError:
        raise ValueError(f"{file} is empty") from None
    except (UnicodeDecodeError, pd.errors.ParserError) as error:
        raise ValueError(f"{file} is not a CSV in UTF-8: {error}") from error
    missing = set(_COLUMNS) - set(table.columns)
    renamed = {ours: name for ours, name in _OURS.items() if name in missing}
    ours = "encoding" in renamed and "encoding" in table.columns
    ours = ours or ("accuracy" in renamed and bool((design or {}).get("methods")))
    table = table.rename(columns=renamed)
    for name in _COLUMNS:
        check_known("column", name, table.columns, where=f"{file} lacks a column: ")
    if table.empty:
        raise ValueError(f"{file} has no rows yet")
    written = {name: ours for ours, name in renamed.items()}
    for name in filter(table.columns.__contains__, ("dataset", "method", *COSTS, "score")):
        column, wrong = table[name], table[name] == ""
        if name not in _WORDS:
            wrong = column.notna() & pd.to_numeric(column, errors="coerce").isna()
        if wrong.any():
            raise ValueError(
                f"{file}, row {column.index[wrong][0] + 2}: {column[wrong].iloc[0]!r} is no "
                f"{written.get(name, name)!r}; correct it, or leave the row out"
            )
    free = [name for name in table.columns if name not in (*_COLUMNS, "resample")]
    for name in asked or ():
        check_known("column to vary", name, free, where=f"{file}: ")
    failures = file.with_name("failures.csv")
    n_failed, skipped = 0, pd.DataFrame({"reason": []})
    if ours and failures.is_file():
        fits = _read_csv(failures, {*_WORDS, "error"})
        skipped = skipped_fits(fits)
        n_failed = len(fits) - len(skipped)
    unread = [
        f"{row.get('method', row.get('encoding'))} on {row['dataset']}: {row['reason']}"
        for row in skipped.to_dict("records")
    ]
    table = table.astype({"dataset": str, "method": str})
    return StudyScores(
        rows=table,
        path=file,
        ours=ours,
        varied=tuple(name for name in dict.fromkeys(varied) if name in free),
        design=design,
        failed=n_failed,
        n_skipped=len(unread),
        skipped=tuple(dict.fromkeys(unread)),
    )


def _read_csv(file: Path, words: set[str]) -> pd.DataFrame:
    """Read a CSV; columns of `words` are text without missing values."""
    numbers = [name for name in pd.read_csv(file, nrows=0).columns if name not in words]
    table = pd.read_csv(
        file,
        dtype=dict.fromkeys(words, str),
        keep_default_na=False,
        na_values=dict.fromkeys(numbers, MISSING),
        index_col=False,  # also of rows with a comma at the end
        **EXACT,
    )
    for name in words.intersection(table.columns):
        table[name] = table[name].str.strip()  # as typed by hand
    return table


def was_skipped(errors: pd.Series) -> pd.Series:
    """Return whether each error says that the method cannot read such series."""
    return errors.astype(str).str.startswith(_UNREADABLE)


def skipped_fits(failures: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of skipped fits, with the `reason` in place of the error."""
    rows = failures[was_skipped(failures["error"])]
    reasons = rows["error"].astype(str).str.removeprefix(_UNREADABLE)
    return rows.assign(reason=reasons).drop(columns="error")


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
        Columns that distinguish variants of a study, as `read_study` takes them.

    Returns
    -------
    DataFrame
        These columns, `resample` if present, and the columns of `vary` with several values.
    """
    study = read_study(path, vary=vary)
    resample = [name for name in ("resample",) if name in study.rows.columns]
    return study.rows[[*_COLUMNS, *resample, *_with_several_values(study.rows, study.varied)]]


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


def fit_of(rows: pd.DataFrame) -> pd.Series:
    """Identify the fit of each row: a deterministic fit serves all seeds."""
    each = pd.Series(rows.index.map(str), rows.index)  # without a recorded run
    return rows["run_id"].where(rows["run_id"] != "", each) if "run_id" in rows.columns else each


def distinct_fits(rows: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Return rows with each fit once per group: copies for other seeds are no further evidence."""
    return rows[~rows[list(by)].assign(fit=fit_of(rows)).duplicated()]


def _with_several_values(rows: pd.DataFrame, names: Iterable[str]) -> list[str]:
    return [name for name in names if rows[name].map(str).nunique(dropna=False) > 1]
