"""docs/how_it_works.md: the map of the package is true."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/how_it_works.md").read_text(encoding="utf-8")
#: Path -> what the map says of it.
MAP = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", PAGE.partition("## The map")[2], re.MULTILINE))


def test_every_path_on_the_map_exists():
    assert len(MAP) > 12
    for where, what in MAP.items():
        assert (ROOT / where).exists(), f"the map names {where}"
        for name in re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.csv))`", what):
            there = (ROOT / where / name).exists() or (ROOT / name).exists()
            assert there, f"the map names {name} at {where}"


def test_the_map_lists_every_part_of_the_package():
    for part in (ROOT / "tsformer").iterdir():
        if part.name[0] not in "_." and (part.is_dir() or part.suffix == ".py"):
            name = f"tsformer/{part.name}{'/' if part.is_dir() else ''}"
            assert name in MAP, f"the map lacks {name}"


def test_the_map_names_every_subpackage():
    for file in (ROOT / "tsformer").glob("*/*/__init__.py"):
        package = file.parent
        what = MAP[f"tsformer/{package.parent.name}/"]
        assert f"`{package.name}/`" in what, f"the map lacks {package}"
