"""Files that describe a study, TOML to be read and JSON beside its results; its train sizes."""

import json
import re
import tomllib
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

from tsformer._checks import check_known

#: Keys of a design that hold objects, and lists.
TABLES = ("parameters", "vary", "methods", "leave_out", "splits")
LISTS = ("datasets", "encodings", "seeds", "train_sizes", "imports")
_KEYS = (*LISTS, *TABLES, "resamples", "title", "description")


def read_study_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a study file, TOML or ``study.json``, as arguments of `Study`."""
    try:
        said = read_design(Path(path)) if Path(path).suffix == ".json" else None
        if said is None:
            said = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a valid TOML file: {error}") from error
    for key in said:
        check_known("key of a study", key, _KEYS, where=f"{path}: ")
    compared = () if "methods" in said else ("encodings",)
    for key in ("datasets", *compared):
        if key not in said:
            raise ValueError(f'{path} lacks the key {key}; add a line such as {key} = ["..."]')
    for key in TABLES:
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


#: The size that is the whole train split, in every data set.
WHOLE = "100%"


def train_sizes(values: Any) -> tuple[str, ...]:
    """Return sizes in their one spelling, as in ``("20", "50%")``."""
    if isinstance(values, str | int) or not isinstance(values, Iterable):
        raise TypeError(f'train_sizes must be a list such as [20, "50%", "100%"]; got {values!r}')
    sizes: list[str] = []
    for value in values:
        kind = ValueError if isinstance(value, str | int) else TypeError
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", str(value).strip())
        number, percent = (float(found[1]), found[2]) if found and kind is ValueError else (0, "")
        if not 0 < number <= (100 if percent else inf) or (not percent and number % 1):
            raise kind(
                "a train size must be a whole number of series, such as 20, or a percentage of at "
                f'most 100, such as "10%"; got {value!r}'
            )
        size = f"{number:.10g}%" if percent else str(int(number))
        if size in sizes:
            raise ValueError(f"train_sizes names {size!r} twice; name each once")
        sizes.append(size)
    return tuple(sizes)
