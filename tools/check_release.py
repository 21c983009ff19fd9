"""Does everything name the version that a tag is about to release?

    python tools/check_release.py v0.2.0

Compares the tag with the version of the package, the newest section of CHANGELOG.md and
CITATION.cff. Needs the standard library alone; says what disagrees, and exits with 1.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

_DATE = r"\d{4}-\d{2}-\d{2}"


def disagreements(tag: str, root: Path = ROOT) -> list[str]:
    """Return a line for each thing that stands in the way of releasing this tag."""
    version = _found(root / "tsformer/_version.py", r'^__version__ = "(.*)"$')
    newest = _found(root / "CHANGELOG.md", r"^## (.*)$")
    cited = _found(root / "CITATION.cff", r"^version: (.*)$")
    released = _found(root / "CITATION.cff", r"^date-released: (.*)$")
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        found.append(f"tsformer.__version__ is {version}, not the version of a release")
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, and tsformer.__version__ is {version}")
    dated = re.fullmatch(rf"{re.escape(version)} - ({_DATE})", newest)
    if dated is None:
        found.append(f"CHANGELOG.md begins with {newest!r}, not with '{version} - YYYY-MM-DD'")
    if cited != version:
        found.append(f"CITATION.cff has version {cited}, not {version}")
    if dated is not None and released != dated[1]:
        found.append(f"CITATION.cff was released on {released}, CHANGELOG.md says {dated[1]}")
    return found


def _found(path: Path, pattern: str) -> str:
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{path} has no line {pattern}")
    return match[1].strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: python {sys.argv[0]} TAG")
    wrong = disagreements(sys.argv[1])
    print("\n".join(wrong) or f"{sys.argv[1]} can be released")
    raise SystemExit(bool(wrong))
