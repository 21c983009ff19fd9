"""One progress bar over all parts of an ensemble."""

from __future__ import annotations

from typing import Self

from tsformer.training import ProgressBar, TrainingState

__all__ = ["EnsembleBar"]


class EnsembleBar(ProgressBar):
    """A progress bar over all members of an ensemble, as a context and a callback of each."""

    def __init__(self, n_members: int):
        super().__init__()
        self.n_members = n_members
        self._member = 0

    def __enter__(self) -> Self:
        self._open(None, text="random convolutions")
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def on_train_begin(self, state: TrainingState) -> None:
        self._before = self._member * state.n_epochs  # counts members that stopped early in full
        self._member += 1
        self._update(self._before, self.n_members * state.n_epochs, self._name)

    def on_epoch_end(self, state: TrainingState) -> None:
        self._show(self._before + state.epoch, state.history[-1], prefix=f"{self._name}  ")

    def on_train_end(self, state: TrainingState) -> None:
        """Leave the bar open for the next member."""

    @property
    def _name(self) -> str:
        return f"member {self._member} of {self.n_members}"
