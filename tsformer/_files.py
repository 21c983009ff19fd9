"""Atomic writes, checks of output paths, detection of changed files, and safe cells of tables."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self
from uuid import uuid4

#: The file that marks a folder of this package, and its description.
_OWN_FOLDERS = {"estimator.json": "a saved model", "series.npy": "a folder of series"}


class FileVersion(NamedTuple):
    """Size, modification time and inode of a file, to detect changes."""

    size: int
    mtime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, file: str | os.PathLike[str] | int) -> Self:
        """Return the version of a file, by its path or its descriptor."""
        status = os.stat(file)
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Whether `path` is still this file, changed or not."""
        if not os.path.exists(path):
            return False
        now = FileVersion.of(path)
        return (now.inode, now.device) == (self.inode, self.device)

    def check(self, path: str | os.PathLike[str], file: int | None = None) -> None:
        """Raise OSError if the file or its descriptor changed."""
        if FileVersion.of(path if file is None else file) != self:
            raise OSError(changed(path))


def changed(path: str | os.PathLike[str]) -> str:
    """Return the error message for a file that changed during reading."""
    return (
        f"{os.fspath(path)} was changed or replaced after it was opened: its size, its time of "
        "change, its inode or its header differs. Leave files as they are until fit and predict "
        "return, and call them again"
    )


def check_output(path: Path, inputs: Iterable[Path] = (), *, replaces: bool = False) -> None:
    """Raise ValueError if writing to `path` would damage an input or a model."""
    around = [path.resolve(), *path.resolve().parents]
    for source in (source for source in inputs if source.exists()):
        within = around if source.is_dir() and not replaces else around[:1]
        if any(each.exists() and each.samefile(source) for each in within):
            raise ValueError(
                f"{path} cannot be written, since {source} is read; name another place with --out"
            )
    for folder in around[1:] if replaces else around:
        for name, kind in _OWN_FOLDERS.items():
            if (folder / name).is_file():
                raise ValueError(
                    f"{path} cannot be written, since {folder} is {kind}; name another place with "
                    "--out"
                )


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` atomically at the end of the block."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex[:12]}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


#: Texts that spreadsheets take for formulas; a number is none.
_FORMULA = re.compile(r"(?![-+]?\d*\.?\d+([eE][-+]?\d+)?$)[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def csv_cell(value: Any) -> Any:
    """Put a quote before a text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
