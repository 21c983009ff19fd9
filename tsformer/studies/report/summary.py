"""The summary table of a comparison: accuracy and cost of each encoding on each data set."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tsformer.studies.report.render import markdown_table

__all__ = ["summary_table", "to_markdown"]


def summary_table(results: pd.DataFrame) -> pd.DataFrame:
    """Summarise fits over their seeds and resamples.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding`, `accuracy`, `fit_seconds`,
        `n_parameters`; in a study with methods, `method` in place of `encoding`, `predict_seconds`,
        `peak_memory_mb` and `helped`.

    Returns
    -------
    DataFrame
        One row per data set and encoding, in the order of their first fits: `dataset`,
        `encoding`, `fits` (how many), `accuracy` (mean), `spread` (sample standard deviation of
        the accuracy, NaN for a single fit), `fit_seconds` (median, so that a fit that was held
        up does not shift it), `n_parameters`. In a study with methods, also `predict_seconds`
        (median), `peak_memory_mb` (of the process during a fit, the most over fits) and `helped`
        (what was done to some series so that the method could read them).
    """
    name = _name(results)
    more: dict[str, tuple[str, Any]] = {}
    if name == "method":
        more = {
            "predict_seconds": ("predict_seconds", "median"),
            "peak_memory_mb": ("peak_memory_mb", "max"),
            "helped": ("helped", _all_words),
        }
    table = (
        results.groupby(["dataset", name], sort=False)
        .agg(
            fits=("accuracy", "count"),
            accuracy=("accuracy", "mean"),
            spread=("accuracy", "std"),
            fit_seconds=("fit_seconds", "median"),
            n_parameters=("n_parameters", "first"),
            **more,
        )
        .reset_index()
    )
    # Seeds vary slowest, so the first fits name every data set and encoding in the study's order.
    for column in (name, "dataset"):
        order = {name: place for place, name in enumerate(results[column].unique())}
        table = table.sort_values(column, key=lambda names: names.map(order), kind="stable")
    return table.reset_index(drop=True)


def to_markdown(table: pd.DataFrame) -> str:
    """Return a summary table as Markdown."""
    name = _name(table)
    columns = {
        "data set": table["dataset"],
        name: table[name],
        " test accuracy": [
            f"{mean:.3f}" + (f" ± {spread:.3f}" if spread >= 0 else "")
            for mean, spread in zip(table["accuracy"], table["spread"], strict=True)
        ],
        " fits": table["fits"].map(str),
        " fit seconds": table["fit_seconds"].map("{:.1f}".format),
    }
    if name == "method":
        columns[" predict seconds"] = table["predict_seconds"].map("{:.1f}".format)
        columns[" peak MB"] = table["peak_memory_mb"].map("{:,.0f}".format)
    # Only networks have a number of parameters.
    columns[" parameters"] = ["–" if pd.isna(n) else f"{n:,}" for n in table["n_parameters"]]
    if name == "method" and table["helped"].any():
        columns["series were"] = table["helped"]
    return markdown_table(list(columns), zip(*columns.values(), strict=True))


def _name(table: pd.DataFrame) -> str:
    """Return the column with the names of what is compared."""
    return "method" if "method" in table.columns else "encoding"


def _all_words(helped: pd.Series) -> str:
    return ", ".join(dict.fromkeys(filter(None, ", ".join(helped).split(", "))))
