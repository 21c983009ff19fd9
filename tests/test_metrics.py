"""Calibration error and reliability, against sums written out."""

import numpy as np
import pytest

from tsformer.metrics import expected_calibration_error, reliability


def drawn(n: int = 500, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(k, 0.4), size=n)
    return np.array(["a", "b", "c"])[rng.integers(k, size=n)], proba


@pytest.mark.parametrize("n_bins", [1, 7, 10])
def test_it_is_the_sum_over_bins(n_bins):
    y, proba = drawn()
    best, right = proba.max(axis=1), np.array(["a", "b", "c"])[proba.argmax(axis=1)] == y
    expected = 0.0
    for b in range(n_bins):
        inside = (best > b / n_bins) & (best <= (b + 1) / n_bins)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - best[inside].mean())
    options = {} if n_bins == 10 else {"n_bins": n_bins}  # by default 10
    assert expected_calibration_error(y, proba, **options) == pytest.approx(expected)


def test_bins_have_their_upper_ends_and_only_those_with_predictions_are_rows():
    proba = np.array([[0.5, 0.5], [0.4, 0.6], [0.0, 1.0], [0.39, 0.61]])
    table = reliability([0, 1, 1, 0], proba)
    assert table["count"].to_dict() == {4: 1, 5: 1, 6: 1, 9: 1}
    assert table["accuracy"].to_dict() == {4: 1.0, 5: 1.0, 6: 0.0, 9: 1.0}


def test_columns_are_those_of_labels_that_do_not_occur_too():
    proba = np.array([[0.1, 0.2, 0.7], [0.1, 0.8, 0.1]])
    assert expected_calibration_error([2, 1], proba, labels=[0, 1, 2]) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("y", "proba", "options"),
    [
        ([0, 1], [[0.5, 0.5]], {}),
        ([0, 1], [[0.5, 0.9], [0.5, 0.5]], {}),
        ([0, 1], [[0.5, 0.5]] * 2, {"labels": [1, 2]}),
        ([], np.empty((0, 0)), {}),
    ],
)
def test_bad_tables_of_probabilities_are_refused(y, proba, options):
    with pytest.raises(ValueError):
        reliability(y, proba, **options)
