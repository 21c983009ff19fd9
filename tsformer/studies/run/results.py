"""Ledger: what came of each fit of a study so far, as rows, in memory and in results.csv."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tsformer.studies.fit import COUNTS, columns, read_back, what
from tsformer.studies.report import to_csv, write_atomically
from tsformer.studies.study import Cell, Study
from tsformer.studies.work import Outcome
from tsformer.tracking import RunStore

__all__ = ["Ledger"]


class Ledger:
    """Rows of results, errors, and which fits the store has no run of.

    Parameters
    ----------
    study : Study
        What was asked.
    store : RunStore
        Where the runs are.
    path : Path
        The CSV, which always holds all rows there are.
    """

    def __init__(self, study: Study, store: RunStore, path: Path):
        self.study = study
        self.store = store
        self.path = path
        self.rows: dict[Cell, dict[str, Any]] = {}
        self.errors: dict[Cell, str] = {}
        self.unrecorded: set[Cell] = set()
        self._cells = study.cells()
        self._keys = {study.key(*cell): cell for cell in self._cells}

    def open(self) -> None:
        """Settle for the first time, unless the CSV that is there would be lost by it.

        Raises
        ------
        FileExistsError
            If it holds a fit of which the store has no run.
        Exception
            Whatever the store raises that cannot be reached.
        """
        self._read_store()
        self._refuse_to_lose()
        self.write()

    def settle(self) -> None:
        """Leave every key in the store with one FINISHED run at most and none RUNNING; read those.

        Raises
        ------
        Exception
            Whatever the store raises that cannot be reached.
        """
        self._read_store()
        self.write()

    def _read_store(self) -> None:
        for tags in self._tags():
            self.store.kill_stale(self._keys, tags)
            self.store.kill_doubled(self._keys, tags)
            for key, run in self.store.finished(self._keys, tags).items():
                cell = self._keys[key]
                known = self.rows.get(cell)
                if known is None or known["run_id"] != run.info.run_id:
                    self.rows[cell] = read_back(cell, self.study, run)
                    self.errors.pop(cell, None)
                self.unrecorded.discard(cell)

    def _refuse_to_lose(self) -> None:
        """Raise if rows of the CSV are nowhere else: another store made them."""
        if not self.path.exists() or not self.path.stat().st_size:
            return
        try:
            earlier = pd.read_csv(self.path, dtype={"run_id": str})
            # A fit that could not be recorded has no id, and is done again.
            ids = set(earlier["run_id"].dropna())
        except (ValueError, KeyError) as error:  # no table, or none of ours
            raise FileExistsError(
                f"{self.path} holds no results of a study, and would be lost: name another "
                "folder, --out, or move the file away"
            ) from error
        unknown = ids - {row["run_id"] for row in self.rows.values()}
        if not all(map(self.store.has, sorted(unknown))):
            raise FileExistsError(
                f"{self.path} holds {len(earlier)} fits, and {self.store.uri} does not know all of "
                "them: going on would lose them. Name the store that they were made with, "
                "--tracking-uri, or another folder, --out, or move the file away"
            )

    def kill_running(self) -> None:
        """Mark what runs KILLED."""
        for tags in self._tags():
            self.store.kill_stale(self._keys, tags)

    def add(self, outcome: Outcome) -> None:
        """Take in what came of a fit."""
        if outcome.row is None:
            self.errors[outcome.cell] = outcome.error
        else:
            self.rows[outcome.cell] = outcome.row
            self.write()
        if not outcome.recorded:
            self.unrecorded.add(outcome.cell)

    def write(self) -> None:
        """Write the rows to the CSV."""
        write_atomically(to_csv(self.results()), self.path)

    def results(self) -> pd.DataFrame:
        """Return the rows in the study's order."""
        rows = [self.rows[cell] for cell in self._cells if cell in self.rows]
        frame = pd.DataFrame(rows, columns=columns(self.study))
        for name in self.study.vary:  # or None beside numbers would become one of them
            frame[name] = pd.Series([row[name] for row in rows], dtype=object)
        return frame.astype(dict.fromkeys(COUNTS, "Int64"))

    def failures(self) -> pd.DataFrame:
        """Return a row for each fit that raised."""
        rows = [
            {**what(c, self.study), "error": self.errors[c]}
            for c in self._cells
            if c in self.errors
        ]
        return pd.DataFrame(rows, columns=[*self._names(), "error"])

    def without_record(self) -> pd.DataFrame:
        """Return a row for each fit of which the store has no run."""
        rows = [what(cell, self.study) for cell in self._cells if cell in self.unrecorded]
        return pd.DataFrame(rows, columns=self._names())

    def waiting(self) -> Iterable[Cell]:
        """Return the fits of which there is no row yet."""
        return [cell for cell in self._cells if cell not in self.rows]

    def _tags(self) -> list[dict[str, str]]:
        hashes = dict.fromkeys(self.study.hash_of(variant) for variant in self.study.variants)
        return [{"tsformer.configuration": found} for found in hashes]

    def _names(self) -> list[str]:
        names = columns(self.study)
        return names[: names.index("resample") + 1]
