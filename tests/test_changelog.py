"""CHANGELOG.md: it knows this version and every old name, and its code does what it says."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

import pytest

import tsformer
from experiments.recipe_0_1 import recipe_0_1
from tsformer.encodings._moved import MOVED

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)


def test_this_version_is_the_newest():
    version, development, _ = tsformer.__version__.partition(".dev")
    newest = f"Unreleased ({version}.dev)" if development else rf"{version} - \d{{4}}-\d\d-\d\d"
    assert SECTIONS[0] == newest or re.fullmatch(newest, SECTIONS[0])
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", older) for older in SECTIONS[1:])


def test_the_kinds_of_changes_are_those_of_keep_a_changelog():
    allowed = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    kinds = set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE))
    assert kinds - allowed == {"If you come from 0.1.0"}


def old_names() -> set[str]:
    """Return the words of the old names that the package answers to with a warning."""
    texts = {file: file.read_text() for file in (ROOT / "tsformer").rglob("*.py")}
    call = r"(?:renamed_in_module\(__name__, \{|(?:warn_renamed|renamed_attribute)\(\s*)"
    called = call + r"[\"']([^\"']+)"
    found = {name.partition("(")[0] for text in texts.values() for name in re.findall(called, text)}
    keywords = {name for text in texts.values() for name in re.findall(r"\((\w+)=\)\"", text)}
    moved = {file.stem for file, text in texts.items() if text.startswith('"""Deprecated: moved')}
    return {re.findall(r"\w+", name)[-1] for name in found if name} | keywords | moved | {*MOVED}


def test_every_old_name_is_listed():
    table = CHANGELOG.partition("### Deprecated")[2].partition("\n### ")[0]
    assert old_names() >= {"scaler_", "keep", "relate", "Diverged", "cell", "rotary", "beyond"}
    assert old_names() - set(re.findall(r"\w+", table)) == set()


def test_the_recipe_of_the_first_version():
    (code,) = re.findall(r"```python\n(.*?)```", CHANGELOG.replace("\n  ", "\n"), re.DOTALL)
    pytest.importorskip("sktime", reason='the problem comes with the extra "data"')
    defined: dict = {}
    exec(code, defined)
    n_cases = len(defined["X"])
    assert (
        defined["classifier"].get_params()
        == tsformer.TSTransformerClassifier(
            random_state=0, **recipe_0_1(n_cases=n_cases)
        ).get_params()
    )
    assert ceil(1000 / ceil(n_cases / 16)) > 20  # else the bound of 20 epochs would decide
