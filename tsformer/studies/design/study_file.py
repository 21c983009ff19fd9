"""A study as a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tsformer._names import unknown

__all__ = ["read_study_file"]

_KEYS = ("datasets", "encodings", "seeds", "resamples", "parameters", "vary")
_NEEDED = ("datasets", "encodings")
_TABLES = ("parameters", "vary")


def read_study_file(path: str | Path) -> dict[str, Any]:
    """Return what a study file says, as keyword arguments of `Study`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no TOML, has an unknown key, with the nearest match, or lacks one.
    """
    try:
        said = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from error
    for key in said:
        if key not in _KEYS:
            raise ValueError(f"{path}: {unknown('key of a study', key, _KEYS)}")
    for key in _NEEDED:
        if key not in said:
            raise ValueError(f'{path} does not say {key}; add a line such as {key} = ["..."]')
    for key in _TABLES:
        if not isinstance(said.get(key, {}), dict):
            raise ValueError(f"{path}: {key} must be a table, [{key}]; got {said[key]!r}")
    return said
