"""Successive halving within a time budget: fold after fold, for ever fewer encodings."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import pandas as pd

from tsformer.encodings.measured import time_ratios
from tsformer.studies.analysis.ranking import rank
from tsformer.studies.design.study import Study, Trial

#: Standard errors within which a difference in accuracy is noise.
_NOISE = 2
#: Lengths for which the costs of all encodings are known.
_LENGTHS = (64, 256)


def seconds_of(budget: float | str) -> float:
    """Return the seconds of a budget such as ``600`` or ``"10min"``."""
    try:
        seconds = float(budget)
    except (TypeError, ValueError):
        try:
            seconds = pd.Timedelta(budget).total_seconds()
        except (TypeError, ValueError):
            seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"budget must be a time such as 600, '10min' or '2h'; got {budget!r}")
    return seconds


@dataclass
class Halving:
    """Fit a fold with all encodings, then the next with encodings that may be the best.

    All decisions follow from `results`, so that a resumed comparison takes the same again.
    """

    study: Study
    results: Any
    fit: Callable[[list[Trial], Any, Callable[[Trial], bool]], Iterator[Trial]]
    budget: float
    n_test: Sequence[int]
    length: int
    jobs: int = 1
    dropped: dict[str, str] = field(default_factory=dict, init=False)
    #: Seconds of the fits that the decisions so far were based on.
    counted: dict[Trial, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        ratios = time_ratios(min(_LENGTHS, key=lambda n: abs(math.log(n / self.length))))
        parts = {name: name.split("+") for name in self.study.names}
        self.prior = {name: max(ratios.get(p, 1.0) for p in of) for name, of in parts.items()}

    def run(self) -> None:
        """Fit until the budget is used up or the remaining encodings have all folds."""
        names = sorted(self.study.names, key=self.prior.__getitem__)
        for fold in range(self.study.resamples):
            complete = len(names) > 1 and self._fit(names, fold)
            names = [name for name in names if name not in self.dropped]
            if not complete or fold + 1 == self.study.resamples or not names:
                break
            names = self._advance(names, fold + 1)

    def ranking(self) -> pd.DataFrame | None:
        """Return the ranking as `rank` does, with `fit_seconds`; None if no encoding remains."""
        folds = range(len(self.n_test))
        scores = {n: [self._accuracy(n, fold) for fold in folds] for n in self.study.names}
        table = pd.DataFrame(scores)
        if table.drop(columns=list(self.dropped)).dropna().empty:
            return None
        ranking = rank(table, self.dropped, n_folds=len(folds))
        rows = pd.DataFrame(self.results.rows.values())
        seconds = rows.groupby("encoding")["fit_seconds"].median()
        return ranking.assign(fit_seconds=ranking["encoding"].map(seconds))

    def cost(self, *names: str) -> float:
        """Estimate the seconds of fits from earlier fits, of other encodings if need be."""
        fits: dict[str, list[float]] = {}
        for trial, seconds in self.counted.items():
            fits.setdefault(trial.method, []).append(seconds)
        unit = median([fmean(times) / self.prior[name] for name, times in fits.items()] or [0.0])
        costs = [fmean(fits.get(name, [self.prior[name] * unit])) for name in names]
        return max(sum(costs) / self.jobs, *costs)

    def _left(self) -> float:
        return self.budget - sum(self.counted.values()) / self.jobs

    def _fit(self, names: Sequence[str], fold: int) -> bool:
        """Fit encodings on a fold, the cheapest first; return whether the time sufficed."""
        trials = [self._trial(name, fold) for name in sorted(names, key=self.cost)]
        rows, errors = self.results.rows, self.results.errors
        late = lambda trial: self.cost(trial.method) > self._left()  # noqa: E731
        begun = [trial for trial in trials if trial in rows]
        for trial in itertools.chain(begun, self.fit(trials, self.results, late)):
            if trial in rows:
                row = rows[trial]
                self.counted[trial] = float(row["fit_seconds"] + row["predict_seconds"])
        for trial in trials:
            if trial in errors:
                self.dropped.setdefault(trial.method, "left out after an error")
            elif fold == 0 and trial not in rows:
                self.dropped.setdefault(trial.method, "not reached within the budget")
        return all(trial in rows or trial in errors for trial in trials)

    def _advance(self, names: Sequence[str], n_folds: int) -> list[str]:
        """Return the encodings for the next fold, the best first; drop the others."""
        n_test, n_left = sum(self.n_test[:n_folds]), self.study.resamples - n_folds
        means = {n: fmean(self._accuracy(n, fold) for fold in range(n_folds)) for n in names}
        ranked, left = sorted(means, key=lambda name: -means[name]), self._left()
        half, best = ranked[: max(2, math.ceil(len(ranked) / 2))], means[ranked[0]]
        variances = {name: (best * (1 - best) + p * (1 - p)) / n_test for name, p in means.items()}
        level = [n for n in ranked if best - means[n] <= _NOISE * math.sqrt(variances[n])]
        wanted, kept = list(half), list[str]()
        for name in ranked[len(half) :]:
            if name in level and n_left * self.cost(*wanted, name) <= left:
                wanted.append(name)
        for name in wanted:
            if self.cost(*kept, name) <= left:
                kept.append(name)
        if len(kept) < 2 or kept[0] != ranked[0]:
            return []  # a fold without the best encoding would not count
        for name in ranked:
            if name not in kept:
                hurried = " for lack of time" * (name in half or name in level)
                self.dropped[name] = f"dropped{hurried} after round {n_folds}"
        return kept

    def _accuracy(self, name: str, fold: int) -> float:
        return float(self.results.rows.get(self._trial(name, fold), {}).get("accuracy", math.nan))

    def _trial(self, name: str, fold: int) -> Trial:
        return Trial(self.study.datasets[0], name, self.study.seeds[0], resample=fold)
