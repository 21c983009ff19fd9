"""Where an experiment writes: a trial run never touches the committed results.

Every script has ``--out FOLDER``, by default a folder of its own under ``results/``, which git
ignores, and ``--commit``, which resumes from and writes to ``experiments/results/`` instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

#: The committed results. Only ``--commit`` writes here.
COMMITTED = Path(__file__).parent / "results"
#: Where trial runs write unless told otherwise. Git ignores it.
UNTRACKED = Path(__file__).parents[1] / "results"


def add_output_options(parser: argparse.ArgumentParser, experiment: str) -> None:
    """Add ``--out`` and ``--commit``; `out` of the parsed options is the folder to write to."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--out",
        type=_trial_folder,
        default=UNTRACKED / experiment,
        metavar="FOLDER",
        help=f"where to write; by default results/{experiment}, which git ignores",
    )
    choice.add_argument(
        "--commit",
        dest="out",
        action="store_const",
        const=COMMITTED,
        default=argparse.SUPPRESS,
        help="resume from and write to the committed results in experiments/results",
    )


def _trial_folder(name: str) -> Path:
    folder = Path(name).absolute()
    if folder.resolve().is_relative_to(COMMITTED.resolve()):
        raise argparse.ArgumentTypeError(
            f"{name} holds the committed results; choose another folder, or pass --commit in "
            "place of --out to write there"
        )
    return folder


def fit_missing(
    path: Path,
    keys: Sequence[str],
    cells: Iterable[tuple[Any, ...]],
    fit: Callable[..., dict[str, Any]],
    jobs: int,
) -> pd.DataFrame:
    """Call `fit` on the cells, values of `keys`, that the CSV lacks; return the whole CSV.

    Each row is appended and printed when its fit ends, so an interrupted run resumes.
    """
    done = set()
    if path.exists():
        done = set(pd.read_csv(path)[list(keys)].itertuples(index=False, name=None))
    rows = joblib.Parallel(jobs, return_as="generator_unordered")(
        joblib.delayed(fit)(*cell) for cell in cells if cell not in done
    )
    for row in rows:
        append_rows(pd.DataFrame([row]), path)
        print(row, flush=True)
    return pd.read_csv(path)


def append_rows(new: pd.DataFrame, path: Path) -> None:
    """Append rows to the CSV, which is created with a header if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new.to_csv(path, mode="a", header=not path.exists(), index=False)


def replace_rows(new: pd.DataFrame, path: Path, keys: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the CSV and new rows; new rows replace rows of equal `keys`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return new
    old = pd.read_csv(path)
    replaced = set(new[list(keys)].itertuples(index=False, name=None))
    kept = [key not in replaced for key in old[list(keys)].itertuples(index=False, name=None)]
    return pd.concat([old[kept], new])
