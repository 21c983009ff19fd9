"""Deadline: members and epochs of a transformer that fit into a time limit."""

from dataclasses import replace
from statistics import median
from time import perf_counter

from tsformer.training import Callback, TrainingState

#: Smallest share of its epochs for which a model is trained. On four of six development problems,
#: models of a tenth of the epochs worsened the log loss of the mean.
LEAST_SHARE = 0.2


class Deadline(Callback):
    """Shortens the training runs of members so that they end before a point in time.

    The first member is trained for as many epochs as fit, by the seconds of its epochs so far, and
    its learning rate falls to zero by then. Further members are trained for all of their epochs or
    not at all. A member without time for a fifth of its epochs counts as untrained.
    """

    stateless = True  # in other processes each member measures its own epochs

    def __init__(self, end: float):
        self.end = end  # by `perf_counter`
        self._epoch_seconds: float | None = None

    def on_train_begin(self, state: TrainingState) -> None:
        self._n_epochs, self._useful = state.plan.n_epochs, True
        if self._epoch_seconds is None:
            state.stop = perf_counter() > self.end
        else:
            state.stop = self._fitting() < self._n_epochs

    def on_epoch_end(self, state: TrainingState) -> None:
        self._epoch_seconds = median(row["seconds"] for row in state.history)
        n_epochs = min(state.epoch + self._fitting(), self._n_epochs)
        self._useful = n_epochs >= LEAST_SHARE * self._n_epochs
        state.stop = state.stop or not self._useful
        state.plan = replace(state.plan, n_epochs=max(n_epochs, state.epoch))

    def on_train_end(self, state: TrainingState) -> None:
        if not self._useful:
            state.history.clear()

    def _fitting(self) -> int:
        """Return the number of epochs that still fit."""
        assert self._epoch_seconds is not None
        # The forward pass for batch norms takes half an epoch.
        return max(int((self.end - perf_counter()) / self._epoch_seconds - 0.5), 0)
