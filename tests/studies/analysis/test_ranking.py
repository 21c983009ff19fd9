"""The ranking: pairs of scores on the same folds, and one sentence about them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from tsformer.studies.analysis.ranking import answer, rank, ranking_page

nan = np.nan
SCORES = pd.DataFrame(
    {
        "alibi": [0.80, 0.84, 0.78, 0.81, 0.83],
        "rope": [0.82, 0.84, 0.81, 0.82, 0.86],
        "none": [0.50, 0.50, 0.60, 0.55, 0.50],
        "lspe": [0.83, 0.83, nan, nan, nan],
        "dape": [nan] * 5,
    }
)
DROPPED = {"lspe": "dropped after round 2", "dape": "not fitted"}


def test_intervals_are_of_pairs_and_wider_than_without_overlap_of_training_sets():
    table = rank(SCORES, DROPPED, n_folds=5).set_index("encoding")
    assert list(table.index) == ["rope", "alibi", "none", "lspe", "dape"]
    plain = ttest_rel(SCORES["rope"], SCORES["alibi"]).confidence_interval()
    half = (plain.high - plain.low) / 2
    assert table.loc["alibi", "margin"] == pytest.approx(half * np.sqrt((1 / 5 + 1 / 4) / (1 / 5)))
    assert table.loc["lspe", "behind"] == pytest.approx(0.0), "on the leader's first two folds"
    assert table["folds"].tolist() == [5, 5, 5, 2, 0]
    unfinished = SCORES.assign(none=SCORES["none"].mask(SCORES.index == 4))
    table = rank(unfinished, {**DROPPED, "alibi": "dropped after round 4"}, n_folds=5)
    assert table["encoding"].tolist() == ["rope", "none", "alibi", "lspe", "dape"]
    assert table["folds"].tolist() == [4, 4, 5, 2, 0], "those that the remaining have"
    table = rank(pd.DataFrame({"none": [0.6] * 3, "rope": [0.7] * 3}), {}, n_folds=3)
    assert table["outcome"].tolist() == ["leads", "too few folds to tell"]
    assert answer(table) == "`rope` leads `none` by 10.0 points over 3 folds."


def test_the_answer_names_the_leader_and_every_other_fate():
    assert answer(rank(SCORES, DROPPED, n_folds=5)) == (
        "`rope` leads `alibi` by 1.8 ± 2.4 points over 5 folds; `alibi` cannot be told from the "
        "leader; `lspe` was dropped after round 2; `dape` was not fitted."
    )
    page = ranking_page(rank(SCORES, DROPPED, n_folds=5).assign(fit_seconds=nan))
    assert "| `dape` | 0 | – | – | – | not fitted |" in page
