"""Save small models of this version and what they predict, for later versions to read.

    python tests/golden/make_golden.py

Run on the version that is released, and where it learns to save a new kind of model: what exists
is never written again, for it is what that version wrote.
"""

import sys
from pathlib import Path

import numpy as np

import tsformer
from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
    TSTransformerRegressor,
)

HERE = Path(__file__).parent
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "random_state": 0}


def models() -> dict[str, tuple[object, np.ndarray, np.ndarray | None]]:
    """Return fitted models, each with series and perhaps times to predict for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2, 20))
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    times = np.cumsum(rng.random((12, 20)), axis=1)
    far = gaps * np.logspace(-3, 3, 12)[:, None, None]
    codes = rng.integers(5, size=(12, 1, 20)).astype(float)
    y = np.array(["a", "b", "c"] * 4)
    classifier = TSTransformerClassifier(**SMALL, class_weight={"a": 2.0, "b": 1.0, "c": 0.5})
    return {
        "classifier": (classifier.fit(X, y), X, None),
        "sum_patch_gaps_times": (
            TSTransformerClassifier("tape+erpe", **SMALL, stem="patch", pooling="attention").fit(
                gaps, y, times=times
            ),
            *(gaps, times),
        ),
        "conv_gaps_times": (
            TSTransformerClassifier(**SMALL).fit(gaps, y, times=times),
            *(gaps, times),
        ),
        "far_sizes": (TSTransformerClassifier(**SMALL).fit(far, y), far, None),
        "random_convolutions": (
            RandomConvolutionClassifier(336, n_groups=2, random_state=0).fit(gaps, y),
            *(gaps, None),
        ),
        "ensemble": (
            TSEnsembleClassifier(
                transformer_params={"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2},
                convolution_params={"n_features": 168, "n_groups": 2},
                gate=0,
                random_state=0,
            ).fit(gaps, y),
            *(gaps, None),
        ),
        "encoder": (TSTransformerEncoder(**SMALL).fit(gaps), gaps, None),
        "symbolic": (
            TSTransformerClassifier("rope", **SMALL, stem="embedding").fit(codes, y == "a"),
            *(codes, None),
        ),
        "regressor": (
            TSTransformerRegressor("learnable", **SMALL, scaling="series").fit(X, X.mean((1, 2))),
            *(X, None),
        ),
    }


def answer(model: object, X: np.ndarray, times: np.ndarray | None) -> np.ndarray:
    """Return probabilities, what a regression predicts, or embeddings."""
    methods = ("predict_proba", "predict", "transform")
    ask = next(getattr(model, method) for method in methods if hasattr(model, method))
    return ask(X, times)


def main() -> None:
    folder = HERE / tsformer.__version__
    new = {name: case for name, case in models().items() if not (folder / name).exists()}
    if not new:
        sys.exit(f"{folder} has all: it holds what version {tsformer.__version__} wrote")
    for name, (model, X, times) in new.items():
        model.save(folder / name)
        arrays = {"X": X, "answer": answer(model, X, times)}
        np.savez(folder / f"{name}.npz", **arrays if times is None else {**arrays, "times": times})


if __name__ == "__main__":
    main()
