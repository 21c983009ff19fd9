"""Small PNG files of figures, for the documentation."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from PIL import Image


def write_png(figure: Any, path: Path) -> None:
    """Save a figure at its own resolution, and say where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    figure.savefig(file, dpi=figure.dpi)
    # 256 colours: the difference is invisible, and the file is a third of the size.
    Image.open(file).convert("RGB").quantize(256).save(path, optimize=True)
    print(path)
