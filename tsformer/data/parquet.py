"""Files of Arrow: Parquet and Feather, read whole."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tsformer._optional import require

#: Endings of Parquet files.
PARQUET = (".parquet", ".pq")
#: Columns that pandas adds for an index without a name.
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


def parquet_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return a Parquet file, or all in a folder by name, except for ``.*`` and ``_*``."""
    path = Path(path)
    files = [f for f in path.iterdir() if f.name[0] not in "._"] if path.is_dir() else [path]
    return sorted(file for file in files if file.suffix.lower() in PARQUET)


def read_arrow(path: Path) -> pd.DataFrame:
    """Read a table without the metadata of pandas, whose own types are slow in wide tables."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet and Feather")
    kind = "feather" if path.suffix.lower() == ".feather" else "parquet"
    library = require(f"pyarrow.{kind}", extra="parquet", purpose=f"reading {kind.title()}")
    try:
        if kind == "feather":
            arrow = library.read_table(path, memory_map=False)
        else:
            with library.ParquetFile(path) as file:
                arrow = file.read()
    except MemoryError:  # of Arrow it is one of the following too
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as {kind.title()}: {error}") from error
    refuse_repeated(path, arrow.column_names)
    # As objects, whole numbers beside missing ones stay whole: they may be labels.
    table: pd.DataFrame = arrow.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    table.index = pd.RangeIndex(2, 2 + len(table))
    return table.drop(columns=[name for name in table if _UNNAMED_INDEX.fullmatch(str(name))])


def refuse_repeated(path: Path, names: Sequence[str], hint: str = "") -> None:
    """Raise ValueError if two columns have the same name."""
    for name, count in Counter(names).items():
        if count > 1 and name:
            problem = f"{count} columns called {name!r}; rename all but one{hint}"
            raise ValueError(f"{path} has {problem}")
