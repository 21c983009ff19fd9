"""The gallery's examples are as many, as long and as runnable as they should be."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.site_gallery import ORDER, InOrder

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/examples").glob("plot_*.py"))
#: Shipped with sktime. Scores of three others that it ships are for a confirmation alone.
SHIPPED = {"ArrowHead", "OSULeaf", "ACSF1"}


def test_there_are_enough_and_each_has_its_place() -> None:
    assert len(EXAMPLES) >= 12
    assert {path.stem.removeprefix("plot_") for path in EXAMPLES} == set(ORDER)
    first = sorted(EXAMPLES, key=lambda path: InOrder("")(path.name))[0]
    assert first.stem == "plot_confusion"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert 20 <= len(text.splitlines()) <= 60
    title, line = (ast.get_docstring(ast.parse(text)) or "").splitlines()[:2]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert set(re.findall(r'load_dataset\("(\w+)"', text)) <= SHIPPED
    assert re.search(r"= plot_|plt\.subplots\(", text), "it draws nothing"
    for name in re.findall(r"^(\w+) = plot_", text, re.MULTILINE):
        assert f"\n{name}\n" in text, f"a notebook does not show {name}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["plot_encoding_change", "plot_relevance"])
def test_its_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook that a page offers is made of the same source, and runs from top to bottom."""
    for library in ("nbclient", "ipykernel", "sphinx_gallery"):
        pytest.importorskip(library, reason='needs the extra "docs"')
    import nbformat
    from nbclient import NotebookClient
    from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
    from sphinx_gallery.notebook import jupyter_notebook, save_notebook
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    (path,) = [path for path in EXAMPLES if path.stem == name]
    _, blocks = split_code_and_text_blocks(str(path))
    notebook = tmp_path / f"{name}.ipynb"
    conf = {**DEFAULT_GALLERY_CONF, "first_notebook_cell": "%matplotlib inline"}  # as docs/conf.py
    save_notebook(jupyter_notebook(blocks, conf, str(tmp_path)), notebook)
    cells = nbformat.read(notebook, as_version=4)
    code = "\n".join(cell.source for cell in cells.cells if cell.cell_type == "code")
    for line in path.read_text(encoding="utf-8").partition('"""\n\nfrom')[2].splitlines():
        assert line.startswith("#") or line.strip() in code
    NotebookClient(cells, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(
        "image/png" in output.get("data", {})
        for cell in cells.cells
        for output in cell.get("outputs", ())
    ), "no cell shows a picture"
