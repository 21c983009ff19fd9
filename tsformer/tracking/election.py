"""Which of several runs that were made for the same thing at once is the one, decided once.

MLflow has no compare-and-set. But it refuses another value for a parameter that a run already has,
also of two processes that write it at once: a parameter is a register that is written once. Each
run has one, which in the end names the run itself or one that it gave way to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tsformer._optional import require

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["CHOSEN", "elect"]

#: The parameter: the run's own id if it was elected, else that of a run it gave way to.
CHOSEN = "tsformer.chosen"


def elect(
    candidates: Callable[[], list[Run]], client: MlflowClient, *, newest: bool = False
) -> str | None:
    """Return the id of the elected run, the same for everyone who asks, at whatever time.

    Whoever asks decides for all candidates that it sees: the others give way to the first, and then
    the first is elected. Two cannot be: each was elected by somebody who did not see the other, so
    that each was created after the other. Neither clocks nor waiting are involved.
    """
    while True:
        runs = [run for run in candidates() if run.data.params.get(CHOSEN) in (None, _id(run))]
        for run in runs:
            if CHOSEN in run.data.params:
                return _id(run)
        if not runs:
            return None
        first, *others = sorted(runs, key=lambda r: (r.info.start_time, _id(r)), reverse=newest)
        if all(_write_once(client, _id(run), _id(first)) for run in (*others, first)):
            return _id(first)
        # Somebody else has decided about one of them, which is in the next list.


def _write_once(client: MlflowClient, run_id: str, value: str) -> bool:
    """Write the register of a run; return False if it has another value, or the run is deleted."""
    exceptions = require("mlflow.exceptions", extra="tracking", purpose="tracking")
    try:
        client.log_param(run_id, CHOSEN, value)
    except exceptions.MlflowException as error:
        if error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        return False
    return True


def _id(run: Run) -> str:
    return str(run.info.run_id)
