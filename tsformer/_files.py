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
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """Return the version of a file."""
        status = os.stat(path)
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Whether `path` is still this file, changed or not."""
        return os.path.exists(path) and FileVersion.of(path)[2:] == self[2:]

    def check(self, path: str | os.PathLike[str]) -> None:
        """Raise OSError if the file changed."""
        if FileVersion.of(path) != self:
            raise OSError(changed(path))


def changed(path: str | os.PathLike[str]) -> str:
    """Return the error message for a file that changed during reading."""
    return (
        f"{os.fspath(path)} was changed or replaced after it was opened; leave files as they are "
        "until fit and predict return, and call them again"
    )


def check_output(path: Path, inputs: Iterable[Path] = (), *, replaces: bool = False) -> None:
    """Raise ValueError if writing to `path` would damage an input or a model."""
    around = [path.resolve(), *path.resolve().parents]
    reasons = []
    for source in (source for source in inputs if source.exists()):
        within = around if source.is_dir() and not replaces else around[:1]
        if any(target.exists() and target.samefile(source) for target in within):
            reasons.append(f"{source} is read")
    for folder in around[1:] if replaces else around:
        kinds = [kind for name, kind in _OWN_FOLDERS.items() if (folder / name).is_file()]
        reasons += [f"{folder} is {kind}" for kind in kinds]
    if reasons:
        why = reasons[-1]
        raise ValueError(f"{path} cannot be written, since {why}; name another place with --out")


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


#: Texts that spreadsheets run as formulas, and not numbers.
_FORMULA = re.compile(r"(?![-+]?\d*\.?\d+([eE][-+]?\d+)?$)[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def csv_cell(value: Any) -> Any:
    """Put a quote before a text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
