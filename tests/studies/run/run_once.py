"""A study that is run once for all tests of a module that only look at what came of it."""

from __future__ import annotations

from pathlib import Path

from tsformer.studies import Comparison, Progress, Study, compare
from tsformer.tracking import prepare_store


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
