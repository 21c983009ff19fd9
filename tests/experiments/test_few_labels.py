"""few_labels.py: every method has the same labels, and rows and encoders are kept."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest

from experiments.pretraining import few_labels
from tsformer import load_dataset


def test_labels_of_all_but_the_chosen_are_hidden():
    y = np.array(["a", "b", "a"])
    assert few_labels.hidden(y, np.array([0, 2])).tolist() == ["a", None, "a"]


def test_gains_are_paired_and_each_data_set_counts_once():
    rows = [
        ("A", 0, "from scratch", 0.5), ("A", 0, "masked", 0.7),
        ("A", 1, "from scratch", 0.5), ("A", 1, "masked", 0.5),
        ("B", 0, "from scratch", 0.9), ("B", 0, "masked", 0.6),
        ("B", 1, "from scratch", 0.1),  # masked is still missing
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["dataset", "seed", "method", "accuracy"])
    table = table.assign(train_size="10%")
    (row,) = few_labels.gains(table).to_dict("records")
    assert row["gain"] == pytest.approx((0.1 - 0.3) / 2)
    assert row["standard_error"] == pytest.approx(0.2)
    assert (row["n_datasets"], row["won"], row["lost"]) == (2, 1, 1)
    assert few_labels.means(table).loc["10%"].to_dict() == pytest.approx(
        {"from scratch": (0.5 + 0.5) / 2, "masked": (0.6 + 0.6) / 2}
    )


@pytest.mark.slow
def test_it_resumes_and_draws(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sktime", reason='needs the extra "data"')
    pytest.importorskip("matplotlib", reason='needs the extra "plots"')
    monkeypatch.setattr(few_labels.output, "UNTRACKED", tmp_path / "kept")
    monkeypatch.setattr(few_labels, "METHODS", ["from scratch", "masked", "contrastive"])
    small = ["--datasets", "ItalyPowerDemand", "--sizes", "10%", "100%", "--epochs", "1"]
    few_labels.main([*small, "--seeds", "1", "--out", str(tmp_path / "out")])
    rows = pd.read_csv(tmp_path / "out/pretraining.csv")
    assert rows["method"].tolist() == ["from scratch"] * 2 + ["masked"] * 2 + ["contrastive"] * 2
    n = len(load_dataset("ItalyPowerDemand", split="train")[1])
    assert rows["n_train"].tolist() == [round(n / 10), n] * 3
    assert (rows["pretraining_seconds"] > 0).tolist() == [False] * 2 + [True] * 4
    assert (tmp_path / "out/pretraining.png").stat().st_size > 5_000
    capsys.readouterr()
    shutil.rmtree(tmp_path / "kept")  # as on another machine, to which only the rows came
    few_labels.main([*small, "--seeds", "1", "--out", str(tmp_path / "out")])
    assert "'dataset'" not in capsys.readouterr().out, "nothing is fitted again"
    assert not (tmp_path / "kept").exists(), "no row needs an encoder"
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out/pretraining.csv"), rows)


def test_with_and_without_pretraining_series_are_scaled_alike(tmp_path, monkeypatch):
    """Sizes that say nothing would make a classifier choose another scaling than its encoder."""
    X, y = load_dataset("ItalyPowerDemand", split="train")
    X = X * np.exp(np.random.default_rng(0).normal(size=(len(X), 1, 1)))
    monkeypatch.setattr(few_labels, "load_dataset", lambda name, split: (X, y))
    fitted = []

    class Noted(few_labels.TSTransformerClassifier):
        def fit(self, *args, **kwargs):
            fitted.append(super().fit(*args, **kwargs))
            return self

    monkeypatch.setattr(few_labels, "TSTransformerClassifier", Noted)
    few_labels.pretrain("ItalyPowerDemand", 0, "masked", 1, tmp_path)
    for method in ("from scratch", "masked"):
        few_labels.measure("ItalyPowerDemand", 0, method, "100%", 1, tmp_path)
    assert [each.preprocessor_.scaling for each in fitted] == ["channel", "channel"]
