"""Fingerprints of what twelve configurations predict, to compare two commits bit for bit.

    python experiments/same_predictions.py > before.txt     # on the commit before a change
    python experiments/same_predictions.py | diff before.txt -      # on the commit after it

Each line holds a configuration and, in hexadecimal, the first digits of the SHA-256 of its
predictions, its embeddings, its training losses, and the predictions of the model after saving and
loading. The script uses only what version 0.1.0 has too. Digests of different machines or versions
of torch are not comparable.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from tsformer import TSTransformerClassifier, TSTransformerRegressor, load, load_dataset

SMALL = {"d_model": 16, "n_heads": 2, "max_epochs": 4, "random_state": 0}


def configurations() -> Iterator[tuple[str, object, tuple, dict, dict]]:
    """Yield name, estimator, (X, y) to fit, keywords of `fit`, keywords of `predict`."""
    rng = np.random.default_rng(0)
    X, y = load_dataset("BasicMotions", split="train")
    days, season = load_dataset("ItalyPowerDemand", split="train")
    vowels, speaker = load_dataset("JapaneseVowels", split="train")
    vowels, speaker = vowels[::3], speaker[::3]
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    times = np.cumsum(rng.exponential(size=(len(days), days.shape[2])), axis=1)
    codes = np.digitize(days, np.quantile(days, [0.2, 0.4, 0.6, 0.8]))
    evening = days[:, 0, 18:].max(axis=1)
    half = slice(None, None, 2)

    def classifier(encoding: str, **parameters: object) -> TSTransformerClassifier:
        return TSTransformerClassifier(encoding, **SMALL | parameters)

    def regressor(encoding: str, **parameters: object) -> TSTransformerRegressor:
        return TSTransformerRegressor(encoding, **SMALL | parameters)

    yield "conv, lspe", classifier("lspe"), (X, y), {}, {}
    yield "linear, tape+erpe", classifier("tape+erpe", stem="linear"), (X, y), {}, {}
    patch = classifier("rope", stem="patch", pooling="attention", norm_first=False)
    yield "patch, rope, attention pooling, post-norm", patch, (X, y), {}, {}
    yield "codes, t5", classifier("t5", stem="embedding"), (codes, season), {}, {}
    yield "gaps, alibi", classifier("alibi"), (gaps, y), {}, {}
    irregular = {"times": times}
    yield (
        "times, fourier",
        classifier("fourier", stem="linear"),
        (days, season),
        irregular,
        irregular,
    )
    both = classifier("shaw", stem="linear", scaling="series")
    with_gaps = np.where(rng.random(days.shape) < 0.2, np.nan, days)
    yield "gaps and times, series scaling, shaw", both, (with_gaps, season), irregular, irregular
    unequal = classifier("cape", scaling="series", pooling="max")
    yield "unequal lengths, series scaling, cape", unequal, (vowels, speaker), {}, {}
    members = classifier("lspe", n_estimators=3, early_stopping=True, validation_fraction=0.3)
    yield "three members, early stopping", members, (days, season), {}, {}
    weights = {"sample_weight": rng.random(len(days)), "X_val": days[half], "y_val": season[half]}
    weighted = classifier("kerple", class_weight="balanced")
    yield "weights, validation data, kerple", weighted, (days, season), weights, {}
    yield "regression, conv, gaps", regressor("wavelet"), (with_gaps[..., :18], evening), {}, {}
    unscaled = regressor("learnable", stem="linear", scaling=None)
    yield "regression, linear, no scaling", unscaled, (days[..., :18], evening), {}, {}


def digest(*arrays: np.ndarray) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(f"{array.dtype} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:16]


def predictions(estimator: object, X: object, options: dict) -> np.ndarray:
    ask = getattr(estimator, "predict_proba", estimator.predict)
    return ask(X, **options)


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, estimator, (X, y), fit_options, options in configurations():
        estimator.fit(X, y, **fit_options)
        losses = np.array([[row["loss"] for row in rows] for rows in estimator.histories_])
        with tempfile.TemporaryDirectory() as folder:
            estimator.save(Path(folder, "model"))
            again = load(Path(folder, "model"))
        digests = [
            digest(predictions(estimator, X, options)),
            digest(estimator.transform(X, **options)),
            digest(losses),
            digest(predictions(again, X, options)),
        ]
        print(f"{name:42}", *digests)


if __name__ == "__main__":
    main()
