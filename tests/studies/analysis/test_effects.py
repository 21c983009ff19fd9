"""Gains over a baseline and costs, on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer.studies.analysis.analyse import costs, gains, mean_gains
from tsformer.studies.analysis.statistics import Statistics, compare_methods

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


def test_gains_are_differences_with_the_interval_of_their_data_sets():
    table = gains(found({"rope": [0.1, 0.2, 0.0, 0.1, 0.1, 0.1]}))
    assert list(table["method"].unique()) == ["rope"]
    assert table.set_index("dataset").loc["Chinatown", "gain"] == pytest.approx(0.2)
    with pytest.raises(ValueError, match="unknown method 'nome': did you mean 'none'"):
        gains(found({"rope": [0.1] * 6}), "nome")
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


def test_costs_and_their_front():
    rows = scores({"rope": [0.1] * 6, "erpe": [0.2] * 6, "slow": [0.1] * 6})
    seconds = {"none": 1.0, "rope": 2.0, "erpe": 3.0, "slow": 9.0}
    rows = rows.assign(fit_seconds=rows["method"].map(seconds))
    statistics = compare_methods(rows)
    table = costs(rows, statistics).set_index("method")
    assert table["fit_seconds"].to_dict() == seconds
    assert table["front_fit_seconds"].to_dict() == {
        **dict.fromkeys(("none", "rope", "erpe"), True),
        "slow": False,
    }
    assert "n_parameters" not in table.columns
    held_up = pd.concat([rows.assign(seed=seed) for seed in range(3)]).reset_index(drop=True)
    held_up.loc[(held_up["method"] == "rope") & (held_up["seed"] == 1), "fit_seconds"] = 700.0
    median = costs(held_up, statistics).set_index("method")
    assert median["fit_seconds"].to_dict() == seconds
    equal = costs(rows.assign(fit_seconds=1.0), statistics).set_index("method")
    assert equal["front_fit_seconds"].to_dict() == {
        **dict.fromkeys(("none", "rope", "slow"), False),
        "erpe": True,
    }
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
    rows = scores({"rope": [0.1] * 6})
    memory = {"none": 800.0, "rope": 900.0}
    for cost in ("peak_memory_mb", "predict_memory_mb"):
        table = costs(rows.assign(**{cost: rows["method"].map(memory)}), compare_methods(rows))
        assert table.set_index("method")[cost].to_dict() == memory
        assert f"front_{cost}" not in table
