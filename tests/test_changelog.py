"""CHANGELOG.md: it knows this version."""

from __future__ import annotations

import re
from pathlib import Path

import tsformer

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)


def test_this_version_is_the_newest():
    version, development, _ = tsformer.__version__.partition(".dev")
    newest = f"Unreleased ({version}.dev)" if development else rf"{version} - \d{{4}}-\d\d-\d\d"
    assert SECTIONS[0] == newest or re.fullmatch(newest, SECTIONS[0])
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", older) for older in SECTIONS[1:])
