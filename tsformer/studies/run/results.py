"""ResultStore: the results of a study so far, in memory and in results.csv."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pandas as pd

from tsformer._warnings import warn_caller
from tsformer.studies._output import to_csv, write_atomically
from tsformer.studies.design.study import Study, Trial
from tsformer.studies.run.lock import end_left_over
from tsformer.studies.run.trial import COUNTS, TrialResult, describe, result_columns, stored_row
from tsformer.tracking import RunStore
from tsformer.tracking.options import without_credentials
from tsformer.tracking.store import commit


@dataclass(eq=False)
class ResultStore:
    """Result rows, errors, and fits without a run in the MLflow store."""

    study: Study
    store: RunStore
    path: Path
    rows: dict[Trial, dict[str, Any]] = field(default_factory=dict)
    errors: dict[Trial, str] = field(default_factory=dict)
    unrecorded: set[Trial] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._trials = self.study.trials()
        #: Several where seed, variant or name make no difference to a fit.
        self._keys: dict[str, list[Trial]] = {}
        for trial in self._trials:
            self._keys.setdefault(self.study.key(*trial), []).append(trial)

    def open(self) -> Self:
        """Read the store for the first time, unless that would lose rows of an existing CSV."""
        self._read_store()
        # The version and the parameters may be the same.
        if n := sum(row["commit"] != commit() for row in self.rows.values()):
            fits = (
                f"{n} of the {len(self.rows)} fits in the store are of another commit of tsformer"
            )
            warn_caller(f"{fits} and are not repeated; for new fits use another experiment")
        read = {row["run_id"] for row in self.rows.values()}
        try:
            exists = self.path.exists() and self.path.stat().st_size
            ids = pd.read_csv(self.path, dtype={"run_id": str})["run_id"] if exists else pd.Series()
            known = all(map(self.store.has, {*ids.dropna()} - read))  # unrecorded fits lack an id
        except (ValueError, KeyError):  # not a results table
            known = False
        if not known:
            raise FileExistsError(
                f"{self.path} would be overwritten, and {without_credentials(self.store.uri)} has "
                "not all its fits: name their store, or another folder"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.write()
        return self

    def release(self) -> None:
        """Mark fits that are left RUNNING KILLED."""
        end_left_over(self.store, self.study.name, self._keys)

    def settle(self) -> None:
        """Leave each key with at most one FINISHED run, and read these runs."""
        self._read_store()
        self.write()

    def _read_store(self) -> None:
        self.release()
        for code in {self.study.hash_of(trial.variant, trial.method) for trial in self._trials}:
            tags = {"tsformer.configuration": code}
            for key, run in self.store.finished(self._keys, tags).items():
                for trial in self._keys[key]:
                    if self.rows.get(trial, {}).get("run_id") != run.info.run_id:
                        self.rows[trial] = stored_row(trial, self.study, run, self.store)
                        self.errors.pop(trial, None)
                    self.unrecorded.discard(trial)

    def add(self, result: TrialResult) -> list[Trial]:
        """Add a result; return all trials that share the fit."""
        same = self._keys[self.study.key(*result.trial)]
        for trial in same:
            if result.row is None:
                self.errors[trial] = result.error
            else:
                self.rows[trial] = {**result.row, **describe(trial, self.study)}
            if not result.recorded:
                self.unrecorded.add(trial)
        if result.row is not None:
            self.write()
        return same

    def write(self) -> None:
        """Write the rows to the CSV."""
        write_atomically(to_csv(self.results()), self.path)

    def results(self) -> pd.DataFrame:
        """Return the rows in the study's order."""
        rows = [self.rows[trial] for trial in self._trials if trial in self.rows]
        frame = pd.DataFrame(rows, columns=result_columns(self.study))
        for name in self.study.varied:  # else None among numbers would become NaN
            frame[name] = pd.Series([row[name] for row in rows], dtype=object)
        return frame.astype(dict.fromkeys(COUNTS, "Int64"))

    def failures(self) -> pd.DataFrame:
        """Return one row per fit that raised."""
        table, errors = self._described(self.errors), self.errors
        return table.assign(error=[errors[trial] for trial in self._trials if trial in errors])

    def without_record(self) -> pd.DataFrame:
        """Return one row per fit without a run in the store."""
        return self._described(self.unrecorded)

    def _described(self, trials: Collection[Trial]) -> pd.DataFrame:
        rows = [describe(trial, self.study) for trial in self._trials if trial in trials]
        return pd.DataFrame(rows, columns=list(describe(self._trials[0], self.study)))

    def waiting(self) -> list[Trial]:
        """Return one trial of each fit without a row."""
        return [first for first, *_ in self._keys.values() if first not in self.rows]
