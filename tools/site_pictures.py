"""The picture of each encoding for the site, drawn while it is built."""

from __future__ import annotations

from pathlib import Path

from tools.catalogue_pages import packaged

POSITIONS = 64
_PACKAGE = Path(__file__).parents[1] / "tsformer"


def write(docs: Path) -> None:
    """Draw each encoding before training, unless its picture is newer than what it is made of."""
    from tsformer.plots import plot_encoding

    folder = docs / "_drawn"
    folder.mkdir(exist_ok=True)
    sources = [file for room in ("encodings", "plots") for file in (_PACKAGE / room).rglob("*.py")]
    newest = max(file.stat().st_mtime for file in sources)
    for row in packaged():
        name = str(row["name"])
        path = folder / f"{name}.png"
        if not path.exists() or path.stat().st_mtime < newest:
            plot_encoding(name, POSITIONS).savefig(path, dpi=80)
