"""What the encodings cost, as measured and shipped in cost.csv."""

from __future__ import annotations

import csv
from importlib.resources import files

__all__ = ["time_ratios"]


def time_ratios(length: int, device: str = "cpu") -> dict[str, float]:
    """Return a training step's time for each encoding measured, in parts of that of `none`.

    Parameters
    ----------
    length : int
        Number of tokens: 64, 256, 1024 or 4096.
    device : str, default="cpu"
        Where it was measured.

    Returns
    -------
    dict of str to float
        Empty where nothing was measured.

    Examples
    --------
    >>> time_ratios(1024)["none"]
    1.0
    """
    text = files("tsformer.encodings").joinpath("cost.csv").read_text(encoding="utf-8")
    return {
        row["encoding"]: float(row["time_ratio"])
        for row in csv.DictReader(text.splitlines())
        if row["device"] == device and row["length"] == str(length)
    }
