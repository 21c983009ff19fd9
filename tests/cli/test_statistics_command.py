"""`tsformer statistics`: what it prints and writes."""

from __future__ import annotations

import pandas as pd
import pytest
from made_up_scores import results, twelve

pytest.importorskip("baycomp", reason='needs the extra "statistics"')
pytest.importorskip("scikit_posthocs", reason='needs the extra "statistics"')
pytest.importorskip("typer", reason='needs the extra "cli"')


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


@pytest.mark.slow
def test_command_takes_variants_one_by_one(tmp_path, capsys):
    from tsformer.cli import main

    rows = pd.concat([results(twelve()).assign(stem=stem) for stem in ("conv", "linear")])
    rows.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(
            [
                "statistics",
                str(tmp_path / "scores.csv"),
                "--vary",
                "stem",
                "--out",
                str(tmp_path / "out"),
            ]
        )
    assert end.value.code == 0
    assert capsys.readouterr().out.count("pairs differ: 2 of 3") == 2
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"stem=conv", "stem=linear"}


def test_columns_of_a_foreign_table_are_no_variants_unless_named(tmp_path, capsys):
    """One method ran on another device, each data set with its own batch size."""
    from tsformer.cli import main

    rows = results(twelve())
    rows["device"] = rows["method"].map({"worst": "cpu"}).fillna("cuda")
    rows["batch_size"] = rows["dataset"].str.removeprefix("d").astype(int) + 1
    rows.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["statistics", str(tmp_path / "scores.csv")])
    assert end.value.code == 0
    assert "pairs differ: 2 of 3" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["statistics", str(tmp_path / "scores.csv"), "--vary", "devise"])
    assert end.value.code == 2
    assert "unknown column to vary 'devise': did you mean 'device'" in capsys.readouterr().err


def test_a_variant_that_cannot_be_compared_is_named_after_the_others(tmp_path, capsys):
    from tsformer.cli import main

    rows = pd.concat([results(twelve()).assign(stem=stem) for stem in ("conv", "linear")])
    rows = rows[(rows["stem"] == "conv") | (rows["dataset"] == "d1")]
    rows.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["statistics", str(tmp_path / "scores.csv"), "--vary", "stem"])
    assert end.value.code == 2
    said = capsys.readouterr()
    assert "pairs differ: 2 of 3" in said.out
    assert "stem=linear: a comparison needs two methods and two data sets" in said.err


def test_published_results_are_further_methods(tmp_path, capsys):
    from tsformer.cli import main

    results(twelve()).to_csv(tmp_path / "scores.csv", index=False)
    head = "dataset,method,protocol,accuracy,source"
    for name, n in (("HC2", 12), ("old", 3)):
        rows = [f"d{d},{name},default split,0.99,a paper" for d in range(n)]
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    command = ["statistics", str(tmp_path / "scores.csv")]
    for name in ("HC2", "old"):
        command += ["--published", str(tmp_path / f"{name}.csv")]
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "HC2 (published)" in printed
    assert "pairs differ: 5 of 6" in printed
    assert "data sets   12" in printed
    assert "is missing: old (published)." in printed
    (tmp_path / "old.csv").write_text(f"{head}\nd1,old,default split,99,a paper", encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 2
    assert "between 0 and 1; got '99'; divide percentages by 100" in capsys.readouterr().err
