"""README.md: its examples run as they stand, and its tables are what their sources say."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def write_docs() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "experiments")
        yield importlib.import_module("write_docs")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(number, tmp_path):
    pytest.importorskip("sktime", reason='the problems come with the extra "data"')
    (tmp_path / "example.py").write_text(EXAMPLES[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Far above chance, 0.25 and 0.5 here: the example learns something.
    assert float(re.search(r"accuracy ([\d.]+)", done.stdout)[1]) > 0.8


def test_there_are_examples_to_run():
    assert len(EXAMPLES) == 3
    assert "from_long(" in EXAMPLES[1]
    assert 'PositionalEncoding, name="ramp"' in EXAMPLES[2]


@pytest.mark.parametrize("name", ["encodings", "results", "speed"])
def test_table_is_fresh(name, write_docs):
    table = {
        "encodings": write_docs.encodings_table,
        "results": write_docs.results_table,
        "speed": write_docs.speed_table,
    }[name]()
    assert write_docs.filled(README, name, table) == README, (
        "stale; run: python experiments/write_docs.py"
    )


@pytest.mark.parametrize(
    "name", ["language model", "missing values", "which encoding", "whole catalogue"]
)
def test_table_of_the_results_is_fresh(name, write_docs):
    text = write_docs.RESULTS_README.read_text(encoding="utf-8")
    table = {
        "language model": write_docs.language_table,
        "missing values": write_docs.missing_table,
        "which encoding": write_docs.study_table,
        "whole catalogue": lambda: write_docs.study_table(write_docs.CATALOGUE_STUDY),
    }[name]()
    assert len(table.splitlines()) > 9
    assert write_docs.filled(text, name, table) == text, (
        "stale; run: python experiments/write_docs.py"
    )


def test_results_table_sets_means_beside_published_figures(tmp_path, write_docs):
    ours, others = tmp_path / "ours.csv", tmp_path / "others.csv"
    ours.write_text(
        "dataset,seed,accuracy,fit_seconds\nNATOPS,0,0.9,10\nNATOPS,1,1.0,14\nFish,0,0.8,3\n",
        encoding="utf-8",
    )
    others.write_text(
        "dataset,rocket,convtran\nFish,0.981,\nNATOPS,0.886,0.944\n", encoding="utf-8"
    )
    assert write_docs.results_table(ours, others).splitlines() == [
        "| data set | tsformer | seconds a fit | ROCKET | ConvTran |",
        "| --- | --- | ---: | ---: | ---: |",
        "| NATOPS | 0.950 ± 0.071 | 12 | 0.886 | 0.944 |",
        "| Fish | 0.800 | 3 | 0.981 | – |",
    ]


def test_a_table_without_its_place_is_an_error(write_docs):
    with pytest.raises(ValueError, match="one place for the table 'costs'; it has 0"):
        write_docs.filled(README, "costs", "| a |\n")


def test_links_lead_to_files_and_places():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert "docs/encodings.md#lspe" in targets
    for target in targets:
        name, _, place = target.partition("#")
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        assert not place or f"\n### {place}\n" in text, f"{target} leads nowhere"


def test_the_map_lists_every_part_of_the_package():
    parts = [path for path in (ROOT / "tsformer").iterdir() if path.name[0] not in "_."]
    for part in parts:
        if part.is_dir() or part.suffix == ".py":
            name = f"tsformer/{part.name}{'/' if part.is_dir() else ''}"
            assert f"| `{name}` |" in README, f"the map in README.md lacks {name}"
