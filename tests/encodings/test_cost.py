"""What encodings cost: how memory grows, the shipped figures, and the script that measures them."""

import csv
from importlib.resources import files
from pathlib import Path

import pytest
from marks import exhaustive_except
from user_encodings import define

from experiments.cost import encoding_cost
from tsformer.encodings import find, names
from tsformer.encodings.cost import time_ratios

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", exhaustive_except(names(), ["lspe", "rope", "alibi", "erpe"]))
def test_memory_of_a_step_grows_linearly_except_with_a_matrix_of_scores(name, monkeypatch):
    """One series twice as long takes twice the memory; a matrix of scores takes four times."""
    monkeypatch.setattr(encoding_cost, "TOKENS", 1)  # one series whatever its length
    short, long = (encoding_cost.peak_memory(name, length, "cpu") for length in (256, 512))
    if find(name).kind == "bias":
        assert 2.5 * short < long < 4.1 * short
    else:
        assert 1.7 * short < long < 2.4 * short


def test_the_figures_are_relative_to_none_and_of_encodings_that_exist():
    measured = time_ratios(1024)
    assert measured["none"] == 1.0
    assert set(measured) <= {*names(), "tape+erpe"}, "a row for an encoding that is gone"
    assert len(measured) > 20
    assert 0.5 < min(measured.values()) < max(measured.values()) < 100
    assert time_ratios(12345) == {}
    assert time_ratios(1024, device="abacus") == {}


def test_list_shows_new_encoding_without_cost():
    pytest.importorskip("typer", reason='needs the extra "cli"')
    from typer.testing import CliRunner

    from tsformer.cli.app import app

    define("ramp")
    done = CliRunner().invoke(app, ["encodings"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    (line,) = (line for line in done.output.splitlines() if "ramp" in line)
    assert line.split()[:2] == ["ramp", "embed"]
    assert "-" in line.split()


def test_the_figures_are_linked_among_the_results():
    shipped = files("tsformer.encodings").joinpath("cost.csv").read_text(encoding="utf-8")
    link = ROOT / "experiments/results/encoding_cost.csv"
    assert link.is_symlink()
    assert link.read_text(encoding="utf-8") == shipped


@pytest.mark.slow
def test_the_script_measures_prints_and_draws(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason='needs the extra "plots"')
    monkeypatch.setattr(encoding_cost, "TOKENS", 1)  # one series whatever its length
    out, figure = tmp_path / "encoding_cost.csv", tmp_path / "encoding_cost.png"

    def run(*arguments: str) -> str:
        encoding_cost.main(["--seconds", "0", "--out", str(tmp_path), *arguments])
        return capsys.readouterr().out

    run("--lengths", "64", "--encodings", "fixed,t5")
    printed = run("--lengths", "64,512", "--encodings", "fixed,alibi")
    rows = list(csv.DictReader(out.open()))
    assert [(row["encoding"], row["length"]) for row in rows] == [
        (name, length) for length in ("64", "512") for name in ("none", "fixed", "alibi")
    ]
    for row in rows:
        assert float(row["time_low"]) <= float(row["time_ratio"]) <= float(row["time_high"])
        assert row["rounds"] == "3"
    memory = {(row["encoding"], row["length"]): float(row["memory_mib"]) for row in rows}
    # Eight times the tokens, and .4 MiB to one digit; alibi has a matrix of scores.
    for name in ("none", "fixed"):
        assert 4 < memory[name, "512"] / memory[name, "64"] < 20  # 64 if it were quadratic
        assert memory["alibi", "512"] > 2 * memory[name, "512"]
    assert {float(row["time_ratio"]) for row in rows if row["encoding"] == "none"} == {1.0}
    assert "peak MiB of a step" in printed
    assert figure.stat().st_size > 10_000
