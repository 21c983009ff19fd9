"""Tables and files of a comparison."""

from __future__ import annotations

import pandas as pd
import pytest

from tsformer.studies import summary_table
from tsformer.studies._files import write_atomically
from tsformer.studies.report.summary import to_markdown


def test_the_summary_keeps_the_order_of_the_study():
    rows = [
        {"dataset": d, "encoding": e, "accuracy": a, "fit_seconds": 1.0, "n_parameters": 1234}
        for d, e, a in [
            ("Z", "rope", 0.5),
            ("Z", "none", 0.25),
            ("A", "none", 1.0),
            ("Z", "rope", 1.0),
        ]
    ]
    table = summary_table(pd.DataFrame(rows))
    assert table[["dataset", "encoding"]].to_numpy().tolist() == [
        ["Z", "rope"], ["Z", "none"], ["A", "none"],
    ]  # fmt: skip
    assert to_markdown(table).splitlines()[2:] == [
        "| Z | rope | 0.750 ± 0.354 | 2 | 1.0 | 1,234 |",
        "| Z | none | 0.250 | 1 | 1.0 | 1,234 |",
        "| A | none | 1.000 | 1 | 1.0 | 1,234 |",
    ]


def test_a_method_that_was_skipped_has_a_row_with_the_reason():
    fits = [("wide", "ridge", 0), ("narrow", "ridge", 0), ("narrow", "forest", 0)]
    fits += [(dataset, method, 1) for dataset, method, _ in fits]
    results = pd.DataFrame(fits, columns=["dataset", "method", "seed"]).assign(
        accuracy=0.5,
        fit_seconds=1.0,
        n_parameters=1234,
        predict_seconds=2.0,
        peak_memory_mb=900.0,
        helped="",
    )
    skipped = "UnreadableSeries: it reads one channel"
    failures = [("wide", "forest", seed, skipped) for seed in (0, 1)]
    failures += [("wide", "tree", 0, skipped), ("narrow", "tree", 0, "ValueError: too few")]
    table = summary_table(
        results, pd.DataFrame(failures, columns=["dataset", "method", "seed", "error"])
    )
    measured = "0.500 ± 0.000 | 2 | 1.0 | 2.0 | 900 | 1,234 |"
    assert to_markdown(table).splitlines()[2:] == [
        f"| wide | ridge | {measured}  |",
        "| wide | forest | – | 0 | – | – | – | – | skipped: it reads one channel |",
        "| wide | tree | – | 0 | – | – | – | – | skipped: it reads one channel |",
        f"| narrow | ridge | {measured}  |",
        f"| narrow | forest | {measured}  |",
    ]
    none = pd.DataFrame(columns=["dataset", "method", "seed", "error"])
    pd.testing.assert_frame_equal(summary_table(results, none), summary_table(results))
    alone = summary_table(results[:0], pd.DataFrame(failures[:1], columns=none.columns))
    assert to_markdown(alone).splitlines()[2:] == [
        "| wide | forest | – | 0 | – | – | – | – | skipped: it reads one channel |"
    ]


def test_a_fit_that_is_the_row_of_every_seed_counts_once():
    fits = [("nearest", 0, 0.5, "n0"), ("drawn", 0, 0.25, "d0"), ("nearest", 1, 0.75, "n1")]
    fits += [("drawn", 1, 0.5, "d1")]
    results = pd.DataFrame(fits * 3, columns=["method", "resample", "accuracy", "run_id"]).assign(
        dataset="Z", seed=[0] * 4 + [1] * 4 + [2] * 4, n_parameters=1234, helped=""
    )
    results.loc[results["method"] == "drawn", "run_id"] += results["seed"].map(str)
    results = results.assign(predict_seconds=2.0, peak_memory_mb=900.0, fit_seconds=1.0)
    results.loc[results["seed"] == 1, "fit_seconds"] = 700.0  # held up
    table = summary_table(results).set_index("method")
    assert table["fit_seconds"].tolist() == [1.0, 1.0]
    assert table["fits"].to_dict() == {"nearest": 2, "drawn": 6}
    assert table.at["nearest", "spread"] == pytest.approx(0.125 * 2**0.5)
    alone = summary_table(results[results["resample"] == 0]).set_index("method")
    assert alone["fits"].to_dict() == {"nearest": 1, "drawn": 3}
    assert alone["spread"].isna().to_dict() == {"nearest": True, "drawn": False}


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.csv"
    write_atomically("old\n", path)
    with pytest.raises(UnicodeEncodeError):
        write_atomically("new \ud800", path)
    assert path.read_text() == "old\n"
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]
