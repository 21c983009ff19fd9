"""What encodings cost, as measured and shipped in cost.csv."""

import csv
from importlib.resources import files


def time_ratios(length: int, device: str = "cpu") -> dict[str, float]:
    """Return the time of a training step with each encoding, relative to that with `none`."""
    text = files("tsformer.encodings").joinpath("cost.csv").read_text(encoding="utf-8")
    return {
        row["encoding"]: float(row["time_ratio"])
        for row in csv.DictReader(text.splitlines())
        if row["device"] == device and row["length"] == str(length)
    }
