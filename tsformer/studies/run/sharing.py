"""How several calls share the fits of a store: each runs what is free, and reads the rest back."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

from tsformer.studies.run.progress import ProgressReporter
from tsformer.studies.run.worker import Task, TrialResult
from tsformer.tracking.leases import LEASE_SECONDS, Watch

__all__ = ["shared"]

# Time between two looks at fits that others run.
_POLL_SECONDS = 1.0


def shared(
    tasks: Sequence[Task],
    execute: Callable[[Sequence[Task]], Iterable[TrialResult]],
    progress: ProgressReporter,
) -> Iterator[TrialResult]:
    """Yield the result of each task, whether it is run here or by another call meanwhile."""
    waiting = {task.trial: task for task in tasks}
    watch = Watch()
    while waiting:
        for result in execute(tasks):
            if not result.elsewhere:
                del waiting[result.trial]
                yield result
        if waiting:
            tasks = _free(list(waiting.values()), watch, progress)


def _free(tasks: Sequence[Task], watch: Watch, progress: ProgressReporter) -> list[Task]:
    """Wait until nobody is at some of these fits any more, and return those.

    If the store cannot be reached for as long as a lease lasts, all of them are.
    """
    claims, keys = tasks[0].claims, {task.key for task in tasks}
    away_since: float | None = None
    while True:
        try:
            free = claims.free(keys, watch)
            away_since = None
        except Exception as error:  # the fits must not wait for a store that may never come back
            free = set()
            if away_since is None:
                away_since = time.monotonic()
                warnings.warn(
                    f"the store cannot be asked for {len(tasks)} fits that other calls run; they "
                    f"are repeated here in {LEASE_SECONDS:g} s unless it is back by then: "
                    f"{type(error).__name__}: {error}",
                    stacklevel=2,
                )
            if time.monotonic() - away_since > LEASE_SECONDS:
                return list(tasks)
        if free:
            return [task for task in tasks if task.key in free]
        progress.waiting(tasks[0].trial)
        time.sleep(_POLL_SECONDS)
