"""regression.py: the problems that are made, and what is said of the errors."""

import numpy as np
import pandas as pd
import pytest

from experiments.accuracy.regression import DEFAULT, RIDGE, fit, foreseen, load, main, summary


def test_what_is_foreseen_is_not_read():
    X = np.random.default_rng(0).standard_normal((4, 2, 50))
    read, target = foreseen(X)
    np.testing.assert_array_equal(read, X[..., :40])
    last = X[:, 0, 40:]
    np.testing.assert_allclose(target, last.max(axis=1) - last.min(axis=1))


@pytest.mark.parametrize(("problem", "shape"), [("Tecator", (172, 1, 100))])
def test_packaged_problems_have_series_and_numbers(problem, shape):
    X, y = load(problem, "train")
    assert X.shape == shape
    assert y.shape == shape[:1]
    assert y.std() > 1


def test_an_error_is_in_units_of_the_deviation_of_the_test_targets(monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 1, 12))
    problems = {"train": (X[:40], X[:40, 0, 3]), "test": (X[40:], 7 * X[40:, 0, 3])}
    monkeypatch.setattr(
        "experiments.accuracy.regression.load", lambda problem, split: problems[split]
    )
    # The ridge finds the step; the test targets are seven times as large, so 6/7 is missing.
    y = X[40:, 0, 3]
    expected = np.sqrt(np.mean((6 * y) ** 2)) / (7 * y.std())
    assert fit(0, RIDGE, "Tecator")["error"] == pytest.approx(expected, rel=0.02)


def test_errors_are_paired_and_their_ratios_averaged():
    errors = {
        (DEFAULT, "a"): (0.5, 0.5),
        ("warping", "a"): (0.25, 1.0),  # half and twice: as good
        (DEFAULT, "b"): (0.1, 0.2),
        ("warping", "b"): (0.05, 0.1),
        (RIDGE, "b"): (0.4,),  # one seed
    }
    fits = pd.DataFrame(
        [
            {"method": method, "problem": problem, "seed": seed, "error": error}
            for (method, problem), each in errors.items()
            for seed, error in enumerate(each)
        ]
    )
    table = summary(fits)
    assert table.index.tolist() == [DEFAULT, "warping", RIDGE]
    warping = table.loc["warping"]
    assert warping["change"] == pytest.approx(np.sqrt(0.5) - 1)
    assert warping["worst"] == pytest.approx(0)
    assert (warping["better"], warping["worse"]) == (1, 0)
    assert table.loc[RIDGE, "change"] == pytest.approx(3)
    assert table.loc[RIDGE, "problems"] == 1


def test_a_method_that_draws_nothing_is_fitted_once(tmp_path, monkeypatch):
    done = []

    def note(seed, method, problem):
        done.append((method, seed))
        return {"method": method, "problem": problem, "seed": seed, "error": 0.5}

    monkeypatch.setattr("experiments.accuracy.regression.fit", note)
    main(["--methods", DEFAULT, RIDGE, "--problems", "Tecator", "--out", str(tmp_path)])
    assert done == [(DEFAULT, 0), (RIDGE, 0), (DEFAULT, 1)]
