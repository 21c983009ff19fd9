"""The speed tables: ratios within rounds, and rates of the median round."""

from __future__ import annotations

import pandas as pd

from tools import speed_tables


def rounds(**seconds: list[float]) -> pd.DataFrame:
    """Rows of one case as benchmark.py writes them; wall times are all 7."""
    common = {"device": "cpu", "threads": 1, "case": "8x1x10", "n": 8, "epochs": 2}
    return pd.DataFrame(
        {**common, "method": method, "what": what, "round": i, "value": value, "unit": unit}
        for method, values in seconds.items()
        for what in ("training", "inference", "one series")
        for i, cpu in enumerate(values)
        for value, unit in ((cpu, "CPU s"), (7.0, "s"))
    )


def test_ratios_are_taken_within_rounds():
    results = rounds(**{"tsformer": [1.0, 2.0, 10.0], "plain loop": [3.0, 8.0, 20.0]})
    assert speed_tables.ratios(results, "training", "tsformer").loc["8x1x10", "plain loop"] == 3.0
    assert "| 8 × 1 × 10 | convolution | 3.0 | 3.0 |" in speed_tables.ratio_table(results)
    wall = speed_tables.ratios(results.assign(device="cuda"), "training", "tsformer")
    assert wall.loc["8x1x10", "plain loop"] == 1.0, "on a GPU wall-clock times count"


def test_rates_are_those_of_the_median_round():
    results = rounds(tsformer=[1.0, 2.0, 10.0])
    memory = results.iloc[:1].assign(what="peak memory", unit="MiB", value=123.0)
    skipped = results.iloc[:1].assign(method="tsai TST", what="skipped", value=None, note="why")
    table = speed_tables.full_table(pd.concat([results, memory, skipped]))
    assert "| 8 × 1 × 10 | tsformer | 8 | 4 | 2e+03 | 123 |  |" in table
    assert "| 8 × 1 × 10 | tsai TST | – | – | – | – | why |" in table
