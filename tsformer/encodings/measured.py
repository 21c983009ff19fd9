"""Measured cost and ranks of encodings, from cost.csv and ranks.csv."""

import csv
from collections.abc import Iterator
from importlib.resources import files


def time_ratios(length: int, device: str = "cpu") -> dict[str, float]:
    """Return the time of a training step with each encoding, relative to that with `none`."""
    return {
        row["encoding"]: float(row["time_ratio"])
        for row in _rows("cost.csv")
        if row["device"] == device and row["length"] == str(length)
    }


def measured_ranks(stem: str) -> dict[str, float]:
    """Return the mean rank by accuracy of each encoding in the study behind three stems."""
    return {row["encoding"]: float(row[stem]) for row in _rows("ranks.csv")}


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = files("tsformer.encodings").joinpath(name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
