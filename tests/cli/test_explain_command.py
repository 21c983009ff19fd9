"""`tsformer explain`: of a file or a data set, by number or name."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer import RandomConvolutionClassifier, load
from tsformer.explain import most_relevant_windows

pytest.importorskip("captum", reason='needs the extra "explain"')

SMALL = ["--no-track", "--max-epochs", "2", "--set", "d_model=8", "--set", "n_layers=1"]
SMALL += ["--set", "n_heads=2", "--set", "verbose=0", "--out", "model"]


def long_table() -> pd.DataFrame:
    draw = np.random.default_rng(0).normal
    steps = [(i, t) for i in range(8) for t in range(10 + i)]
    rows = [(f"patient-{i}", 2.0 * t, draw(), draw(), "sw"[i % 2]) for i, t in steps]
    return pd.DataFrame(rows, columns=["id", "t", "a", "b", "y"])


@pytest.mark.slow
def test_a_series_of_a_table_is_explained(run):
    long_table().to_csv("long.csv", index=False)
    run("fit", "long.csv", "--case", "id", "--time", "t", "--label", "y", *SMALL)
    long_table().drop(columns="y").to_csv("new.csv", index=False)
    told, _ = run("explain", "model", "new.csv", "--series", "patient-3", "--target", "w")
    assert "new.csv, series patient-3: predicted " in told
    assert "integrated gradients for w" in told
    assert told.endswith("drawn to why.png\n")
    windows = re.findall(r"channel [ab], (.*) to (.*): ", told)
    assert windows
    assert all(float(time) % 2 == 0 <= float(time) <= 24 for window in windows for time in window)
    assert Path("why.png").is_file()
    by_number, _ = run("explain", "model", "long.csv", "--series", 3, "--target", "w", "--out", "x")
    assert "series patient-3: predicted" in by_number
    assert by_number.splitlines()[1] == told.splitlines()[1]
    for arguments, message in [
        (["--series", "patient-33"], "did you mean 'patient-3'?"),
        (["--target", "q"], "unknown class 'q'"),
        (["--out", "model"], "model is a folder; name a file"),
    ]:
        _, error = run("explain", "model", "long.csv", *arguments, exits=2)
        assert message in error


def test_random_convolutions_are_explained_by_occlusion(run):
    X, y = np.random.default_rng(0).normal(size=(8, 1, 20)), ["s", "w"] * 4
    RandomConvolutionClassifier(168, n_groups=2, random_state=0).fit(X, y).save("other")
    pd.DataFrame(X[:, 0]).to_csv("wide.csv", index=False)
    options = ("--series", 3, "--target", "w", "--baseline", "0.5", "--set", "window=4")
    told, _ = run("explain", "other", "wide.csv", *options)
    assert "occlusion for w" in told
    params = {"window": 4}
    relevance = load("other").explain(X[3:4], "occlusion", "w", 0.5, method_params=params)[0]
    _, begin, end = most_relevant_windows(relevance)[0]
    total = relevance[0, begin:end].sum()
    assert f"1. channel 0, steps {begin} to {end - 1}: {total:+.3f}" in told
    _, error = run("explain", "other", "wide.csv", "--method", "gradient_x_input", exits=2)
    assert "method must be 'occlusion' for RandomConvolutionClassifier" in error
