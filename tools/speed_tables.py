"""The tables of `speed.csv`: medians over rounds, and ratios taken within rounds.

With one thread on a CPU the times are CPU times: nothing here waits for anything else, and other
programs on the machine then matter less. Otherwise they are wall-clock times.
"""

from __future__ import annotations

import pandas as pd

from experiments.speed.methods import METHODS, OURS
from tsformer.studies.report.render import markdown_table

QUANTITIES = ("training", "inference", "one series")


def unit(results: pd.DataFrame) -> str:
    """Return the unit of the times to compare; all rows are of one device."""
    return "CPU s" if set(results["device"]) == {"cpu"} and set(results["threads"]) == {1} else "s"


def seconds(results: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return the seconds of `what`: one row per case and round, one column per method."""
    rows = results[(results["what"] == what) & (results["unit"] == unit(results))]
    order = list(dict.fromkeys(rows["case"]))
    table = rows.pivot_table("value", ["case", "round"], "method", sort=False)
    return table.reindex(order, level="case")


def ratios(results: pd.DataFrame, what: str, ours: str) -> pd.DataFrame:
    """Return how many times as long other methods take: one row per case, one column each."""
    taken = seconds(results, what)
    if ours not in taken:
        return pd.DataFrame()
    others = [name for name in METHODS if name in taken and name not in OURS]
    by_round = taken[others].div(taken[ours], axis=0)
    return by_round.groupby("case", sort=False).median().dropna(how="all")


def ratio_table(results: pd.DataFrame) -> str:
    """One row per case and stem: how many times as long each other method takes."""
    measured = {(what, ours): ratios(results, what, ours) for what in QUANTITIES for ours in OURS}
    others = [name for name in METHODS if any(name in table for table in measured.values())]
    rows = [
        (
            _sizes(case),
            "convolution" if ours == OURS[0] else "linear",
            *(
                _times(measured[what, ours], case, name)
                for what in QUANTITIES[:2]
                for name in others
            ),
        )
        for case in dict.fromkeys(case for table in measured.values() for case in table.index)
        for ours in reversed(OURS)
    ]
    header = [f" {what}, {name}" for what in QUANTITIES[:2] for name in others]
    return markdown_table(("series × channels × steps", "stem", *header), rows)


def full_table(results: pd.DataFrame) -> str:
    """One row per case and method: series per second, milliseconds per series, peak memory."""
    rows = []
    for case in dict.fromkeys(results.loc[results["case"] != "all", "case"]):
        here = results[results["case"] == case]
        for name in METHODS:
            mine = here[here["method"] == name]
            if mine.empty:
                continue
            skipped = mine.loc[mine["what"] == "skipped", "note"]
            if len(skipped):
                rows.append((_sizes(case), name, *"––––", skipped.iloc[0]))
                continue
            taken = {what: _median(mine, what, unit(results)) for what in QUANTITIES}
            n, passes = mine["n"].iloc[0], mine["epochs"].iloc[0]
            rows.append(
                (
                    _sizes(case),
                    name,
                    f"{n * passes / taken['training']:.3g}",
                    f"{n / taken['inference']:.3g}",
                    f"{1000 * taken['one series']:.3g}",
                    f"{_median(mine, 'peak memory', 'MiB'):.0f}",
                    "",
                )
            )
    header = (
        *(" training, series/s", " inference, series/s", " one series, ms", " peak MiB"),
        "skipped",
    )
    return markdown_table(("series × channels × steps", "method", *header), rows)


def _median(rows: pd.DataFrame, what: str, unit: str) -> float:
    return float(rows.loc[(rows["what"] == what) & (rows["unit"] == unit), "value"].median())


def _times(table: pd.DataFrame, case: str, name: str) -> str:
    if case not in table.index or name not in table or pd.isna(table.loc[case, name]):
        return "–"
    return f"{table.loc[case, name]:.1f}"


def _sizes(case: str) -> str:
    return case.replace("x", " × ")
