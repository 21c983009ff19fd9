"""Watchdog: ends the runs of a process that is killed and cannot end them itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Self

from tsformer.tracking.messages import reason, warn
from tsformer.tracking.run import TrackedRun
from tsformer.tracking.store import RunStore

__all__ = ["Watchdog", "kill_running"]

# It imports nothing while it waits for the end of a pipe, so that it takes hardly any memory. Its
# arguments come by the environment: all users of a machine see those of a command line, and an
# address may have a password in it.
_WAIT = """import sys
if sys.stdin.read() != "done":
    import json, os
    from tsformer.tracking.watchdog import kill_running
    kill_running(*json.loads(os.environ["TSFORMER_WATCHED"]))
"""


class Watchdog:
    """A process that marks a run and those nested in it KILLED if this one dies inside the block.

    Signals that cannot be handled, such as that of a machine short of memory, leave runs RUNNING.
    """

    def __init__(self, store: RunStore, run: TrackedRun):
        whole = "" if run.borrowed else "whole"
        self.arguments = [store.uri, store.experiment_id, run.run_id, whole]

    def __enter__(self) -> Self:
        self.process: subprocess.Popen[str] | None = None
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _WAIT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that is watched
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "TSFORMER_WATCHED": json.dumps(self.arguments),
                },
                text=True,
            )
        except OSError as error:
            warn(f"runs will be left running if this process is killed {reason(error)}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None:
            self.process.communicate("done")


def kill_running(uri: str, experiment_id: str, run_id: str, whole: str = "") -> None:
    """Mark the RUNNING runs nested in a run KILLED, at any depth, and with `whole` itself."""
    store = RunStore(uri, experiment_id)
    for child in store.runs("RUNNING", {"mlflow.parentRunId": run_id}):
        if "tsformer.kind" in child.data.tags:  # others are not ours
            kill_running(uri, experiment_id, child.info.run_id, "whole")
    if whole:
        store.kill(run_id)
