"""What is concluded from scores: ranks, tests and chances, on numbers worked out by hand."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("baycomp", reason='needs the extra "statistics"')
pytest.importorskip("scikit_posthocs", reason='needs the extra "statistics"')

from tsformer.plots.statistics import (
    p_text,
    plot_chances,
    plot_critical_difference,
    plot_pairs,
)
from tsformer.studies.statistics import compare_methods, holm, read_scores


def results(scores: dict[str, list[float]], seeds: int = 1, spread: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (f"d{d}", method, seed, score + spread * rng.normal())
        for method, values in scores.items()
        for d, score in enumerate(values)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"])


def twelve(seed: int = 0) -> dict[str, list[float]]:
    base = np.random.default_rng(seed).uniform(0.6, 0.8, 12)
    return {
        "worst": list(base - 0.1),
        "best": list(base + 0.05),
        "as good": list(base + 0.05 + 0.001 * (-1) ** np.arange(12)),
    }


def test_ranks_differences_and_counts():
    found = compare_methods(results({"a": [0.5, 0.5, 0.9], "b": [0.6, 0.5, 0.7]}))
    assert found.ranks.to_dict() == {"a": 1.5, "b": 1.5}
    pair = found.pairs.iloc[0]
    assert (pair["wins"], pair["ties"], pair["loses"]) == (1, 1, 1)
    assert pair["difference"] == pytest.approx(0.1 / 3)
    assert np.isnan(found.friedman_p), "it takes three methods"


def test_a_difference_is_found_and_likeness_is_told_from_ignorance():
    found = compare_methods(results(twelve()))
    assert found.ranks.index[-1] == "worst"
    assert found.friedman_p < 0.001
    assert set(found.significant()["worse"]) == {"worst"}
    assert len(found.significant()) == 2
    pairs = found.pairs.set_index(["better", "worse"])
    alike = pairs.loc[tuple(found.ranks.index[:2])]
    assert alike["p_same"] > 0.99
    for name in found.ranks.index[:2]:
        clear = pairs.loc[(name, "worst")]
        assert clear["p_better"] > 0.99
        assert clear["p"] == pytest.approx(2 / 2**12), "the least that twelve data sets can give"
        assert clear["p_holm"] == pytest.approx(3 * 2 / 2**12)
    few = compare_methods(results({k: v[:2] for k, v in twelve().items()}))
    assert few.significant().empty, "two data sets show nothing"


def test_holm_by_hand():
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03])), [0.06, 0.03, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1.0, 1.0])


def test_seeds_are_averaged_and_are_no_data_sets():
    one, many = results(twelve()), results(twelve(), seeds=20)
    pd.testing.assert_frame_equal(compare_methods(one).pairs, compare_methods(many).pairs)
    spread = compare_methods(results(twelve(), seeds=20, spread=0.02)).spreads
    assert spread.to_numpy().mean() == pytest.approx(0.02, rel=0.2)
    assert compare_methods(one).spreads.isna().all(axis=None)


def test_order_of_rows_and_of_calls_changes_nothing():
    rows = results(twelve(), seeds=3, spread=0.02)
    first = compare_methods(rows)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    again = compare_methods(rows.sample(frac=1.0, random_state=1))
    assert first.ranks.to_dict() == again.ranks.to_dict()
    assert first.friedman_p == pytest.approx(again.friedman_p)
    exact = ["better", "worse", "wins", "ties", "loses", "p", "p_holm"]  # the rest is drawn
    pd.testing.assert_frame_equal(first.pairs[exact], again.pairs[exact])
    pd.testing.assert_frame_equal(first.pairs, compare_methods(rows).pairs)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_means_that_are_equal_on_paper_are_ties():
    thirds = {"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1], "c": [0.0, 0.0, 0.6]}
    assert np.mean(thirds["a"]) != np.mean(thirds["b"]), "or there is nothing to test"
    rows = [
        (f"d{d}", method, seed, score)
        for d in range(4)
        for method, scores in thirds.items()
        for seed, score in enumerate(scores)
    ]
    found = compare_methods(pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"]))
    assert found.ranks.to_dict() == {"a": 2.0, "b": 2.0, "c": 2.0}
    assert found.friedman_p == 1.0
    assert (found.pairs["ties"] == 4).all()


def test_methods_that_are_all_the_same():
    found = compare_methods(results({"a": [0.5, 0.6], "b": [0.5, 0.6], "c": [0.5, 0.6]}))
    assert found.friedman_p == 1.0
    assert (found.pairs["p_holm"] == 1.0).all()
    assert found.significant().empty


def test_incomplete_data_sets_are_left_out_by_name():
    rows = results(twelve())
    found = compare_methods(rows[~((rows["dataset"] == "d3") & (rows["method"] == "best"))])
    assert found.incomplete == ["d3"]
    assert len(found.scores) == 11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.drop(columns="score"), "unknown column of the results 'score'"),
        (lambda r: pd.concat([r, r[:1]]), "two scores of 'worst' on 'd0' for seed 0"),
        (lambda r: r.assign(score=np.nan), "the score of 'worst' on 'd0', seed 0, is nan"),
        (lambda r: r[r["method"] == "best"], "got 1 methods and 12 such data sets"),
        (lambda r: r[r["dataset"] == "d1"], "got 3 methods and 1 such data sets"),
    ],
)
def test_what_cannot_be_compared(change, message):
    with pytest.raises(ValueError, match=message):
        compare_methods(change(results(twelve())))


def test_rope_must_be_wide():
    with pytest.raises(ValueError, match="rope must be a float > 0"):
        compare_methods(results(twelve()), rope=0)


def test_reading_scores_of_ours_and_of_others(tmp_path):
    rows = results(twelve())
    rows.to_csv(tmp_path / "theirs.csv", index=False)
    ours = rows.rename(columns={"method": "encoding", "score": "accuracy"}).assign(run_id="x")
    ours.to_csv(tmp_path / "ours.csv", index=False)
    for name in ("theirs.csv", "ours.csv"):
        pd.testing.assert_frame_equal(read_scores(tmp_path / name), rows, check_dtype=False)
    rows.drop(columns="seed").to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(ValueError, match=r"bad.csv lacks a column: unknown column 'seed'"):
        read_scores(tmp_path / "bad.csv")


def test_pairs_of_one_method_are_turned_and_corrected_for_themselves():
    found = compare_methods(results(twelve()))
    table = found.against("as good").set_index("method")
    assert set(table.index) == {"best", "worst"}
    worst = table.loc["worst"]
    assert worst["difference"] == pytest.approx(-0.15)
    assert (worst["wins"], worst["ties"], worst["loses"]) == (0, 0, 12)
    assert worst["p_worse"] > 0.99
    assert worst["p_holm"] == pytest.approx(2 * 2 / 2**12), "two comparisons, not three"
    assert found.against("worst")["difference"].tolist() == pytest.approx([0.15, 0.15])
    with pytest.raises(ValueError, match="unknown method 'bast': did you mean 'best'"):
        found.against("bast")


def test_variants_are_not_mixed_up():
    rows = pd.concat([results(twelve()).assign(stem=stem) for stem in ("conv", "linear")])
    with pytest.raises(ValueError, match="several variants, stem=conv, stem=linear"):
        compare_methods(rows)


def test_resamples_are_averaged_as_seeds_are():
    rows = results(twelve())
    split = pd.concat([rows.assign(resample=0), rows.assign(resample=1)])
    pd.testing.assert_frame_equal(compare_methods(split).pairs, compare_methods(rows).pairs)


def test_the_matrix_shows_difference_counts_and_p():
    figure = plot_pairs(compare_methods(results({"a": [0.5, 0.5, 0.9], "b": [0.6, 0.5, 0.7]})))
    cells = {text.get_text() for text in figure.axes[0].texts}
    assert cells == {"+3.3\n1/1/1\np=1.000", "-3.3\n1/1/1\np=1.000"}
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["a  0.633", "b  0.600"]
    clear = plot_pairs(compare_methods(results(twelve())))
    bold = [text for text in clear.axes[0].texts if text.get_fontweight() == "bold"]
    assert len(bold) == 4, "the worst against the two others, from both sides"


def test_chances_are_drawn_as_parts_of_one():
    found = compare_methods(results(twelve()))
    axes = plot_chances(found, "worst").axes[0]
    widths = np.array([bar.get_width() for bar in axes.patches]).reshape(3, 2)
    np.testing.assert_allclose(widths.sum(axis=0), 1)
    np.testing.assert_allclose(widths[0], found.against("worst")["p_better"])
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == found.against("worst")["method"].tolist()


def test_p_values_as_one_writes_them():
    assert [p_text(p) for p in (0.0004, 0.05, 1.0, float("nan"))] == [
        "p<.001", "p=.050", "p=1.000", "–",
    ]  # fmt: skip


def test_pictures(tmp_path):
    found = compare_methods(results(twelve()))
    for draw in (plot_critical_difference, plot_pairs):
        figure = draw(found)
        figure.savefig(tmp_path / "figure.png")
        texts = [text.get_text() for text in figure.axes[0].texts]
        labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
        assert any("worst" in text for text in texts + labels)


def test_command_prints_and_writes(tmp_path, capsys):
    from tsformer.cli import main

    results(twelve()).to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["statistics", str(tmp_path / "scores.csv"), "--out", str(tmp_path)])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "data sets   12" in printed
    assert "pairs differ: 2 of 3" in printed
    assert {"pairs.csv", "pairs.png", "critical_difference.png"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert len(pd.read_csv(tmp_path / "pairs.csv")) == 3


def test_command_compares_fits_of_ours_that_are_paired(tmp_path, capsys):
    """Of an unfinished study: the later seeds, which only one method has, were easier."""
    from tsformer.cli import main

    rows = results({"none": [0.5] * 8, "rope": [0.5] * 8}, seeds=4)
    rows["score"] += 0.1 * rows["seed"]
    rows = rows[(rows["method"] == "none") | (rows["seed"] < 2)]
    rows = rows.rename(columns={"method": "encoding", "score": "accuracy"})
    rows.to_csv(tmp_path / "results.csv", index=False)
    with pytest.raises(SystemExit):
        main(["statistics", str(tmp_path / "results.csv")])
    printed = capsys.readouterr().out
    assert "0/8/0" in printed
    assert "fits        32 of 48: those whose data set and seed every method has" in printed


def test_command_takes_variants_one_by_one(tmp_path, capsys):
    from tsformer.cli import main

    rows = pd.concat([results(twelve()).assign(stem=stem) for stem in ("conv", "linear")])
    rows.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["statistics", str(tmp_path / "scores.csv"), "--out", str(tmp_path / "out")])
    assert end.value.code == 0
    assert capsys.readouterr().out.count("pairs differ: 2 of 3") == 2
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"stem=conv", "stem=linear"}


def test_the_diagram_names_ranks_and_joins_in_order():
    found = compare_methods(results(twelve()))
    (ax,) = plot_critical_difference(found).axes
    names = {text.get_text() for text in ax.texts}
    assert any(name.startswith("best (") for name in names)
    assert any(name.endswith(") worst") for name in names)
    (bar,) = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(bar.get_xdata(), found.ranks.iloc[:2])


def test_the_diagram_is_the_same_in_every_process(tmp_path):
    """Sets of words have another order wherever they are hashed with another seed."""
    code = (
        "import sys, pandas as pd\n"
        "from tsformer.plots import plot_critical_difference\n"
        "from tsformer.studies import compare_methods\n"
        "rows = [(f'd{d}', m, 0, ((d * 7 + i * 5) % 11) / 11) for d in range(9)\n"
        "        for i, m in enumerate('abcdef')]\n"
        "rows = pd.DataFrame(rows, columns=['dataset', 'method', 'seed', 'score'])\n"
        "plot_critical_difference(compare_methods(rows)).savefig(sys.argv[1])\n"
    )
    for seed in ("1", "2"):
        path = tmp_path / f"{seed}.png"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, path], check=True, env=environment)
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()
