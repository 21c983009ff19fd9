"""Prediction sets: all classes that are likely enough, by scores of calibration series."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt

from tsformer._checks import Positive, read_fields, real
from tsformer._warnings import warn_caller
from tsformer.estimators.targets import Targets

#: Rounding error of ``(n + 1) * coverage``, which must not move the rank.
_ROUNDING = 1e-9
_Proba = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Conformal:
    """Sorted scores ``1 - p`` of calibration series, of all classes or one array for each."""

    scores: list[npt.NDArray[np.float64]]
    #: Temperatures and weights of members, to detect other probabilities.
    mixture: list[float] = field(default_factory=list)

    @classmethod
    def fit(
        cls, proba: _Proba, targets: Targets, *, by_class: bool = False, mixture: Any = ()
    ) -> Self:
        """Compute the scores from probabilities ``[n, K]`` and class indices ``[n]``."""
        scores = 1.0 - proba[np.arange(len(targets)), targets]
        masks = [targets == k for k in range(proba.shape[1])] if by_class else [...]
        return cls([np.sort(scores[mask]) for mask in masks], list(mixture))

    def sets(self, proba: _Proba, coverage: float) -> npt.NDArray[np.bool_]:
        """Return the sets ``[n, K]`` for probabilities ``[n, K]``."""
        ranks = [max(ceil((len(s) + 1) * coverage - _ROUNDING), 1) for s in self.scores]
        pairs = zip(ranks, self.scores, strict=True)
        thresholds = [scores[rank - 1] if rank <= len(scores) else inf for rank, scores in pairs]
        return 1.0 - proba <= np.array(thresholds)

    def warn_of_few(self, classes: Sequence[Any], coverage: float) -> None:
        """Warn of classes with too few calibration series."""
        needed = ceil(coverage / (1 - coverage) - _ROUNDING)
        counts = list(map(len, self.scores))
        few = [i for i, count in enumerate(counts) if count < needed]
        if few:
            by_class = len(counts) == len(classes) > 1
            counted = {classes[i]: counts[i] for i in few} if by_class else counts[0]
            warn_caller(
                f"coverage={coverage:g} needs {needed} series{' of each class' * by_class}; "
                f"got {counted}. Sets contain all of these classes; calibrate with more series"
            )

    def describe(self) -> dict[str, Any]:
        """Return the scores as saved."""
        return {"scores": [s.tolist() for s in self.scores], "mixture": self.mixture}

    @classmethod
    def restored(cls, described: dict[str, Any], n_classes: int) -> Self:
        """Return what `describe` described."""
        shares = list[Annotated[float, real(0, 1, also=(0, 1))]]
        sets = read_fields(described, "sets", scores=list[shares], mixture=list[Positive])
        scores = sets["scores"]
        if len(scores) not in (1, n_classes):
            raise ValueError(
                f"sets.scores must be 1 list, or {n_classes} lists, by class; got {len(scores)}"
            )
        return cls([np.sort(np.array(s, dtype=np.float64)) for s in scores], sets["mixture"])
