"""What encodings cost: how memory grows, the figures shipped, and the script that measures them."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from experiments.cost import encoding_cost
from tsformer.encodings import available, names
from tsformer.encodings.cost import time_ratios

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("row", available(), ids=lambda row: row["name"])
def test_memory_of_a_step_grows_linearly_but_for_a_matrix_of_scores(row, monkeypatch):
    """One series twice as long takes twice the memory; a matrix of scores takes four times."""
    monkeypatch.setattr(encoding_cost, "TOKENS", 1)  # one series whatever its length
    short, long = (encoding_cost.peak_memory(row["name"], length, "cpu") for length in (512, 1024))
    if row["kind"] == "bias":
        assert long > 2.5 * short
    else:
        assert 1.9 * short < long < 2.1 * short


def test_every_encoding_has_its_figure():
    assert set(names()) <= set(time_ratios(1024)), "run experiments/cost/encoding_cost.py --commit"
    assert time_ratios(1024)["none"] == 1.0
    assert time_ratios(12345) == {}
    assert time_ratios(1024, device="abacus") == {}


def test_the_figures_are_linked_among_the_results():
    shipped = files("tsformer.encodings").joinpath("cost.csv").read_text(encoding="utf-8")
    link = ROOT / "experiments/results/encoding_cost.csv"
    assert link.is_symlink()
    assert link.read_text(encoding="utf-8") == shipped


def test_the_script_measures_prints_and_draws(tmp_path):
    out, figure = tmp_path / "encoding_cost.csv", tmp_path / "encoding_cost.png"
    command = [sys.executable, ROOT / "experiments/cost/encoding_cost.py", "--seconds", "0"]
    command += ["--out", tmp_path]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    run("--lengths", "16", "--encodings", "fixed,t5")
    printed = run("--lengths", "16,1024", "--encodings", "fixed,alibi")
    rows = list(csv.DictReader(out.open()))
    assert [(row["encoding"], row["length"]) for row in rows] == [
        (name, length) for length in ("16", "1024") for name in ("none", "fixed", "alibi")
    ]
    for row in rows:
        assert float(row["time_low"]) <= float(row["time_ratio"]) <= float(row["time_high"])
        assert float(row["memory_mib"]) > 0
        assert row["rounds"] == "3"
    for name, aim in (("fixed", "1.10"), ("alibi", "1.50")):
        assert any(f"{name} " in line and f"target {aim}" in line for line in printed.splitlines())
    assert figure.stat().st_size > 10_000


def test_targets():
    kinds = {row["name"]: row["kind"] for row in available()}
    targets = {name: encoding_cost.target(name, kind) for name, kind in kinds.items()}
    assert targets["none"] is None
    assert (targets["lspe"], targets["rope"], targets["tupe"]) == (1.1, 1.1, 1.6)
    assert (targets["alibi"], targets["t5"], targets["erpe"]) == (1.5, 3.0, 1.25)
