"""Files that describe a study, TOML to be read and JSON beside its results."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from tsformer._checks import unknown

_KEYS = (
    *("datasets", "encodings", "methods", "seeds", "resamples", "parameters", "vary"),
    *("leave_out", "splits", "title", "description"),
)
_TABLES = ("parameters", "vary", "methods", "leave_out", "splits")


def read_study_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a study file, TOML or ``study.json``, as arguments of `Study`."""
    try:
        said = read_design(Path(path)) if Path(path).suffix == ".json" else None
        if said is None:
            said = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a valid TOML file: {error}") from error
    for key in said:
        if key not in _KEYS:
            raise ValueError(f"{path}: {unknown('key of a study', key, _KEYS)}")
    compared = () if "methods" in said else ("encodings",)
    for key in ("datasets", *compared):
        if key not in said:
            raise ValueError(f'{path} lacks the key {key}; add a line such as {key} = ["..."]')
    for key in _TABLES:
        if not isinstance(said.get(key, {}), dict):
            raise ValueError(f"{path}: {key} must be a table, [{key}]; got {said[key]!r}")
    return said


def read_design(path: Path) -> dict[str, Any] | None:
    """Return the design in the ``study.json`` that `compare` wrote, or None."""
    if not path.is_file():
        return None
    try:
        design = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(design, dict):
        raise ValueError(f"{path} must be a JSON object with the design of a study; got {design!r}")
    return design
