"""docs/augmentation.md is what its sources say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tools import augmentation_page
from tsformer.augmentation import Augmentation, Batch, resolve, unregister
from tsformer.augmentation.registry import find

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/augmentation.md").read_text(encoding="utf-8")
CALL, OWN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def of_my_own() -> Iterator[None]:
    """An augmentation registered outside the package, as a user's or another test's may be."""

    class Mine(Augmentation, name="of_my_own"):
        """Change nothing."""

    yield
    unregister("of_my_own")


@pytest.mark.usefixtures("of_my_own")
def test_the_page_of_augmentations_is_fresh():
    assert augmentation_page.page() == PAGE, "stale; run: python tools/write_docs.py"


def test_every_augmentation_has_its_place():
    rows = augmentation_page.packaged()
    assert {row["name"] for row in rows} >= {"warp", "slice", "cutmix", "jitter"}
    for row in rows:
        text = PAGE.partition(f"\n## {row['name']}\n")[2].partition("\n## ")[0]
        assert row["summary"] in text
        assert f"`tsformer.augmentation.{find(row['name']).__name__}`" in text
        assert "Source: " in text
        assert re.search(r"\d % of the time of a training step", text)


def test_links_of_the_page_lead_to_files_and_places():
    targets = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert len(targets) > 4
    for target in targets:
        name, _, place = target.partition("#")
        assert not name or (ROOT / "docs" / name).is_file(), target
        assert not place or f"\n## {place}\n" in PAGE, target


def test_the_choice_shown_is_one():
    call = ast.parse(CALL.strip(), mode="eval").body
    assert isinstance(call, ast.Call)
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    made = resolve(given.pop("augmentation"), **given.pop("augmentation_params"))
    assert made.sigma == 0.3
    assert not given


def test_the_augmentation_of_ones_own_works():
    exec(OWN, {})
    try:
        flipped = resolve("flip", p=1.0)(Batch(torch.ones(2, 3, 1)))
        assert (flipped.values == -1).all()
    finally:
        unregister("flip")
