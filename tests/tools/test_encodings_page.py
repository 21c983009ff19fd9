"""docs/encodings.md is what its sources say, and the pictures of all encodings can be read."""

from __future__ import annotations

import importlib
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tsformer import TSTransformerClassifier
from tsformer.encodings import PositionalEncoding
from tsformer.encodings.registry import _REGISTRY, find

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/encodings.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def experiments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "experiments")
        yield


@pytest.fixture(scope="module")
def encodings_page(experiments: None) -> ModuleType:
    return importlib.import_module("encodings_page")


@pytest.fixture(scope="module")
def markdown_text(experiments: None) -> ModuleType:
    return importlib.import_module("markdown_text")


@pytest.fixture(scope="module")
def gallery(experiments: None) -> ModuleType:
    pytest.importorskip("matplotlib", reason='needs the extra "plots"')
    return importlib.import_module("encoding_gallery")


@pytest.fixture
def of_my_own() -> Iterator[None]:
    """An encoding registered outside the package, as a user's or another test's may be."""

    class Mine(PositionalEncoding, name="of_my_own"):
        """Add nothing."""

    yield
    del _REGISTRY["of_my_own"]


# --- the page ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("of_my_own")
def test_the_page_is_fresh(encodings_page):
    assert encodings_page.page() == PAGE, "stale; run: python experiments/write_docs.py"


def test_every_encoding_has_its_place_under_its_hook(encodings_page):
    rows = encodings_page.packaged()
    assert {row["name"] for row in rows} >= {"none", "fixed", "learnable", "lspe"}
    for row in rows:
        before, _, after = PAGE.partition(f"\n### {row['name']}\n")
        section = before.rpartition("\n## ")[2].partition("\n")[0]
        assert section.startswith(encodings_page.KINDS[row["kind"]])
        text = after.partition("\n### ")[0]
        assert row["summary"] in text
        assert f"`{find(row['name']).__module__}.{find(row['name']).__name__}`" in text
        assert f"past the trained length: {row['beyond']}" in text
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


# --- docstrings to Markdown ----------------------------------------------------------------------


def test_a_docstring_falls_into_its_sections(markdown_text):
    text = (
        "Do it.\n\nMore: a - b.\n\nParameters\n----------\na : int\n    An a.\n\nSee Also\n---\nb\n"
    )
    assert markdown_text.sections(text) == {
        "": "Do it.\n\nMore: a - b.",
        "Parameters": "a : int\n    An a.",
        "See Also": "b",
    }


def test_parameters_become_a_list(markdown_text):
    text = (
        'n, a, b : int\n    Both.\nkind : {"x", "y"}, default="x"\n    One line,\n    and more.\n'
        "m : int\n    Left out."
    )
    assert markdown_text.options(text, leave_out=("n", "m")) == (
        "- `a`, `b` (int):\n  Both.\n"
        '- `kind` ({"x", "y"}, default="x"):\n  One line,\n  and more.\n'
    )


def test_a_bar_does_not_end_a_cell(markdown_text):
    table = markdown_text.table(["a", " n"], [["``1 | B``", 2]])
    assert table == "| a | n |\n| --- | ---: |\n| ``1 \\| B`` | 2 |\n"


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


def test_the_guide_sets_accuracies_beside_each_other(encodings_page, tmp_path):
    path = tmp_path / "order_tasks.csv"
    path.write_text(ORDER, encoding="utf-8")
    assert encodings_page.order_tasks_table(path).splitlines() == [
        "| encoding | first | order |",
        "| --- | ---: | ---: |",
        "| none | 0.550 ± 0.071 | 0.500 |",
        "| lspe | 1.000 ± 0.000 | – |",
    ]


def test_the_guide_sets_costs_beside_each_other(encodings_page, tmp_path):
    path = tmp_path / "cost.csv"
    path.write_text(COST, encoding="utf-8")
    header, _, *rows = encodings_page.cost_table(path).splitlines()
    where = ("cpu, 512 steps, batch 16", "cuda, 2048 steps, batch 8")
    assert header == f"| encoding | time: {where[0]} | memory: {where[0]} | time: {where[1]} |"
    assert rows == ["| `none` | 1.00 | 1.00 | 1.00 |", "| `rope` | 1.10 | 1.25 | – |"]


def test_the_guide_leaves_out_what_was_not_measured(encodings_page, tmp_path):
    paths = {name: tmp_path / name for name in ("order_tasks", "cost", "choose_recipe")}
    assert encodings_page.guide(**paths) == ""
    paths["cost"].write_text(COST, encoding="utf-8")
    text = encodings_page.guide(**paths)
    assert text.startswith("## Which to try first\n")
    assert text.count("\n### ") == 1
    assert encodings_page.cost_table(paths["cost"]) in text
    assert not re.search(r"\{\w+\}", text), "a table was not filled in"


# --- the pictures --------------------------------------------------------------------------------


def texts(figure: Any) -> list[Any]:
    """Bounding boxes of all that is written, in pixels, with what it says."""
    figure.savefig(io.BytesIO(), dpi=figure.dpi)  # places are known once it is drawn
    found = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return [
        (text.get_window_extent(), text.get_text())
        for text in found
        if text.get_visible() and text.get_text()
    ]


def assert_apart_on_the_page(figure: Any, boxes: list[tuple[Any, str]]) -> None:
    for (box, what), (other, other_what) in itertools.combinations(boxes, 2):
        assert not box.overlaps(other), f"{what!r} and {other_what!r} overlap"
    page = figure.bbox
    for box, what in boxes:
        assert page.x0 <= box.x0, what
        assert box.x1 <= page.x1, what
        assert page.y0 <= box.y0, what
        assert box.y1 <= page.y1, what


def test_every_encoding_has_a_tile_and_no_words_overlap(gallery, encodings_page):
    rows = encodings_page.packaged()
    figure = gallery.gallery(rows)
    boxes = texts(figure)
    written = [text for _, text in boxes]
    for row in rows:
        assert written.count(row["name"]) == 1
        assert row["reference"] in written
    for kind in {row["kind"] for row in rows}:
        assert gallery.KINDS[kind][0] in written
    panels = [(ax.get_window_extent(), "a panel") for ax in figure.axes]
    assert_apart_on_the_page(figure, boxes + panels)
    assert figure.bbox.width == gallery.PAGE


def test_a_kind_begins_where_it_fits(gallery):
    rows = [{"kind": kind} for kind in ["embed"] * 4 + ["none"] + ["rotate"] * 2 + ["bias"] * 4]
    placed = [(row, column, first) for row, column, _, first in gallery.placed(rows)]
    assert placed == [
        *[(0, column, column == 0) for column in range(4)],
        (0, 4, True),
        (1, 0, True), (1, 1, False),
        *[(2, column, column == 0) for column in range(4)],
    ]  # fmt: skip


def test_the_habit_is_drawn_at_its_sizes(gallery):
    figure = gallery.habit()
    assert [ax.images[0].get_array().shape for ax in figure.axes[:3]] == [
        (512, 512), (512, 512), (96, 48),
    ]  # fmt: skip
    figure.savefig(io.BytesIO(), dpi=figure.dpi)
    panels = [(ax.get_tightbbox(), ax.get_title() or ax.get_xlabel()) for ax in figure.axes]
    assert_apart_on_the_page(figure, panels)
