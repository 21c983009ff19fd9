"""Files that describe a study, TOML to be read and JSON beside its results; its train sizes."""

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tsformer._checks import check_known

_KEYS = (
    *("datasets", "encodings", "methods", "seeds", "resamples", "parameters", "vary"),
    *("train_sizes", "leave_out", "splits", "imports", "title", "description"),
)
#: Keys of a design that hold objects, and lists.
TABLES = ("parameters", "vary", "methods", "leave_out", "splits")
LISTS = ("datasets", "encodings", "seeds", "train_sizes", "imports")


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
    sizes = tuple(map(_one, values))
    for size in sizes:
        if sizes.count(size) > 1:
            raise ValueError(f"train_sizes names {size!r} twice; name each once")
    return sizes


def _one(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        hint = f'; write "{100 * value:g}%" for a share' if isinstance(value, float) else ""
        raise TypeError(
            'a train size must be a number of series, such as 20, or a percentage, such as "50%"; '
            f"got {value!r}{hint}"
        )
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", str(value).strip())
    if found is None or (not found[2] and "." in found[1]):
        raise ValueError(
            "a train size must be a whole number of series, such as 20, or a percentage, such as "
            f'"50%"; got {value!r}'
        )
    number = float(found[1])
    if number <= 0 or (found[2] and number > 100):
        raise ValueError(
            f"a train size must be above zero, and a percentage at most 100%; got {value!r}"
        )
    return f"{number:.10g}%" if found[2] else str(int(found[1]))
