"""The first sentence of a report claims no more than the numbers support; the summary table."""

import re

import pandas as pd
import pytest
from made_up_scores import results as results_of

from tsformer.studies import summary_table
from tsformer.studies.analysis.statistics import Findings, compare_methods
from tsformer.studies.report.content import against, verdict
from tsformer.studies.report.summary_table import to_markdown


def compared(scores: dict[str, list[float]]) -> Findings:
    rows = results_of(scores)
    return Findings("", rows, rows, compare_methods(rows))


LEVEL = [0.5 + 0.01 * i for i in range(10)]
NOISE = [score + (-1) ** i * 0.001 for i, score in enumerate(LEVEL)]
UP, DOWN = ([score + by for score in LEVEL] for by in (0.1, -0.1))


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ({"none": LEVEL, "rope": UP, "erpe": NOISE}, "`rope` beats `none` on these 10"),
        ({"none": LEVEL, "rope": DOWN, "erpe": NOISE}, "No encoding beats .*; `rope` scores lower"),
        ({"none": LEVEL[:6], "rope": UP[:6]}, "`rope` beats `none` on these 6"),
        ({"none": LEVEL, "erpe": NOISE}, r"No encoding beats `none` on these 10 data sets\."),
        ({"none": LEVEL[:4], "rope": UP[:4]}, "4 data sets are too few.* `rope` has the best"),
    ],
)
def test_the_baseline_is_beaten_level_or_ahead(scores, says):
    assert re.match(says, verdict(compared(scores), "none", "encoding"))


@pytest.mark.parametrize("order", [("worse", "better"), ("better", "worse")])
def test_of_two_equal_ranks_the_lower_score_is_never_called_better(order):
    """Each ranks first on half of the data sets, but one wins by more."""
    scores = {"better": [0.9, 0.5] * 3, "worse": [0.6, 0.6] * 3, "far": [0.1, 0.2] * 3}
    result = compared({name: scores[name] for name in (*order, "far")})
    assert verdict(result).startswith("`better` and `worse` share the best mean rank; ")


def test_where_one_loss_outweighs_many_gains_the_direction_is_open():
    gains = [*(0.010 + 0.001 * i for i in range(11)), -0.5]
    for scores, expected in (
        ({"none": [0.6] * 12, "rope": [0.6 + gain for gain in gains]}, (0, 0, 1)),
        ({"none": LEVEL, "rope": UP}, (1, 0, 0)),
    ):
        result = compared(scores)
        contrast = against(result.statistics, "none")
        assert tuple(len(contrast[kind]) for kind in ("better", "worse", "mixed")) == expected
        assert verdict(result, "none", "encoding").startswith("No encoding") == (expected[2] == 1)


def test_one_data_set_has_a_best_mean_and_no_ranks():
    rows = pd.DataFrame({"method": list("abc"), "score": [0.1 + 0.2, 0.3, 0.2]})
    rows = rows.assign(dataset="own_1", seed=0)
    assert verdict(Findings("", rows, rows)).startswith(
        "On own\\_1, `a` and `b` share the highest mean score, 0.300."
    )
    alone = Findings("", rows[:1], rows[:1], obstacle="only one method has scores")
    assert "only one method has scores" in verdict(alone), "it has no rival"


def test_a_method_that_was_skipped_has_a_row_with_the_reason():
    pairs = [("wide", "ridge"), ("narrow", "ridge"), ("narrow", "forest")]
    rows = [(*pair, seed) for seed in (0, 1) for pair in pairs]
    results = pd.DataFrame(rows, columns=["dataset", "method", "seed"])
    results = results.assign(accuracy=0.5, fit_seconds=1.0, n_parameters=1234, helped="")
    results = results.assign(predict_seconds=2.0, peak_memory_mb=900.0)
    skipped = "UnreadableSeries: it reads one channel"
    fails = [("wide", "forest", 0, skipped), ("wide", "forest", 1, skipped)]
    fails += [("wide", "tree", 0, skipped), ("narrow", "tree", 0, "ValueError: too few")]
    failures = pd.DataFrame(fails, columns=["dataset", "method", "seed", "error"])
    measured = "0.500 ± 0.000 | 2 | 1.0 | 2.0 | 900 | 1,234 |  |"
    unmeasured = "– | 0 | – | – | – | – | skipped: it reads one channel |"
    assert to_markdown(summary_table(results, failures)).splitlines()[2:] == [
        f"| wide | ridge | {measured}",
        f"| wide | forest | {unmeasured}",
        f"| wide | tree | {unmeasured}",
        f"| narrow | ridge | {measured}",
        f"| narrow | forest | {measured}",
    ]
    pd.testing.assert_frame_equal(summary_table(results, failures[:0]), summary_table(results))
    alone = to_markdown(summary_table(results[:0], failures[:1]))
    assert alone.splitlines()[2:] == [f"| wide | forest | {unmeasured}"]


def test_a_summary_has_mean_scores_median_seconds_and_the_most_memory():
    table = pd.DataFrame({"accuracy": [0.1, 0.2, 0.6], "fit_seconds": [1.0, 2.0, 9.0]})
    table = table.assign(predict_seconds=[3.0, 4.0, 9.0], peak_memory_mb=[5.0, 7.0, 6.0])
    table = table.assign(dataset="A", method="ridge", n_parameters=1, helped=["", "cut", "cut"])
    names = ["fits", "accuracy", "spread", "fit_seconds", "predict_seconds", "peak_memory_mb"]
    (row,) = summary_table(table).to_dict("records")
    assert [row[name] for name in names] == pytest.approx([3, 0.3, 0.07**0.5, 2.0, 4.0, 7.0])
    assert row["helped"] == "cut"
    assert summary_table(table.assign(run_id="a"))["fits"].tolist() == [1], "of one fit"
