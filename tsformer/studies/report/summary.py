"""The summary table of a comparison: accuracy and cost of each encoding on each data set."""

from __future__ import annotations

import pandas as pd

from tsformer.studies.report.render import markdown_table

__all__ = ["summary_table", "to_markdown"]


def summary_table(results: pd.DataFrame) -> pd.DataFrame:
    """Summarise fits over their seeds and resamples.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding`, `accuracy`, `fit_seconds`,
        `n_parameters`.

    Returns
    -------
    DataFrame
        One row per data set and encoding, in the order of their first fits: `dataset`,
        `encoding`, `seeds` (how many), `accuracy` (mean), `spread` (sample standard deviation of
        the accuracy, NaN for a single seed), `fit_seconds` (median, so that a fit that was held
        up does not shift it), `n_parameters`.
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
    # Seeds vary slowest, so the first fits name every data set and encoding in the study's order.
    for column in ("encoding", "dataset"):
        order = {name: place for place, name in enumerate(results[column].unique())}
        table = table.sort_values(column, key=lambda names: names.map(order), kind="stable")
    return table.reset_index(drop=True)


def to_markdown(table: pd.DataFrame) -> str:
    """Return a summary table as Markdown."""
    rows = zip(
        table["dataset"],
        table["encoding"],
        (
            f"{mean:.3f}" + (f" ± {spread:.3f}" if spread >= 0 else "")
            for mean, spread in zip(table["accuracy"], table["spread"], strict=True)
        ),
        table["seeds"].map(str),
        table["fit_seconds"].map("{:.1f}".format),
        table["n_parameters"].map("{:,}".format),
        strict=True,
    )
    header = ["data set", "encoding", " test accuracy", " seeds", " fit seconds", " parameters"]
    return markdown_table(header, rows)
