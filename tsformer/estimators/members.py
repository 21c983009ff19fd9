"""Members: several models that differ only in their seed, as one estimator."""

from __future__ import annotations

from statistics import fmean
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from tsformer.estimators.parameters import Parameters
from tsformer.model import TSTransformer
from tsformer.training import History

__all__ = ["MemberSeeds", "Members"]

#: Seeds of the weights, the training and the validation split.
MemberSeeds = tuple[int, int, int]


class Members(Parameters, BaseEstimator):
    """Mixin: the fitted models, what stands for all of them, and each as an estimator alone."""

    models_: list[TSTransformer]
    histories_: list[History]

    @property
    def model_(self) -> TSTransformer:
        """The torch module; of several the first, which is that of ``n_estimators=1``."""
        return self.models_[0]

    @property
    def history_(self) -> History:
        """The epochs trained; of several members their mean, and the sum of their seconds."""
        return self.histories_[0] if len(self.histories_) == 1 else _mean(self.histories_)

    @property
    def n_iter_(self) -> int:
        """Epochs trained, of the member that trained longest."""
        return max(1, *map(len, self.histories_))

    @property
    def estimators_(self) -> list[Self]:
        """Each member as a fitted estimator alone, with ``n_estimators=1``.

        They share the models with this one. The `random_state` of each is the int that trains it
        alone, if this one's is an int.
        """
        parameters = self.get_params(deep=False)
        models, histories = self.models_, self.histories_
        learned = {key: value for key, value in vars(self).items() if key not in parameters}
        parameters["n_estimators"] = 1
        members = []
        for i, (model, history) in enumerate(zip(models, histories, strict=True)):
            member = type(self)(**parameters | {"random_state": self._member_state(i)})
            member.__dict__.update(learned)
            member.models_, member.histories_ = [model], [history]
            members.append(member)
        return members

    def _member_state(self, member: int) -> Any:
        """Return the `random_state` that trains a member alone, or None where there is none."""
        if not isinstance(self.random_state, (int, np.integer)):
            return None
        return self.random_state if member == 0 else _derived(_drawn(self.random_state), member)

    def _seeds(self) -> list[MemberSeeds]:
        """Derive the seeds of all members from `random_state`.

        Those of the first are what they are for one model. A further one has the seeds of one
        model whose `random_state` is an int derived from this one's.
        """
        drawn = _drawn(self.random_state)
        further = [_drawn(_derived(drawn, member)) for member in range(1, self.n_estimators)]
        return [_three(seed) for seed in (drawn, *further)]


def _drawn(random_state: Any) -> int:
    """Return the one number that all seeds of a model come from."""
    if random_state is None:  # from the system: numpy's global generator is the user's
        entropy: Any = np.random.SeedSequence().entropy
        return int(entropy)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _derived(drawn: int, member: int) -> int:
    """Return the `random_state` of a further member."""
    return int(np.random.SeedSequence([drawn, member]).generate_state(1)[0])


def _three(drawn: int) -> MemberSeeds:
    weights, training, split = np.random.SeedSequence(drawn).generate_state(3)
    return int(weights), int(training), int(split)


def _mean(histories: list[History]) -> History:
    """Return each epoch's mean over the members that trained so long, and the sum of seconds."""
    mean = History()
    for epoch in range(max(map(len, histories))):
        rows = [history[epoch] for history in histories if len(history) > epoch]
        keys = [key for key in rows[0] if all(key in row for row in rows)]
        row = {key: fmean(row[key] for row in rows) for key in keys}
        row |= {"epoch": rows[0]["epoch"], "seconds": sum(row["seconds"] for row in rows)}
        mean.append(row)
    mean.interrupted = any(history.interrupted for history in histories)
    return mean
