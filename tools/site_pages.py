"""What the site changes in Markdown that is also read in the repository: includes and links.

A page may include a file of the repository, as changelog.md does CHANGELOG.md. Links are written
for the repository, relative to the file that they are in. On the site a link to a file that is a
page leads to that page, a picture stays one, and another file of the repository is named in place
of a link.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from tsformer.encodings import names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_INCLUDE = re.compile(r"^```\{include\} (\S+)\n```$", re.MULTILINE)
_FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\]\\]|\\.)*)\]\(([^)\s]+)\)")
_PICTURE = {".png", ".svg", ".jpg"}


def read(app: Any, docname: str, source: list[str]) -> None:
    """Prepare the text of a page for Sphinx, which calls this before it parses the page."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        for file in _INCLUDE.findall(source[0]):
            app.env.note_dependency(str((path.parent / file).resolve()))
        source[0] = page_text(path, source[0])


def page_text(path: Path, text: str) -> str:
    """Return the text of the page at `path`, with includes and links as the site has them."""
    if path == DOCS / "encodings.md":
        text = with_pictures(text)
    included = _INCLUDE.findall(text)
    text = relinked(text, path, path)
    for name in included:
        file = (path.parent / name).resolve()
        inside = relinked(file.read_text(encoding="utf-8"), file, path)
        text = text.replace(f"```{{include}} {name}\n```", inside)
    return text


def with_pictures(text: str) -> str:
    """Return the page of encodings with the picture of each below its heading."""
    for name in names():
        text = text.replace(f"\n### {name}\n", f"\n### {name}\n\n![{name}](_drawn/{name}.png)\n")
    return text


@cache
def pages() -> dict[Path, Path]:
    """Return which file of the repository is on which page: itself, or what the page includes."""
    found = {}
    for path in sorted(DOCS.rglob("*.md")):
        if "_build" in path.parts or "gallery" in path.parts:
            continue
        found[path] = path
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            found[(path.parent / name).resolve()] = path
    return found


def relinked(text: str, file: Path, page: Path) -> str:
    """Return Markdown from `file` with its links as they are on `page`; code is left as it is."""
    parts, end = [], 0
    for fenced in _FENCED.finditer(text):
        parts += [_relinked(text[end : fenced.start()], file, page), fenced[0]]
        end = fenced.end()
    return "".join([*parts, _relinked(text[end:], file, page)])


def _relinked(text: str, file: Path, page: Path) -> str:
    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if ":" in target or target.startswith(("#", "_drawn/")):
            return match[0]
        name, _, place = target.partition("#")
        there = (file.parent / name).resolve()
        if there.parent == DOCS / "examples" and there.suffix == ".py":
            there = DOCS / "gallery" / f"{there.stem}.rst"
        if there in pages():
            new = os.path.relpath(pages()[there], page.parent) + (f"#{place}" if place else "")
            return f"{picture}[{words}]({new})"
        if there.suffix in _PICTURE or there.is_relative_to(DOCS):
            return f"{picture}[{words}]({os.path.relpath(there, page.parent)})"
        path = str(there.relative_to(ROOT))
        return words if path in words else f"{words} (`{path}`)"

    return _LINK.sub(link, text)
