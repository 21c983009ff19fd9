"""Findings of a study with published results beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_scores import results

from tsformer.studies.analysis.analyse import Findings, analyse, default_baseline
from tsformer.studies.analysis.scores import (
    StudyScores,
    read_study,
)

N = 8


def found(
    tmp_path: Path,
    methods: dict[str, list[float]],
    others: dict[str, dict[int, float]],
    baseline: str | None = None,
) -> Findings:
    """Return the findings of made-up scores beside published ones, by number of the data set."""
    rows = results(methods, seeds=2).assign(fit_seconds=1.0)
    rows.to_csv(tmp_path / "scores.csv", index=False)
    table = [
        (f"d{d}", name, "default split", score, "a paper")
        for name, scores in others.items()
        for d, score in scores.items()
    ]
    columns = ["dataset", "method", "protocol", "accuracy", "source"]
    pd.DataFrame(table, columns=columns).to_csv(tmp_path / "others.csv", index=False)
    study = read_study(tmp_path / "scores.csv", published=tmp_path / "others.csv")
    (only,) = analyse(study, baseline=baseline)
    return only


OURS = {"none": [0.5] * N, "rope": [0.6] * N}
WHOLE = dict(enumerate([0.7] * N))
HALF = {d: 0.55 for d in range(N // 2)}


def test_a_published_method_with_all_data_sets_is_ranked(tmp_path):
    both = found(tmp_path, OURS, {"HC2": WHOLE, "old": HALF}, baseline="none")
    assert both.statistics is not None
    assert both.statistics.ranks.to_dict() == {"HC2 (published)": 1, "rope": 2, "none": 3}
    assert len(both.statistics.scores) == N, "nor does one that lacks data sets take them away"
    assert both.statistics.spreads["HC2 (published)"].isna().all()
    assert both.not_ranked == ["old (published)"]
    assert len(both.rows) == len(both.used) == 4 * N, "what was published is no fit"
    assert both.mean_gains is not None
    gains = both.mean_gains.set_index("method")["gain"]
    assert gains["HC2 (published)"] == pytest.approx(0.2)
    with pytest.raises(ValueError, match=r"over old \(published\) cannot be computed"):
        found(tmp_path, OURS, {"HC2": WHOLE, "old": HALF}, baseline="old (published)")
    assert both.costs is not None
    costs = both.costs.set_index("method")
    assert np.isnan(costs.loc["HC2 (published)", "fit_seconds"])
    assert costs["front_fit_seconds"].to_dict() == {
        "HC2 (published)": False, "rope": True, "none": False,
    }  # fmt: skip
    only = found(tmp_path, {"rope": [0.6] * N}, {"HC2": WHOLE})
    assert only.statistics is not None
    assert only.statistics.ranks.index.tolist() == ["HC2 (published)", "rope"]
    assert found(tmp_path, {"rope": [0.6] * N}, {"old": HALF}).statistics is None


def test_each_pair_is_over_the_data_sets_of_both(tmp_path):
    ours = {"none": [0.5] * N, "rope": list(np.linspace(0.4, 0.75, N))}
    beside = found(tmp_path, ours, {"HC2": WHOLE, "old": HALF}).beside
    assert beside is not None
    rows = beside.set_index(["published", "method"])
    assert rows.loc[("old (published)", "none"), "datasets"] == N // 2
    assert rows.loc[("old (published)", "none"), "difference"] == pytest.approx(-0.05)
    rope = rows.loc[("old (published)", "rope")]
    first = np.array(ours["rope"][: N // 2])
    assert rope["score"] == pytest.approx(first.mean())
    assert rope["difference"] == pytest.approx(first.mean() - 0.55)
    assert (rope["wins"], rope["ties"], rope["loses"]) == (0, 1, 3)
    assert rows.loc[("HC2 (published)", "rope"), "wins"] == 1


@pytest.mark.parametrize(
    ("methods", "baseline"),
    [
        (("rocket", "tsformer"), "tsformer"),
        (("rocket", "tsformer", "none"), "none"),
        (("rocket", "ridge"), None),
    ],
)
def test_gains_are_over_no_encoding_or_else_over_the_transformer(methods, baseline, tmp_path):
    results({name: [0.6] * N for name in methods}).to_csv(tmp_path / "scores.csv", index=False)
    study = read_study(tmp_path / "scores.csv")
    assert default_baseline(study) == baseline
    (only,) = analyse(study, baseline=baseline)
    assert (only.gains is None) == (baseline is None)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"seed": 1, "score": float("nan")}, "the score of 'a' on 'd0', seed 1, is nan"),
        ({"seed": 0, "score": 0.5}, "two scores of 'a' on 'd0' for seed 0"),
    ],
)
def test_scores_on_one_data_set_are_checked_too(second, message):
    rows = results({"a": [0.9], "b": [0.8]})
    rows = pd.concat([rows, pd.DataFrame([{"dataset": "d0", "method": "a", **second}])])
    study = StudyScores(rows, Path("scores.csv"), ours=False)
    with pytest.raises(ValueError, match=message):
        analyse(study)


def test_percentages_are_not_set_beside_published_shares(tmp_path):
    with pytest.raises(ValueError, match=r"from 0 to 1, and the score of 'none' on 'd0' is 50;"):
        found(tmp_path, {"none": [50.0] * N, "rope": [60.0] * N}, {"HC2": WHOLE})
    (alone,) = analyse(read_study(tmp_path / "scores.csv"))
    assert alone.statistics is not None
