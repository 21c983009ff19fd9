"""What is concluded from scores: ranks, tests and chances, on numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up_scores import compared_twelve, results, twelve

from tsformer.studies.analysis.signed_rank import signed_rank_p
from tsformer.studies.analysis.statistics import compare_methods, holm, p_text


def test_ranks_differences_and_counts():
    statistics = compare_methods(results({"a": [0.6, 0.5, 0.7], "b": [0.5, 0.5, 0.9]}))
    assert list(statistics.ranks.items()) == [("b", 1.5), ("a", 1.5)], "then by the mean score"
    assert list(statistics.spreads) == list(statistics.scores) == ["b", "a"]
    pair = statistics.pairs.iloc[0]
    assert pair[["wins", "ties", "loses"]].tolist() == [1, 1, 1]
    assert pair["difference"] == pytest.approx(0.1 / 3)
    assert np.isnan(statistics.friedman_p), "it takes three methods"
    rows = results(twelve())
    statistics = compare_methods(rows[~((rows["dataset"] == "d3") & (rows["method"] == "best"))])
    assert (statistics.incomplete, len(statistics.scores)) == (["d3"], 11)


def test_a_difference_is_found_and_likeness_is_told_from_ignorance():
    statistics = compared_twelve()
    assert statistics.ranks.index[-1] == "worst"
    assert statistics.friedman_p < 0.001
    assert set(statistics.significant()["worse"]) == {"worst"}
    assert len(statistics.significant()) == 2
    assert replace(statistics, friedman_p=0.05).significant().empty
    assert replace(statistics, pairs=statistics.pairs.assign(p_holm=0.05)).significant().empty
    pairs = statistics.pairs.set_index(["better", "worse"])
    alike = pairs.loc[tuple(statistics.ranks.index[:2])]
    assert alike["p_same"] > 0.99
    for name in statistics.ranks.index[:2]:
        clear = pairs.loc[(name, "worst")]
        assert clear["p_better"] > 0.99
        assert clear["p"] == pytest.approx(2 / 2**12), "the least that twelve data sets can give"
        assert clear["p_holm"] == pytest.approx(3 * 2 / 2**12)
    with_a_tie = results({name: [*values, 0.5] for name, values in twelve().items()})
    assert compare_methods(with_a_tie).friedman_p < 0.001
    few = compare_methods(results({k: v[:2] for k, v in twelve().items()}))
    assert few.significant().empty, "two data sets show nothing"


def test_a_difference_as_large_as_the_region_is_within_it():
    """One series in a hundred: in floats some such differences are above .01, others below."""
    counts = [91, 35, 58, 57, 29, 7, 83, 99, 66, 14, 42, 73]
    apart = [n / 100 - (n - 1) / 100 for n in counts]
    assert min(apart) < 0.01 < max(apart)
    scores = {"a": [n / 100 for n in counts], "b": [(n - 1) / 100 for n in counts]}
    pair = compare_methods(results(scores)).pairs.iloc[0]
    assert pair["p_same"] > 0.99
    assert compare_methods(results(scores), rope=0.009).pairs.iloc[0]["p_better"] > 0.99


def test_holm_by_hand_and_p_values_as_one_writes_them():
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03])), [0.06, 0.03, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1.0, 1.0])
    assert [p_text(p) for p in (0.0004, 0.001, 0.05, 1.0, float("nan"))] == [
        "p<.001", "p=.001", "p=.050", "p=1.000", "–",
    ]  # fmt: skip


def test_seeds_and_resamples_are_averaged_and_are_no_data_sets():
    two = dict(list(twelve().items())[:2])
    one, many = results(two), results(two, seeds=20)
    expected = compare_methods(one)
    pd.testing.assert_frame_equal(expected.pairs, compare_methods(many).pairs)
    assert expected.spreads.isna().all(axis=None)
    spread = compare_methods(results(two, seeds=20, spread=0.02)).spreads
    assert spread.to_numpy().mean() == pytest.approx(0.02, rel=0.2)
    split = pd.concat([one.assign(resample=0), one.assign(resample=1)])
    pd.testing.assert_frame_equal(compare_methods(split).pairs, expected.pairs)


def test_order_of_rows_and_of_calls_changes_nothing():
    rows = results(twelve(), seeds=3, spread=0.02)
    first, again = compare_methods(rows), compare_methods(rows.sample(frac=1.0, random_state=1))
    assert first.ranks.to_dict() == again.ranks.to_dict()
    exact = ["better", "worse", "wins", "ties", "loses", "p", "p_holm"]  # the rest is drawn
    pd.testing.assert_frame_equal(first.pairs[exact], again.pairs[exact])
    pd.testing.assert_frame_equal(first.pairs, compare_methods(rows).pairs)


def test_means_that_are_equal_on_paper_are_ties():
    thirds = {"a": [0.1, 0.2, 0.3], "b": [0.1, 0.1, 0.4], "c": [0.0, 0.0, 0.6]}
    rows = pd.DataFrame(thirds).melt(var_name="method", value_name="score", ignore_index=False)
    means = rows.groupby("method")["score"].mean()
    assert means["a"] != means["b"], "or there is nothing to test"
    rows = rows.reset_index(names="seed").merge(pd.DataFrame({"dataset": [*"stuv"]}), how="cross")
    statistics = compare_methods(rows)
    assert statistics.ranks.to_dict() == {"a": 2.0, "b": 2.0, "c": 2.0}
    assert statistics.friedman_p == 1.0
    assert (statistics.pairs[["ties", "p_holm"]] == [4, 1.0]).all(axis=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.drop(columns="score"), "'score'"),
        (lambda r: pd.concat([r, r[:1]]), "'d0', seed 0, .*twice"),
        (lambda r: r.assign(score=np.nan), "'d0', seed 0, is not"),
        (lambda r: r[r["method"] == "best"], "1 methods and 12"),
    ],
)
def test_what_cannot_be_compared(change, message):
    with pytest.raises(ValueError, match=message):
        compare_methods(change(results(twelve())))
    with pytest.raises(ValueError):
        compare_methods(results(twelve()), rope=0)


def test_pairs_of_one_method_are_turned_and_corrected_for_themselves():
    statistics = compared_twelve()
    table = statistics.against("as good").set_index("method")
    assert set(table.index) == {"best", "worst"}
    worst = table.loc["worst"]
    assert worst["difference"] == pytest.approx(-0.15)
    assert (worst["wins"], worst["ties"], worst["loses"]) == (0, 0, 12)
    assert worst["p_worse"] > 0.99
    assert worst["p_holm"] == pytest.approx(2 * 2 / 2**12), "two comparisons, not three"
    assert statistics.against("worst")["difference"].tolist() == pytest.approx([0.15, 0.15])
    with pytest.raises(ValueError):
        statistics.against("bast")


stats = pytest.importorskip("scipy.stats")


def test_by_hand():
    assert signed_rank_p(np.ones(12)) == 2 / 2**12
    assert signed_rank_p(np.zeros(5)) == 1.0
    # Ranks 1, 2, 3: of eight ways to set signs two are as far out as +, +, + with -, -, -.
    assert signed_rank_p([0.1, 0.2, 0.3]) == 0.25
    assert signed_rank_p([0.1, -0.2, 0.3]) == signed_rank_p([-0.1, 0.2, -0.3])
    apart = np.random.default_rng(0).normal(0.3, size=45)
    assert signed_rank_p(apart) == pytest.approx(stats.wilcoxon(apart, method="exact").pvalue)
    apart = np.repeat([1.0, -1.0], [80, 40])
    # All ranks are tied, so that the test is the sign test.
    assert signed_rank_p(apart) == pytest.approx(stats.binomtest(80, 120).pvalue)
