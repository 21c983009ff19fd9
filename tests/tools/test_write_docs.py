"""What `make docs-tables` writes is fresh, and the pages around it hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
import torch

from experiments.gpu.page import page
from experiments.gpu.run import PARTS, read_rows
from experiments.output import COMMITTED
from tools import write_docs
from tools.write_docs import ROOT
from tsformer import TSTransformerClassifier
from tsformer.augmentation import Augmentation, Batch, resolve
from tsformer.augmentation import unregister as unregister_augmentation
from tsformer.encodings import PositionalEncoding, unregister

ENCODINGS = (ROOT / "docs/encodings.md").read_text(encoding="utf-8")
AUGMENTATION = (ROOT / "docs/augmentation.md").read_text(encoding="utf-8")


@pytest.fixture
def of_my_own() -> Iterator[None]:
    """Register an encoding and an augmentation outside the package, as a user does."""

    class MyEncoding(PositionalEncoding, name="of_my_own"):
        """Add nothing."""

    class MyAugmentation(Augmentation, name="of_my_own"):
        """Change nothing."""

    yield
    unregister("of_my_own")
    unregister_augmentation("of_my_own")


@pytest.mark.usefixtures("of_my_own")
@pytest.mark.parametrize("page", write_docs.PARTS)
def test_the_generated_parts_are_fresh(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert write_docs.written(page) == text, "stale; run: make docs-tables"


def test_the_page_of_the_gpu_is_fresh():
    folder = COMMITTED / "gpu"
    rows = {part: read_rows(folder / f"{part}.jsonl") for part in PARTS}
    assert page(folder, rows) == (folder / "README.md").read_text(encoding="utf-8")


def test_a_part_without_its_place_is_an_error():
    with pytest.raises(ValueError, match="one place for 'costs'; it has 0"):
        write_docs.filled("a text", "costs", "| a |\n")


def test_the_examples_run():
    (example,) = re.findall(r"```python\n(.*?)```", ENCODINGS, re.DOTALL)
    assert eval(example, {"TSTransformerClassifier": TSTransformerClassifier}).encoding == "lspe"
    example, own = re.findall(r"```python\n(.*?)```", AUGMENTATION, re.DOTALL)
    call = ast.parse(example.strip(), mode="eval").body
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert resolve(given["augmentation"], **given["augmentation_params"]).sigma == 0.3
    exec(own, {})
    try:
        flipped = resolve("flip", p=1.0)(Batch(torch.ones(2, 3, 1)))
        assert (flipped.values == -1).all()
    finally:
        unregister_augmentation("flip")
