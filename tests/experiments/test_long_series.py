"""long_series.py: the windows and scales that it makes, and what it says of the fits."""

import numpy as np
import pandas as pd
import pytest

from experiments.accuracy import long_series
from experiments.accuracy.long_series import (
    METHODS,
    beside_values,
    fit,
    scaled,
    summary,
    windows,
)

X = np.random.default_rng(0).standard_normal((3, 2, 40))


def test_scales_are_means_of_the_steps_around():
    made = scaled(X)
    assert made.shape == (3, 6, 40)
    np.testing.assert_array_equal(made[:, :2], X)
    np.testing.assert_allclose(made[:, 2:4, 20], X[..., 18:22].mean(axis=2))
    np.testing.assert_allclose(made[:, 4:, 20], X[..., 12:28].mean(axis=2))
    ends = np.concatenate([X[..., [0, 0]], X[..., :2]], axis=2)
    np.testing.assert_allclose(made[:, 2:4, 0], ends.mean(axis=2))


def test_windows_are_spread_over_the_whole_series():
    made = windows(X, 5, 1 / 4)
    assert made.shape == (3, 5, 2, 10)
    np.testing.assert_array_equal(made[:, 0], X[..., :10])
    np.testing.assert_array_equal(made[:, 1], X[..., 8:18])
    np.testing.assert_array_equal(made[:, -1], X[..., -10:])


@pytest.mark.parametrize("method", METHODS)
def test_a_method_learns_an_easy_problem(method, monkeypatch):
    generator = np.random.default_rng(1)
    y = np.array(["flat", "wave"])[np.arange(24) % 2]
    wave = np.sin(np.arange(160) / 3)
    series = generator.standard_normal((24, 1, 160)) + 4 * (y == "wave")[:, None, None] * wave
    monkeypatch.setattr(long_series, "load_dataset", lambda name, split: (series, y))
    small = {"d_model": 16, "n_heads": 2, "n_layers": 1, "max_epochs": 15, "dropout": 0.0}
    fitted, parameters = METHODS[method]
    monkeypatch.setitem(METHODS, method, (fitted, {**small, **parameters}))
    row = fit("ACSF1", method, 0)
    assert row["accuracy"] > 0.9


def test_seconds_are_ratios_to_the_default():
    rows = [("default", "Car", 0.5, 10.0, 0), ("default", "Worms", 0.7, 20.0, 0)]
    rows += [("windows", "Car", 0.6, 30.0, 0), ("windows", "Worms", 0.9, 20.0, 0)]
    rows += [("windows", "Car", 0.0, 99.0, 1), ("windows", "Fish", 0.0, 99.0, 0)]  # with no default
    fits = pd.DataFrame(rows, columns=["method", "dataset", "accuracy", "cpu_seconds", "seed"])
    table = summary(fits)
    own = table.loc["windows", ["Car", "Worms", "mean", "seconds"]]
    assert own.tolist() == [0.6, 0.9, 0.75, 2.0]
    assert table.loc["default", "seconds"] == 1
    assert "Fish" not in table


def test_both_are_compared_under_the_seeds_that_the_default_has():
    recipes = pd.DataFrame(
        [("default", "Car", 0, 0.5), ("default", "Car", 1, 0.7), ("0.1.0", "Car", 0, 0.1)],
        columns=["variant", "dataset", "seed", "accuracy"],
    )
    fits = pd.DataFrame(
        [("both", "Car", 1, 0.8), ("both", "Car", 2, 0.1), ("windows", "Car", 1, 0.2)],
        columns=["method", "dataset", "seed", "accuracy"],
    )
    table = beside_values(fits, recipes)
    assert table.loc["Car"].tolist() == [0.7, 0.8, 1]
