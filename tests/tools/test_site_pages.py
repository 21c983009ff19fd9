"""The site, and the tables that `make docs-tables` writes."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.gpu.page import page
from experiments.gpu.run import PARTS, read_rows
from experiments.output import COMMITTED
from tools import site, write_docs
from tools.site import DOCS, ROOT, page_text, pages, relinked
from tsformer.augmentation import Augmentation, Batch, resolve
from tsformer.augmentation import unregister as unregister_augmentation
from tsformer.encodings import PositionalEncoding, unregister

GUIDE = DOCS / "guide/choosing.md"
EXAMPLES = sorted((DOCS / "examples").rglob("*.py"))
#: Shipped with sktime. Scores of three others that it ships are for a confirmation alone.
SHIPPED = {"ArrowHead", "OSULeaf", "ACSF1"}


@pytest.mark.parametrize(
    ("written", "on_the_site"),
    [
        ("[a](../encodings.md#lspe)", "[a](../encodings.md#lspe)"),
        ("[a](#the-stem)", "[a](#the-stem)"),
        ("[r](../../experiments/results/README.md#x)", "[r](../results/index.md#x)"),
        ("[c](../../CHANGELOG.md)", "[c](../changelog.md)"),
        ("[g](../examples/fit/plot_rocket.py)", "[g](../gallery/fit/plot_rocket.rst)"),
        ("[e](../../tsformer/export/__init__.py)", "[e](../api/tsformer.export.rst)"),
        ("[`load`](../../tsformer/persistence.py)", "[`load`](../api/tsformer.load.rst)"),
        ("[licence](../../LICENSE)", "licence (`LICENSE`)"),
        ("```python\nX[0](../../LICENSE)\n```", "```python\nX[0](../../LICENSE)\n```"),
    ],
)
def test_link(written: str, on_the_site: str) -> None:
    assert relinked(written, GUIDE, GUIDE) == on_the_site


def test_links_of_an_included_file_are_relative_to_that_file() -> None:
    file, page = ROOT / "experiments/results/README.md", DOCS / "results/index.md"
    assert pages()[file] == page
    assert relinked("[n](../../docs/results/speed.md)", file, page) == "[n](speed.md)"
    report = "[r](which_encoding/report/report.md#how)"
    assert relinked(report, file, page) == "[r](which_encoding.md#how)"


def test_pictures_of_encodings_are_drawn_into_their_page() -> None:
    text = page_text(DOCS / "encodings.md", (DOCS / "encodings.md").read_text(encoding="utf-8"))
    assert "\n### lspe\n\n![lspe](_drawn/lspe.png)\n" in text


def test_the_api_reference_lists_every_public_object_once() -> None:
    listed = [
        id(getattr(import_module(room), name))
        for room, names in site.public().items()
        for name in names
        if callable(getattr(import_module(room), name))
    ]
    assert len(listed) == len(set(listed)) > 100
    assert "TSTransformerClassifier" in site.public()["tsformer"]
    for room in site.public().keys() - site.MODULES.keys():
        for name in import_module(room).__all__:
            thing = getattr(import_module(room), name)
            assert not callable(thing) or id(thing) in listed, f"{room}.{name}"


def test_the_index_of_the_api_has_every_package_and_the_estimators_first() -> None:
    rooms = {room for rooms in site.SECTIONS.values() for room in rooms}
    assert rooms == site.public().keys()
    chosen = " ".join(names for rooms in site.SECTIONS.values() for names in rooms.values())
    assert sorted(chosen.split()) == sorted(site.public()["tsformer"])
    assert next(iter(site.SECTIONS)) == "Estimators"
    methods = [name for _, name in site.members("tsformer.TSTransformerClassifier")]
    assert methods[:2] == ["fit", "predict"]
    assert not site.INTERNAL & set(methods)
    assert site.members("tsformer.TSTransformer") == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    title, line = (ast.get_docstring(ast.parse(text)) or "").splitlines()[:2]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert set(re.findall(r'load_dataset\("(\w+)"', text)) <= SHIPPED
    assert re.search(r"= plot_|plt\.subplots\(", text), "it draws nothing"
    for name in re.findall(r"^(\w+) = plot_", text, re.MULTILINE):
        assert f"\n{name}\n" in text, f"a notebook does not show {name}"


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
    rows = {name: read_rows(folder / f"{name}.jsonl") for name in PARTS}
    assert page(folder, rows) == (folder / "README.md").read_text(encoding="utf-8")


def test_the_examples_run():
    *first, user_code = re.findall(r"```python\n(.*?)```", ENCODINGS + AUGMENTATION, re.DOTALL)
    for program in first:
        imports, _, construction = program.rpartition("\n\n")
        scope: dict[str, object] = {}
        exec(imports, scope)
        eval(construction, scope).set_params(max_epochs=1).fit(np.eye(8), [0, 1] * 4)
    assert len(first) == 2
    exec(user_code, {})
    try:
        flipped = resolve("flip", p=1.0)(Batch(torch.ones(2, 3, 1)))
        assert (flipped.values == -1).all()
    finally:
        unregister_augmentation("flip")
