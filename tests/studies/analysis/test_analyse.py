"""Findings of a study: gains and costs worked out by hand."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_scores import results

from tsformer.studies.analysis.statistics import (
    analyse,
    compare_methods,
    costs,
    mean_gains,
)
from tsformer.studies.analysis.study_scores import StudyScores


def test_gains_need_a_baseline():
    rows = results({name: [0.6] * 2 for name in ("rocket", "tsformer")})
    (only,) = analyse(StudyScores(rows, Path("scores.csv"), ours=False))
    assert only.mean_gains is None


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_a_region_of_equality_in_another_unit_than_the_scores_is_warned_of(unit):
    rows = results({"rocket": [0.6 * unit] * 2, "ridge": [0.5 * unit] * 2})
    study = StudyScores(rows, Path("scores.csv"), ours=False)
    with warnings.catch_warnings(action="error"):
        analyse(study, rope=0.01 * unit)
    with pytest.warns(UserWarning):
        analyse(study, rope=1 / unit)


def test_gains_are_differences_with_the_interval_of_their_data_sets():
    scores = {"none": [0.5, 0.4, 0.5], "alibi": [0.4] * 3, "rope": [0.6, 0.6, 0.5]}
    study = StudyScores(results(scores), Path("scores.csv"), ours=False)
    (result,) = analyse(study, baseline="none")
    table = result.mean_gains.set_index("method")
    assert table["gain"].to_dict() == pytest.approx({"rope": 0.1, "alibi": -0.2 / 3})
    limits = table.loc["rope", ["low", "high"]].tolist()
    assert limits == pytest.approx([-0.148414, 0.348414], abs=1e-6)
    with pytest.raises(ValueError):
        analyse(study, baseline="nome")
    for gains in ([0.1, 0.2], [0.1] * 3):  # two data sets, and equal gains, are no certainty
        assert np.isnan(mean_gains(pd.DataFrame({"a": gains}))["low"][0])


@pytest.mark.parametrize("n", [5, 8, 14])
@pytest.mark.parametrize(("draw", "band"), [("normal", (0.94, 0.96)), ("gamma", (0.89, 0.95))])
def test_intervals_of_mean_gains_cover_95_percent(draw, band, n):
    """The percentile bootstrap covers .84 to .91 of normal gains, .77 to .91 of skewed ones."""
    rng = np.random.default_rng(n)
    gains = rng.normal(size=(4000, n)) if draw == "normal" else rng.gamma(2, size=(4000, n)) - 2
    intervals = mean_gains(pd.DataFrame(gains.T))
    covered = ((intervals["low"] <= 0) & (intervals["high"] >= 0)).mean()
    assert band[0] <= covered <= band[1]


def test_costs_are_medians_and_have_a_front():
    scores = {"none": [0.5] * 6, "rope": [0.6] * 6, "erpe": [0.7] * 6, "slow": [0.6] * 6}
    rows = results(scores, seeds=3)
    seconds = {"none": 1.0, "rope": 2.0, "erpe": 3.0, "slow": 9.0}
    rows = rows.assign(fit_seconds=rows["method"].map(seconds))
    rows.loc[(rows["method"] == "rope") & (rows["seed"] == 1), "fit_seconds"] = 700.0
    statistics = compare_methods(rows)
    table = costs(rows, statistics).set_index("method")
    assert table["fit_seconds"].to_dict() == seconds
    assert set(table.index[table["front_fit_seconds"]]) == {"none", "rope", "erpe"}
    assert "n_parameters" not in table.columns
    equal = costs(rows.assign(fit_seconds=1.0), statistics).set_index("method")
    assert list(equal.index[equal["front_fit_seconds"]]) == ["erpe"]


def test_costs_are_over_the_data_sets_that_every_method_has():
    rows = results({"none": [0.5] * 6, "rope": [0.6] * 6})
    statistics = compare_methods(rows)
    seconds = 10.0 ** rows["dataset"].str[1:].astype(int)
    rope, dear = rows["method"] == "rope", rows["dataset"] == "d5"
    table = costs(rows.assign(fit_seconds=seconds.mask(dear & rope)), statistics)
    assert table["fit_seconds"].nunique() == 1, "the dearest of one alone makes no mean"
    assert "fit_seconds" not in costs(
        rows.assign(fit_seconds=seconds.mask(dear == rope)), statistics
    )
    some = rows.assign(n_parameters=np.where(rope, np.nan, 7.0))
    table = costs(some, statistics).set_index("method")
    assert table.loc["none", ["n_parameters", "front_n_parameters"]].tolist() == [7, True]
    assert not table.loc["rope", "front_n_parameters"], "without weights to be few"
    memory = {"none": 800.0, "rope": 900.0}
    for cost in ("peak_memory_mb", "predict_memory_mb"):
        table = costs(rows.assign(**{cost: rows["method"].map(memory)}), statistics)
        assert table.set_index("method")[cost].to_dict() == memory
        assert f"front_{cost}" not in table
