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


def rest_table(results: pd.DataFrame) -> str:
    """One row per quantity that belongs to no case: imports, padding, shares of a GPU's peak."""
    rows = results[(results["case"] == "all") & results["value"].notna()]
    cells = [
        (
            row.what,
            row.method,
            f"{row.value:.3g} {row.unit}" if isinstance(row.unit, str) else f"{row.value:.1%}",
        )
        for row in rows.itertuples()
    ]
    return markdown_table(("what", "of", " value"), cells)


def _median(rows: pd.DataFrame, what: str, unit: str) -> float:
    return float(rows.loc[(rows["what"] == what) & (rows["unit"] == unit), "value"].median())


def _times(table: pd.DataFrame, case: str, name: str) -> str:
    if case not in table.index or name not in table or pd.isna(table.loc[case, name]):
        return "–"
    return f"{table.loc[case, name]:.1f}"


def short_table(results: pd.DataFrame) -> str:
    """One row per variant of the default: how many times as fast as the plain loop it trains."""
    table = results.pivot_table("times_as_fast", "variant", "case", aggfunc="median", sort=False)
    rows = [(str(name), *(f"{value:.2f}" for value in row)) for name, row in table.iterrows()]
    return markdown_table(("variant", *(f" {case}" for case in table.columns)), rows)


def _sizes(case: str) -> str:
    return case.replace("x", " × ")


def trials_table(trials: pd.DataFrame, name: str) -> str:
    """One row per variant of the trial, one column per length: the speed-up."""
    rows = trials[trials["trial"] == name]
    table = rows.pivot_table("faster", "variant", "length", sort=False).sort_index(axis=1)
    cells = (
        (variant, *("–" if pd.isna(value) else f"{value:.2f}" for value in line))
        for variant, line in zip(table.index, table.to_numpy(), strict=True)
    )
    return markdown_table(("variant", *(f" {length} steps" for length in table)), cells)


def profile_table(shares: pd.DataFrame) -> str:
    """One row per part of a step, one column per stem and length: the share of the time."""
    table = shares.pivot_table("share", "part", ["stem", "length"], sort=False)
    header = (f" {stem}, {length} steps" for stem, length in table)
    cells = (
        (part, *(f"{share:.0%}" for share in line))
        for part, line in zip(table.index, table.to_numpy(), strict=True)
    )
    return markdown_table(("part", *header), cells)


def compile_table(trials: pd.DataFrame) -> str:
    """One row per stem and length: what compiling costs and gains, and when it pays off."""
    rows = []
    for (name, length), pair in trials[trials["trial"].str.startswith("compile")].groupby(
        ["trial", "length"], sort=False
    ):
        eager, compiled = (pair[pair["variant"] == v].iloc[0] for v in pair["variant"])
        saved = eager["ms"] - compiled["ms"]
        pays = f"{1000 * compiled['first_call_s'] / saved:,.0f}" if saved > 0 else "never"
        first = f"{compiled['first_call_s']:.0f}"
        rows.append((name.split(", ")[1], length, first, f"{compiled['faster']:.2f}", pays))
    header = (" steps", " seconds to compile", " speed-up", " pays off after steps")
    return markdown_table(("stem", *header), rows)
