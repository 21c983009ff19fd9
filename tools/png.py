"""Small PNG files of figures and screenshots, for the documentation."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from PIL import Image

__all__ = ["write_figure", "write_png"]


def write_figure(figure: Any, path: Path) -> None:
    """Save a figure at its own resolution, and say where."""
    file = io.BytesIO()
    figure.savefig(file, dpi=figure.dpi)
    write_png(file.getvalue(), path)


def write_png(png: bytes, path: Path) -> None:
    """Save a PNG with 256 colours, and say where.

    The difference is invisible, and the file a third of the size.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(path, optimize=True)
    print(path)
