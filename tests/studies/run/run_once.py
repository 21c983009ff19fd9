"""A study that is run once for many tests, and the runs of fits in a store."""

from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tsformer.studies import Comparison, Progress, Study, compare
from tsformer.tracking import RunStore, prepare_store


class NoWorker:
    """A pool that runs its tasks in this process."""

    def submit(self, run: Any, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(run(*args))
        return future

    def shutdown(self, **options: Any) -> None:
        """Do nothing."""


class Done:
    """A finished study, with its events and its store."""

    def __init__(self, study: Study, uri: str, experiment: str, folder: Path):
        self.study = study
        self.uri = uri
        self.experiment = experiment
        self.folder = folder
        self.events: list[Progress] = []
        self.comparison = self.again(self.events)
        self.store = prepare_store(uri, experiment)

    def again(self, events: list[Progress]) -> Comparison:
        """Carry out the same study with the same store and folder."""
        return compare(
            self.study,
            out=self.folder,
            tracking_uri=self.uri,
            experiment=self.experiment,
            on_progress=events.append,
        )


def statuses(store: RunStore) -> Counter[tuple[str, str]]:
    """How many runs of fits there are of each key and status."""
    runs = store.runs(tags={"tsformer.kind": "fit"})
    return Counter((run.data.tags["tsformer.key"], run.info.status) for run in runs)


def assert_finished_once(store: RunStore, study: Study) -> int:
    """Assert that every fit has one FINISHED run, others KILLED; return how many were killed."""
    counts = statuses(store)
    finished = {key: n for (key, status), n in counts.items() if status == "FINISHED"}
    assert finished == {study.key(*trial): 1 for trial in study.trials()}
    assert {status for _, status in counts} <= {"FINISHED", "KILLED"}
    return sum(n for (_, status), n in counts.items() if status == "KILLED")
