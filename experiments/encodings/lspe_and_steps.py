"""Why `lspe` is late behind the linear stem: its gain over `fixed` by the number of steps trained.

    TSFORMER_DATA=/folder/of/the/archive python experiments/encodings/lspe_and_steps.py

Reads the committed rows of two studies, with 16 series a batch, and the encodings before training.
"""

from __future__ import annotations

import sys
from math import ceil
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import COMMITTED
from tsformer import load_dataset
from tsformer.encodings import resolve


def gains(study: str) -> pd.DataFrame:
    """Return the optimizer steps and the gain of `lspe` over `fixed` on each data set."""
    rows = pd.read_csv(COMMITTED / study / "results.csv")
    rows = rows[rows["stem"] == "linear"]
    scores = rows.pivot_table("accuracy", "dataset", "encoding")
    epochs = rows.groupby("dataset")["n_epochs"].first()
    batches = [ceil(len(load_dataset(name, "train")[1]) / 16) for name in scores.index]
    gain = 100 * (scores["lspe"] - scores["fixed"])
    return pd.DataFrame({"study": study, "steps": epochs * batches, "gain": gain})


def spread(name: str, length: int, d_model: int = 64) -> tuple[float, float]:
    """Return the size of a code's mean over time, and of what varies over time, before training."""
    torch.manual_seed(0)
    encoding = resolve(name, d_model=d_model, n_heads=4, max_len=length).eval()
    with torch.inference_mode():
        code = encoding.embed(torch.zeros(1, length, d_model), torch.arange(1.0 * length)[None])[0]
    mean = code.mean(dim=0)
    return mean.square().mean().sqrt().item(), (code - mean).square().mean().sqrt().item()


def main() -> None:
    found = pd.concat([gains("which_encoding"), gains("encodings_of_today")])
    at_least_1000 = found["steps"] >= 1000
    table = found.groupby(["study", at_least_1000])["gain"].agg(["count", "mean", "sem"])
    print(found.sort_values(["study", "steps"]).round(1).to_string())
    print(table.round(1).to_string())
    for name in ("fixed", "lspe"):
        mean, variation = spread(name, 150)
        print(f"{name} at 150 steps: mean {mean:.2f}, variation over time {variation:.2f}")


if __name__ == "__main__":
    main()
