"""The summary table of a comparison: accuracy and cost of each encoding on each data set."""

from typing import Any

import pandas as pd

from tsformer._markdown import markdown_table
from tsformer.studies.analysis.scores import distinct_fits, skipped_fits


def summary_table(results: pd.DataFrame, failures: pd.DataFrame | None = None) -> pd.DataFrame:
    """Summarise fits over their seeds and resamples.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding`, `accuracy`, `fit_seconds`,
        `n_parameters`; in a study with methods, `method` in place of `encoding`, `predict_seconds`,
        `peak_memory_mb` and `helped`.
    failures : DataFrame, optional
        One row per fit that raised, with the same names and `error`.

    Returns
    -------
    DataFrame
        One row per data set and encoding, in the order of their first fits: `dataset`,
        `encoding`, `fits` (their number; a deterministic fit counts once), `accuracy` (mean),
        `spread` (sample standard deviation, NaN for a single fit), `fit_seconds` (median),
        `n_parameters`. In a study with methods, also `predict_seconds` (median), `peak_memory_mb`
        (maximum) and `helped` (conversions of series). A method that was skipped on a data set has
        a row without fits there, with the reason in `helped`.
    """
    name = "method" if "method" in results.columns else "encoding"
    more: dict[str, tuple[str, Any]] = {}
    if name == "method":
        more = {
            "predict_seconds": ("predict_seconds", "median"),
            "peak_memory_mb": ("peak_memory_mb", "max"),
            "helped": ("helped", _all_words),
        }
    table = (
        distinct_fits(results, "dataset", name)
        .groupby(["dataset", name], sort=False)
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
    named = results
    if failures is not None and len(skipped := skipped_fits(failures)):
        named = pd.concat([results, skipped])
        rows = skipped.assign(fits=0, helped="skipped: " + skipped["reason"])
        keys = ["dataset", name]
        table = pd.concat([table, rows[[*keys, "fits", "helped"]]]).drop_duplicates(keys)
    # Seeds vary slowest, so the first fits name every data set and encoding in the study's order.
    for column in (name, "dataset"):
        order = {name: place for place, name in enumerate(named[column].unique())}
        table = table.sort_values(column, key=lambda names: names.map(order), kind="stable")
    return table.reset_index(drop=True)


def to_markdown(table: pd.DataFrame) -> str:
    """Return a summary table as Markdown."""

    def cells(column: str, form: str) -> list[str]:
        return ["–" if pd.isna(number) else format(number, form) for number in table[column]]

    name = "method" if "method" in table.columns else "encoding"
    spreads = [f" ± {spread:.3f}" if spread >= 0 else "" for spread in table["spread"]]
    columns = {
        "data set": table["dataset"],
        name: table[name],
        " test accuracy": map("".join, zip(cells("accuracy", ".3f"), spreads, strict=True)),
        " fits": table["fits"].map(str),
        " fit seconds": cells("fit_seconds", ".1f"),
    }
    if name == "method":
        columns[" predict seconds"] = cells("predict_seconds", ".1f")
        columns[" peak MB"] = cells("peak_memory_mb", ",.0f")
    columns[" parameters"] = cells("n_parameters", ",.0f")
    if name == "method" and table["helped"].any():
        columns["series were"] = table["helped"]
    return markdown_table(list(columns), zip(*columns.values(), strict=True))


def _all_words(helped: pd.Series) -> str:
    return ", ".join(dict.fromkeys(filter(None, ", ".join(helped).split(", "))))
