"""Gains over a baseline, what they go with and what they cost, on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("baycomp", reason='needs the extra "statistics"')

from tsformer.studies.analysis.effects import costs, effects, gains, mean_gains
from tsformer.studies.analysis.statistics import Statistics, compare_methods

#: By series length 15, 24, 96, 150, 286, 500; by training size 150, 20, 100, 50, 28, 20.
PROBLEMS = ("SmoothSubspace", "Chinatown", "ECG200", "GunPoint", "Coffee", "ShapeletSim")


def scores(gain: dict[str, list[float]], datasets: tuple[str, ...] = PROBLEMS) -> pd.DataFrame:
    rows = [(name, "none", 0, 0.5) for name in datasets]
    rows += [
        (name, method, 0, 0.5 + more)
        for method, values in gain.items()
        for name, more in zip(datasets, values, strict=True)
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"])


def found(gain: dict[str, list[float]], datasets: tuple[str, ...] = PROBLEMS) -> Statistics:
    return compare_methods(scores(gain, datasets))


def test_gains_have_the_sizes_of_the_catalogue() -> None:
    table = gains(found({"rope": [0.1, 0.2, 0.0, 0.1, 0.1, 0.1]}))
    assert list(table["method"].unique()) == ["rope"]
    row = table.set_index("dataset").loc["Coffee"]
    assert (row["gain"], row["length"], row["train_size"]) == (pytest.approx(0.1), 286, 28)
    with pytest.raises(ValueError, match="unknown method 'nome': did you mean 'none'"):
        gains(found({"rope": [0.1] * 6}), "nome")


def test_data_sets_of_others_have_gains_but_no_sizes() -> None:
    table = gains(found({"rope": [0.1, 0.2]}, ("Mine", "Yours")))
    assert table[["length", "train_size"]].isna().all(axis=None)
    assert effects(table)[["rho", "p"]].isna().all(axis=None)
    assert (effects(table)["datasets"] == 0).all()


def test_a_gain_that_grows_with_length_is_told_from_one_that_does_not() -> None:
    rising = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]
    either = [0.03, 0.0, 0.04, 0.01, 0.05, 0.02]
    table = effects(gains(found({"rope": rising, "alibi": either})))
    by = table.set_index(["covariate", "method"])
    rope = by.loc[("length", "rope")]
    assert rope["rho"] == pytest.approx(1)
    # Two of the 720 orders of six are as far out.
    assert rope["p"] == pytest.approx(2 / 720)
    assert rope["p_holm"] == pytest.approx(2 * 2 / 720)
    assert by.loc[("length", "alibi"), "p"] > 0.5
    assert by.loc[("train_size", "rope"), "rho"] < 0


def test_nothing_is_said_of_few_data_sets_or_of_gains_that_do_not_vary() -> None:
    few = effects(gains(found({"rope": [0.1, 0.2, 0.3, 0.4]}, PROBLEMS[:4])))
    assert few["p"].isna().all()
    same = effects(gains(found({"rope": [0.1] * 6})))
    assert same[["rho", "p", "p_holm"]].isna().all(axis=None)


def test_the_interval_of_a_mean_gain_is_that_of_its_data_sets() -> None:
    rng = np.random.default_rng(0)
    names = [f"d{i}" for i in range(100)]
    values = rng.normal(0.1, 0.02, 100)
    table = pd.DataFrame({"dataset": names, "method": "rope", "gain": values})
    row = mean_gains(table).iloc[0]
    assert row["gain"] == pytest.approx(values.mean())
    error = values.std() / 10
    assert row["low"] == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert row["high"] == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)
    pd.testing.assert_frame_equal(mean_gains(table), mean_gains(table))


def test_costs_and_their_front() -> None:
    rows = scores({"rope": [0.1] * 6, "erpe": [0.2] * 6, "slow": [0.1] * 6})
    seconds = {"none": 1.0, "rope": 2.0, "erpe": 3.0, "slow": 9.0}
    rows = rows.assign(fit_seconds=rows["method"].map(seconds))
    table = costs(rows, compare_methods(rows)).set_index("method")
    assert table["fit_seconds"].to_dict() == seconds
    assert table["front_fit_seconds"].to_dict() == {
        **dict.fromkeys(("none", "rope", "erpe"), True),
        "slow": False,
    }
    assert "n_parameters" not in table.columns
    equal = costs(rows.assign(fit_seconds=1.0), compare_methods(rows)).set_index("method")
    assert equal["front_fit_seconds"].to_dict() == {
        **dict.fromkeys(("none", "rope", "slow"), False),
        "erpe": True,
    }


def test_a_fit_that_was_held_up_does_not_make_its_method_dear() -> None:
    rows = scores({"rope": [0.1] * 6})
    rows = pd.concat([rows.assign(seed=seed) for seed in range(3)]).reset_index(drop=True)
    rows = rows.assign(fit_seconds=2.0)
    rows.loc[(rows["method"] == "rope") & (rows["seed"] == 1), "fit_seconds"] = 700.0
    assert costs(rows, compare_methods(rows))["fit_seconds"].tolist() == [2.0, 2.0]


def test_costs_are_means_over_the_same_data_sets() -> None:
    rows = scores({"rope": [0.1] * 6})
    seconds = rows["dataset"].map(
        {name: 10.0**i for i, name in enumerate(rows["dataset"].unique())}
    )
    dear = rows["dataset"] == rows["dataset"].unique()[-1]
    unknown = seconds.mask(dear & (rows["method"] == "rope"))
    table = costs(rows.assign(fit_seconds=unknown), compare_methods(rows)).set_index("method")
    assert table["fit_seconds"].nunique() == 1, "the dearest of one alone makes no mean"
    never = seconds.mask(dear == (rows["method"] == "rope"))
    assert "fit_seconds" not in costs(rows.assign(fit_seconds=never), compare_methods(rows))


def test_predictions_cost_too() -> None:
    rows = scores({"1nn-dtw": [0.1] * 6})
    seconds = {"none": 0.5, "1nn-dtw": 80.0}
    table = costs(
        rows.assign(fit_seconds=1.0, predict_seconds=rows["method"].map(seconds)),
        compare_methods(rows),
    ).set_index("method")
    assert table["predict_seconds"].to_dict() == seconds
    assert table["front_predict_seconds"].to_dict() == dict.fromkeys(seconds, True)
    assert table["front_fit_seconds"].to_dict() == {"none": False, "1nn-dtw": True}


def test_the_memory_of_a_process_is_a_cost_without_a_front() -> None:
    rows = scores({"rope": [0.1] * 6})
    memory = {"none": 800.0, "rope": 900.0}
    for cost in ("peak_memory_mb", "predict_memory_mb"):
        table = costs(rows.assign(**{cost: rows["method"].map(memory)}), compare_methods(rows))
        assert table.set_index("method")[cost].to_dict() == memory
        assert f"front_{cost}" not in table
