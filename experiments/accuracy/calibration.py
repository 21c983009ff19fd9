"""Which temperature probabilities need: the saved probabilities of the default, sharpened.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/calibration.py FITS

FITS is the folder that `recipe_study.py --out` wrote to, which keeps the probabilities of the test
series. For each problem and seed of the default, calibration.csv gets the log loss, the Brier score
and the expected calibration error at each temperature; nothing is fitted here. These are test
splits of the problems on which recipes may be chosen by them: they say which temperature is the
better default, not how well calibrated the default is elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import brier_score_loss, log_loss

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, replace_rows
from tsformer import load_dataset
from tsformer.metrics import expected_calibration_error

TEMPERATURES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0, 1.25, 1.5)


def at_temperature(
    members: npt.NDArray[np.float64], earlier: npt.NDArray[np.float64], temperature: float
) -> npt.NDArray[np.float64]:
    """Return the mean probabilities of members at a temperature.

    `members` are their probabilities ``[members, n, K]`` at the temperatures `earlier` of each.
    """
    logs = np.log(np.clip(members, 1e-300, None)) * (earlier / temperature)[:, None, None]
    raised = np.exp(logs - logs.max(axis=-1, keepdims=True))
    mean: npt.NDArray[np.float64] = (raised / raised.sum(axis=-1, keepdims=True)).mean(axis=0)
    return mean


def rows(dataset: str, seed: int, file: Path) -> list[dict[str, object]]:
    """Return what each temperature gives for one fit."""
    _, y = load_dataset(dataset, split="test")
    classes = np.unique(load_dataset(dataset, split="train")[1])
    saved = np.load(file)
    # Fits before there was a temperature were at 1.
    earlier = saved["temperatures"] if "temperatures" in saved else np.ones(len(saved["members"]))
    found: list[dict[str, object]] = []
    for temperature in TEMPERATURES:
        proba = at_temperature(saved["members"], earlier, temperature)
        brier = brier_score_loss(y, proba, labels=classes, scale_by_half=False)
        error = expected_calibration_error(y, proba, classes)
        found.append(
            {
                "dataset": dataset,
                "seed": seed,
                "temperature": temperature,
                "log_loss": round(log_loss(y, proba, labels=classes), 4),
                "brier_score": round(brier, 4),
                "calibration_error": round(error, 4),
                "confidence": round(float(proba.max(axis=1).mean()), 4),
                "accuracy": round(float((classes[proba.argmax(axis=1)] == y).mean()), 4),
            }
        )
    return found


def calibration(fits: Path) -> pd.DataFrame:
    """Return the rows of all fits of the default in a folder."""
    found: list[dict[str, object]] = []
    for file in sorted(fits.glob("probabilities/default-*.npz")):
        dataset, seed = file.stem.removeprefix("default-").rsplit("-", 1)
        found += rows(dataset, int(seed), file)
    if not found:
        raise SystemExit(
            f"{fits}/probabilities has no probabilities of the default; run recipe_study.py with "
            "--out first"
        )
    return pd.DataFrame(found)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means over problems at each temperature, beside 1."""
    means = table.groupby(["temperature", "dataset"]).mean().drop(columns="seed")
    losses = means["log_loss"].unstack("temperature")
    found: pd.DataFrame = means.groupby("temperature").mean()
    found["better"] = losses.lt(losses[1.0], axis=0).sum()
    found["worse"] = losses.gt(losses[1.0], axis=0).sum()
    found["worst"] = losses.sub(losses[1.0], axis=0).max()
    return found


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fits", type=Path)
    add_output_options(parser, "calibration")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    path = options.out / "calibration.csv"
    keys = ["dataset", "seed", "temperature"]
    table = replace_rows(calibration(options.fits), path, keys).sort_values(keys)
    table.to_csv(path, index=False)
    print(summary(table).round(4).to_string())


if __name__ == "__main__":
    main()
