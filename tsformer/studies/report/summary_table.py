"""The summary table of a comparison: accuracy and cost of each encoding on each data set."""

from typing import Any

import pandas as pd

from tsformer._markdown import markdown_table
from tsformer.studies.analysis.study_scores import distinct_fits, skipped_fits


def summary_table(results: pd.DataFrame, failures: pd.DataFrame | None = None) -> pd.DataFrame:
    """Summarise fits over their seeds and resamples.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` (or `method`), `accuracy`,
        `fit_seconds`, `n_parameters`, and perhaps `predict_seconds`, `peak_memory_mb`, `helped`.
    failures : DataFrame, optional
        One row per fit that raised, with the same names and `error`.

    Returns
    -------
    DataFrame
        One row per data set and encoding, in the order of their first fits: `dataset`, `encoding`,
        `fits` (a deterministic fit counts once), `accuracy` (mean), `spread` (sample standard
        deviation), `fit_seconds` (median), `n_parameters`; if known, `predict_seconds` (median),
        `peak_memory_mb` (maximum) and `helped` (conversions of series, or why it was skipped).
    """
    name = "method" if "method" in results.columns else "encoding"
    measures: dict[str, tuple[str, Any]] = {
        "fits": ("accuracy", "count"),
        "accuracy": ("accuracy", "mean"),
        "spread": ("accuracy", "std"),
        "fit_seconds": ("fit_seconds", "median"),
        "n_parameters": ("n_parameters", "first"),
        "predict_seconds": ("predict_seconds", "median"),
        "peak_memory_mb": ("peak_memory_mb", "max"),
        "helped": ("helped", _all_words),
    }
    measures = {key: of for key, of in measures.items() if of[0] in results.columns}
    keys = ["dataset", name]
    fits = distinct_fits(results, *keys).groupby(keys, sort=False)
    table, named = fits.agg(**measures).reset_index(), results[keys]
    if failures is not None and len(skipped := skipped_fits(failures)):
        rows = skipped.assign(fits=0, helped="skipped: " + skipped["reason"])
        table = pd.concat([table, rows[[*keys, "fits", "helped"]]]).drop_duplicates(keys)
        named = pd.concat([named, skipped[keys]])
    # Seeds vary slowest, so the first fits name every data set and encoding in the study's order.
    for key in reversed(keys):
        order = {name: index for index, name in enumerate(named[key].unique())}
        table = table.sort_values(key, key=lambda names: names.map(order), kind="stable")
    return table.reset_index(drop=True)


def to_markdown(table: pd.DataFrame) -> str:
    """Return a summary table as Markdown."""
    name = "method" if "method" in table.columns else "encoding"
    columns = {"data set": table["dataset"], name: table[name]}
    for title, column, form in (
        (" test accuracy", "accuracy", ".3f"),
        (" fits", "fits", "d"),
        (" fit seconds", "fit_seconds", ".1f"),
        (" predict seconds", "predict_seconds", ".1f"),
        (" peak MB", "peak_memory_mb", ",.0f"),
        (" parameters", "n_parameters", ",.0f"),
    ):
        if column in table.columns:
            cells = ["–" if pd.isna(number) else format(number, form) for number in table[column]]
            columns[title] = pd.Series(cells, table.index)
    spreads = [f" ± {spread:.3f}" if spread >= 0 else "" for spread in table["spread"]]
    columns[" test accuracy"] += spreads
    if "helped" in table.columns and table["helped"].any():
        columns["series were"] = table["helped"]
    return markdown_table(list(columns), zip(*columns.values(), strict=True))


def _all_words(helped: pd.Series) -> str:
    return ", ".join(dict.fromkeys(filter(None, ", ".join(helped).split(", "))))
