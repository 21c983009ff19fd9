"""All pages recommend the same encoding, from the rows of the same studies."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import write_docs
from tools.recommendation import recommendation
from tsformer import TSTransformerClassifier

PAGES = ("docs/guide/choosing.md", "docs/encodings.md", "experiments/results/README.md")


def without_links(text: str) -> str:
    return " ".join(re.sub(r"\]\([^)]+\)", "]", text).split())


@pytest.mark.parametrize("page", PAGES)
def test_every_page_says_the_same(page: str) -> None:
    text = without_links((write_docs.ROOT / page).read_text(encoding="utf-8"))
    said = without_links(recommendation("results/"))
    assert text.count(said) == 1, "stale; run: python tools/write_docs.py"
    assert text.count("Which encoding to try first") == 1
    assert "Start with the default" not in text


def test_the_default_is_the_one_that_is_recommended() -> None:
    parameters = inspect.signature(TSTransformerClassifier).parameters
    assert parameters["stem"].default == "conv"
    assert f"the default, `{parameters['encoding'].default}` behind" in recommendation("")


#: Data set -> accuracies of none, lspe and rope, behind the linear stem and behind the conv stem.
ROWS = {
    "A": ((0.50, 0.60, 0.80), (0.90, 0.90, 0.905)),
    "B": ((0.70, 0.60, 0.90), (0.80, 0.81, 0.805)),
    "C": ((0.60, 0.60, 0.70), (0.70, 0.69, 0.705)),
    "D": ((0.60, 0.60, 0.70), (0.70, 0.69, 0.705)),
    "E": ((0.60, 0.60, 0.70), (0.70, 0.69, 0.705)),
}


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a study of two seeds, the second with a tenth less."""

    def write(name: str, *, loss: float = 0.0) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "study.json").write_text('{"vary": {"stem": ["linear", "conv"]}}', "utf-8")
        rows = ["dataset,encoding,stem,seed,accuracy"]
        for (dataset, scores), seed in itertools.product(ROWS.items(), (0, 1)):
            for stem, part in zip(("linear", "conv"), scores, strict=True):
                for encoding, score in zip(("none", "lspe", "rope"), part, strict=True):
                    lost = 0.1 * seed + loss * (encoding == "lspe")
                    rows.append(f"{dataset},{encoding},{stem},{seed},{score - lost}")
        (folder / "results.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return folder / "results.csv"

    return write


def test_it_is_what_the_rows_say(study: Callable[..., Path]) -> None:
    said = " ".join(recommendation("there/", study("today"), study("earlier", loss=0.2)).split())
    assert "`lspe` behind the convolutional stem; in a search, `rope` beside it" in said
    assert "[the recipe of today](there/encodings_of_today/report/report.md), on 5 of" in said
    assert "with 2 seeds, the mean accuracies of 3 encodings" in said
    # The means over both seeds are those of the first less .05.
    assert "between 0.706 (`lspe`) and 0.715 (`rope`)" in said
    gain = re.search(
        r"of `lspe` over `none` is (\S+) points, with a 95 % .* of (\S+) to (\S+)\. W", said
    )
    assert gain is not None
    mean, low, high = map(float, gain.groups())
    assert mean == -0.4
    assert -1.0 <= low < mean < high <= 1.0
    assert "(there/which_encoding/report/report.md), on 5 problems" in said
    assert "they lay between 0.506 and 0.715" in said
    rope = "`rope` has the best mean rank, and a mean accuracy of 0.710 where `lspe` has"
    assert f"it matters: {rope} 0.550 and `none` 0.550" in said
    assert f"recipe of 0.1.0, {rope} 0.350 and `none` 0.550" in said


def test_where_the_default_is_worse_than_none_it_asks_for_another_sentence(
    study: Callable[..., Path],
) -> None:
    with pytest.raises(ValueError, match=r"'lspe' is 20\.4 points worse than 'none'"):
        recommendation("", study("today", loss=0.2), study("earlier"))
