"""From the rows of a comparison to files and tables."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pandas as pd
from pandas.api.types import is_object_dtype

__all__ = ["summary_table", "to_csv", "to_markdown", "write_atomically"]


def summary_table(results: pd.DataFrame) -> pd.DataFrame:
    """Summarise fits over their seeds.

    Parameters
    ----------
    results : DataFrame
        A row a fit, with the columns `dataset`, `encoding`, `accuracy`, `fit_seconds`,
        `n_parameters`.

    Returns
    -------
    DataFrame
        A row for each data set and encoding, in the order of their first fits: `dataset`,
        `encoding`, `seeds` (how many), `accuracy` (mean), `spread` (sample standard deviation of
        the accuracy, NaN with one seed), `fit_seconds` (median: a fit that was held up does not
        move it), `n_parameters`.
    """
    table = (
        results.groupby(["dataset", "encoding"], sort=False)
        .agg(
            seeds=("accuracy", "count"),
            accuracy=("accuracy", "mean"),
            spread=("accuracy", "std"),
            fit_seconds=("fit_seconds", "median"),
            n_parameters=("n_parameters", "first"),
        )
        .reset_index()
    )
    # Seeds go round last, so the first fits name every data set and encoding in the study's order.
    for column in ("encoding", "dataset"):
        order = {name: place for place, name in enumerate(results[column].unique())}
        table = table.sort_values(column, key=lambda names: names.map(order), kind="stable")
    return table.reset_index(drop=True)


def to_csv(results: pd.DataFrame) -> str:
    """Return the rows as CSV, the same on every system; None is a word, what is missing is not."""
    for name in filter(lambda name: is_object_dtype(results[name]), results.columns):
        words = ["None" if value is None else value for value in results[name]]
        results = results.assign(**{name: words})
    return results.to_csv(index=False, lineterminator="\n")


def to_markdown(table: pd.DataFrame) -> str:
    """Return a summary table as Markdown."""
    shown = pd.DataFrame(
        {
            "data set": table["dataset"],
            "encoding": table["encoding"],
            "test accuracy": [
                f"{mean:.3f}" + (f" ± {spread:.3f}" if spread >= 0 else "")
                for mean, spread in zip(table["accuracy"], table["spread"], strict=True)
            ],
            "seeds": table["seeds"].map(str),
            "fit seconds": table["fit_seconds"].map("{:.1f}".format),
            "parameters": table["n_parameters"].map("{:,}".format),
        }
    )
    rule = ["---", "---", "---:", "---:", "---:", "---:"]
    lines = [list(shown.columns), rule, *shown.to_numpy().tolist()]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def write_atomically(text: str, path: Path) -> None:
    """Write a text file in one step: whoever reads it finds the old text or the new."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        part.chmod(0o644)  # mkstemp's files are for their owner alone
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
