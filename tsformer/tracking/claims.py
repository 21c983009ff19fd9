"""Claims: who runs a fit, so that several comparisons share the work on the fits of one store.

A fit is claimed by a run: RUNNING, under the fit's key, with its owner and a lease in its tags. It
is free again when the run has ended, however it did.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsformer.tracking.election import elect
from tsformer.tracking.leases import LEASE_SECONDS, Watch, is_dead, lease_tags
from tsformer.tracking.run import TrackedRun
from tsformer.tracking.store import RunStore

if TYPE_CHECKING:
    from mlflow.entities import Run

__all__ = ["Claims", "Standing"]

_OWNER = "tsformer.owner"
# Why a run was KILLED, with the owner who did it: its process ended, or its lease.
_LOST = "tsformer.lost"
_SILENT = "tsformer.silent"


@dataclass(frozen=True)
class Standing:
    """What the store knows of a fit."""

    finished: Run | None
    failed: list[Run]
    held: bool
    losses: int
    lease_seconds: float


@dataclass(frozen=True)
class Claims:
    """The fits that one call of `compare` claims; can be pickled."""

    store: RunStore
    owner: str

    def look_up(self, key: str) -> Standing:
        """Return what the store knows of a fit that this call does not run at the moment.

        A RUNNING run of this call was left behind by a process that ended. It is marked as lost;
        runs of processes that are known to be dead are marked KILLED.
        """
        runs = self.store.runs(tags={"tsformer.key": key})
        by_status: dict[str, list[Run]] = {}
        for run in runs:
            by_status.setdefault(run.info.status, []).append(run)
        finished = next(iter(by_status.get("FINISHED", [])), None)
        held = False
        losses = sum(run.data.tags.get(_LOST) == self.owner for run in runs)
        for run in by_status.get("RUNNING", []):
            if self._owns(run):
                self._end(run, _LOST)
                losses += 1
            elif is_dead(run.data.tags):
                self._end(run)
            else:
                held = True
        # A fit that keeps its process from giving signs of life would be taken over for ever.
        silences = sum(_SILENT in run.data.tags for run in runs)
        return Standing(
            finished=finished,
            failed=[run for run in by_status.get("FAILED", []) if not self._owns(run)],
            held=held,
            losses=losses,
            lease_seconds=LEASE_SECONDS * 2**silences,
        )

    def tags(self, lease_seconds: float = LEASE_SECONDS) -> dict[str, str]:
        """Return the tags of a run that claims a fit for this process."""
        return {_OWNER: self.owner, **lease_tags(lease_seconds)}

    def confirm(self, key: str, run: TrackedRun) -> bool:
        """Return whether a run that was created with `tags` has the fit.

        Of several that were created at once one has it, and none if the fit was finished since it
        was looked up. The others are discarded.
        """
        if run.client is None:  # nobody else can know of it
            return True
        try:
            running = functools.partial(self.store.runs, "RUNNING", {"tsformer.key": key})
            chosen = elect(running, run.client)
            # Asked in this order: whatever was RUNNING in the meantime was elected, or is FINISHED.
            done = self.store.runs("FINISHED", {"tsformer.key": key})
            has_it = chosen == run.run_id and not done
            if not has_it:
                self.store.discard(run.run_id)
        except Exception:  # the store is unreachable: fit anyway; what the run writes reports it
            return True
        return has_it

    def release(self, keys: Collection[str]) -> None:
        """Mark KILLED what is RUNNING of this call, and what processes that are dead have left."""
        for run in self._claims(keys):
            if self._owns(run) or is_dead(run.data.tags):
                self._end(run)

    def free(self, keys: Collection[str], watch: Watch) -> set[str]:
        """Return which of these fits nobody is at; ask every few seconds."""
        held = {run.info.run_id: run for run in self._claims(keys)}
        for run in list(held.values()):
            if is_dead(run.data.tags):
                self._end(held.pop(run.info.run_id))
        for run in watch.silent(held.values()):
            self._end(held.pop(run.info.run_id), _SILENT)
        return set(keys) - {run.data.tags["tsformer.key"] for run in held.values()}

    def _claims(self, keys: Collection[str]) -> list[Run]:
        running = self.store.runs("RUNNING", {"tsformer.kind": "fit"})
        return [run for run in running if run.data.tags.get("tsformer.key") in keys]

    def _owns(self, run: Run) -> bool:
        return bool(run.data.tags.get(_OWNER) == self.owner)

    def _end(self, run: Run, why: str | None = None) -> None:
        if why is not None:
            self.store.client().set_tag(run.info.run_id, why, self.owner)
        self.store.kill(run.info.run_id)
