"""Files written in one step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` at the end of the block.

    It has a name of its own until then, whichever process or thread writes it, and is on the disk
    before it is renamed: whoever reads `path` sees the old content or the new, never a part, even
    if this process is killed or the power fails. If the block raises, nothing is left behind.
    """
    unfinished = path.with_name(f".{path.name}.{uuid4().hex[:12]}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
