"""Links and includes of the site lead where those of the repository do."""

from __future__ import annotations

import pytest

from tools.site_pages import DOCS, ROOT, page_text, pages, relinked

GUIDE = DOCS / "guide/choosing.md"


@pytest.mark.parametrize(
    ("written", "on_the_site"),
    [
        ("[a](../encodings.md#lspe)", "[a](../encodings.md#lspe)"),
        ("[a](https://arxiv.org)", "[a](https://arxiv.org)"),
        ("[a](#the-stem)", "[a](#the-stem)"),
        ("[r](../../experiments/results/README.md#x)", "[r](../results/index.md#x)"),
        ("[c](../../CHANGELOG.md)", "[c](../changelog.md)"),
        ("![p](../../experiments/results/a.png)", "![p](../../experiments/results/a.png)"),
        ("[g](../examples/plot_rocket.py)", "[g](../gallery/plot_rocket.rst)"),
        ("[licence](../../LICENSE)", "licence (`LICENSE`)"),
        ("[LICENSE](../../LICENSE)", "LICENSE"),
        ("```python\nX[0](../../LICENSE)\n```", "```python\nX[0](../../LICENSE)\n```"),
    ],
)
def test_link(written: str, on_the_site: str) -> None:
    assert relinked(written, GUIDE, GUIDE) == on_the_site


def test_links_of_an_included_file_are_relative_to_that_file() -> None:
    file, page = ROOT / "experiments/results/README.md", DOCS / "results/index.md"
    assert pages()[file] == page
    assert relinked("[n](speed_notes.md)", file, page) == "[n](speed_notes.md)"
    report = "[r](which_encoding/report/report.md#how)"
    assert relinked(report, file, page) == "[r](which_encoding.md#how)"


@pytest.mark.parametrize("name", ["changelog", "contributing", "results/index"])
def test_an_include_is_the_text_of_the_file(name: str) -> None:
    page = DOCS / f"{name}.md"
    source = page.read_text(encoding="utf-8")
    text = page_text(page, source)
    assert "{include}" in source
    assert "{include}" not in text
    assert len(text) > 20 * len(source)


def test_each_encoding_has_its_picture() -> None:
    page = DOCS / "encodings.md"
    text = page_text(page, page.read_text(encoding="utf-8"))
    assert "\n### lspe\n\n![lspe](_drawn/lspe.png)\n" in text
    assert text.count("](_drawn/") == text.count("\n### ") - 3  # three are of the guide
