"""All pages recommend the same encoding, from the rows of the same study."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tools import write_docs
from tools.recommendation import recommendation, with_the_default_of_today
from tsformer import TSTransformerClassifier

PAGES = ("docs/guide/choosing.md", "docs/encodings.md", "experiments/results/README.md")


def without_links(text: str) -> str:
    return " ".join(re.sub(r"\]\([^)]+\)", "]", text).split())


@pytest.mark.parametrize("page", PAGES)
def test_every_page_says_the_same(page: str) -> None:
    text = without_links((write_docs.ROOT / page).read_text(encoding="utf-8"))
    said = without_links(recommendation("report.md"))
    assert text.count(said) == 1, "stale; run: python tools/write_docs.py"
    assert text.count("Which encoding to try first") == 1
    assert "Start with the default" not in text


def test_the_default_is_the_one_that_is_recommended() -> None:
    parameters = inspect.signature(TSTransformerClassifier).parameters
    assert parameters["stem"].default == "conv"
    assert f"the default, `{parameters['encoding'].default}` behind" in recommendation("")


ROWS = """dataset,encoding,stem,seed,accuracy,version
A,none,linear,0,0.5,0.9
A,lspe,linear,0,0.6,0.9
A,rope,linear,0,0.8,0.9
B,none,linear,0,0.7,0.9
B,lspe,linear,0,0.6,0.9
B,rope,linear,0,0.9,0.9
A,none,conv,0,0.9,0.9
A,lspe,conv,0,0.9,0.9
A,rope,conv,0,0.905,0.9
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "results.csv"
    (tmp_path / "study.json").write_text('{"vary": {"stem": ["linear", "conv"]}}', encoding="utf-8")
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_it_is_what_the_rows_say(rows: Path) -> None:
    said = " ".join(recommendation("report.md", rows).split())
    assert "all 3 encodings of [the study](report.md)" in said
    assert "from 0.900 to 0.905" in said
    assert "`rope`: of the 3 it has the best mean rank on the 2 problems, 1.00" in said
    assert "0.850, where `lspe` has 0.600 and `none` 0.600" in said
    assert "version 0.9 with" in said


def test_without_equality_it_asks_for_another_sentence(rows: Path) -> None:
    rows.write_text(ROWS.replace("A,rope,conv,0,0.905", "A,rope,conv,0,0.95"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"0\.050 apart"):
        recommendation("report.md", rows)


@pytest.mark.parametrize("page", list(write_docs.TODAY_FROM))
def test_what_the_default_of_today_says_is_fresh(page: str) -> None:
    text = (write_docs.ROOT / page).read_text(encoding="utf-8")
    said = with_the_default_of_today(write_docs.TODAY_FROM[page])
    assert text.count(said) == 1, "stale; run: python tools/write_docs.py"


def test_means_of_both_stems_are_what_the_rows_say(rows: Path) -> None:
    text = rows.read_text(encoding="utf-8").replace("A,lspe,conv,0,0.9,", "A,lspe,conv,0,0.89,")
    rows.write_text(text + text.partition("\n")[2].replace(",0,0.", ",1,0."), encoding="utf-8")
    said = " ".join(with_the_default_of_today("report.md", rows).split())
    assert "on 1 of the problems on which it was chosen, with 2 seeds ([report](report.md))" in said
    conv = (
        "`rope` 0.905, `none` 0.900, `lspe` 0.890; the gain of `lspe` over `none` is -1.0 points."
    )
    assert f"Behind the default stem: {conv}" in said
    linear = (
        "`rope` 0.850, `none` 0.600, `lspe` 0.600; the gain of `lspe` over `none` is +0.0 points."
    )
    assert f"Behind the linear stem: {linear}" in said
