"""Files that describe a study: TOML to be read, and JSON beside its results."""

import json
import tomllib
from pathlib import Path
from typing import Any

from tsformer._checks import check_known

#: Keys of a design that hold objects, and lists.
TABLES = ("parameters", "vary", "methods", "leave_out", "splits")
LISTS = ("datasets", "encodings", "seeds", "train_sizes", "imports")
#: The size that is the whole train split, in every data set.
WHOLE = "100%"


def read_study_file(path: Path) -> dict[str, Any]:
    """Return the content of a study file, TOML or ``study.json``, as arguments of `Study`."""
    read = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        described: dict[str, Any] = read(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a valid {path.suffix[1:].upper()}: {error}") from error
    for key in described:
        known = (*LISTS, *TABLES, "resamples", "title", "description")
        check_known("key of a study", key, known, where=f"{path}: ")
    return described
