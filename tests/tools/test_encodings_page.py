"""docs/encodings.md is what its sources say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import encodings_page
from tsformer import TSTransformerClassifier
from tsformer.encodings import PositionalEncoding, unregister
from tsformer.encodings.registry import find

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/encodings.md").read_text(encoding="utf-8")


@pytest.fixture
def of_my_own() -> Iterator[None]:
    """An encoding registered outside the package, as a user's or another test's may be."""

    class Mine(PositionalEncoding, name="of_my_own"):
        """Add nothing."""

    yield
    unregister("of_my_own")


# --- the page ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("of_my_own")
def test_the_page_is_fresh():
    assert encodings_page.page() == PAGE, "stale; run: python tools/write_docs.py"


def test_every_encoding_has_its_place_under_its_hook():
    rows = encodings_page.packaged()
    assert {row["name"] for row in rows} >= {"none", "fixed", "learnable", "lspe"}
    for row in rows:
        before, _, after = PAGE.partition(f"\n### {row['name']}\n")
        section = before.rpartition("\n## ")[2].partition("\n")[0]
        assert section.startswith(encodings_page.KINDS[row["kind"]])
        text = after.partition("\n### ")[0]
        assert row["summary"] in text
        assert f"`tsformer.encodings.{find(row['name']).__name__}`" in text
        assert f"past the trained length: {row['extrapolation']}" in text
        assert "Source: " in text


def test_links_lead_to_files_and_places():
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        name, _, place = target.partition("#")
        assert not name or (ROOT / "docs" / name).is_file(), target
        assert not place or f"\n### {place}\n" in PAGE, target


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert eval(example, {"TSTransformerClassifier": TSTransformerClassifier}).encoding == "lspe"


def test_options_are_shown_without_the_sizes():
    lspe = PAGE.partition("\n### lspe\n")[2].partition("\n### ")[0]
    assert re.findall(r"^- `(\w+)` ", lspe, re.MULTILINE) == [
        "d_hidden", "dropout", "apply_to", "base",
    ]  # fmt: skip
    assert "- `dropout` (float, default=0.1):\n  On the hidden layer, in training.\n" in lspe
    assert "No options." in PAGE.partition("\n### none\n")[2].partition("\n### ")[0]


# --- the guide -----------------------------------------------------------------------------------

ORDER = """encoding,task,seed,accuracy
none,first,0,0.5
none,first,1,0.6
none,order,0,0.5
lspe,first,0,1.0
lspe,first,1,1.0
"""
COST = """encoding,kind,device,length,batch,time_ratio,memory_ratio,date
none,none,cpu,512,16,1.0,1.0,2026-01-01
none,none,cuda,2048,8,1.0,,2026-01-01
rope,rotate,cpu,512,16,1.104,1.25,2026-01-01
"""


def test_the_guide_sets_accuracies_beside_each_other(tmp_path):
    path = tmp_path / "order_tasks.csv"
    path.write_text(ORDER, encoding="utf-8")
    assert encodings_page.order_tasks_table(path).splitlines() == [
        "| encoding | first | order |",
        "| --- | ---: | ---: |",
        "| none | 0.550 ± 0.071 | 0.500 |",
        "| lspe | 1.000 ± 0.000 | – |",
    ]


def test_the_guide_sets_costs_beside_each_other(tmp_path):
    path = tmp_path / "cost.csv"
    path.write_text(COST, encoding="utf-8")
    header, _, *rows = encodings_page.cost_table(path).splitlines()
    where = ("cpu, 512 steps, batch 16", "cuda, 2048 steps, batch 8")
    assert header == f"| encoding | time: {where[0]} | memory: {where[0]} | time: {where[1]} |"
    assert rows == ["| `none` | 1.00 | 1.00 | 1.00 |", "| `rope` | 1.10 | 1.25 | – |"]


def test_the_guide_leaves_out_what_was_not_measured(tmp_path):
    paths = {name: tmp_path / name for name in ("order_tasks", "cost", "choose_recipe")}
    assert encodings_page.guide(**paths) == ""
    paths["cost"].write_text(COST, encoding="utf-8")
    text = encodings_page.guide(**paths)
    assert text.startswith("## Which to try first\n")
    assert text.count("\n### ") == 1
    assert encodings_page.cost_table(paths["cost"]) in text
    assert not re.search(r"\{\w+\}", text), "a table was not filled in"
