"""Successive halving within a time budget: fold after fold, for ever fewer encodings."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import pandas as pd

from tsformer.encodings.measured import time_ratios
from tsformer.studies.analysis.ranking import rank
from tsformer.studies.design.study import Study, Trial

#: An encoding may take this many equal shares of the time that a round has.
_MOST_SHARES = 4
#: Standard errors within which a difference in accuracy is noise.
_NOISE = 2
#: Share of the budget for a first round with fewer epochs.
_FIRST_SHARE = 0.5
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

    `which_encoding` describes the rounds. The budget counts the seconds of fits and predictions in
    `results`, so that a resumed comparison takes the same decisions again.
    """

    study: Study
    results: Any
    open_first: Callable[[Study], Any]
    fit: Callable[[list[Trial], Any, Callable[[Trial], bool]], Iterator[Trial]]
    budget: float
    n_test: Sequence[int]
    length: int
    jobs: int = 1

    def __post_init__(self) -> None:
        ratios = time_ratios(min(_LENGTHS, key=lambda n: abs(math.log(n / self.length))))
        self.prior = {
            name: max(ratios.get(part, 1.0) for part in name.split("+"))
            for name in self.study.names
        }
        self.dropped: dict[str, str] = {}
        self.seconds: dict[str, list[float]] = {}
        self._first: Any = None
        self._left = self.budget
        self._counted: set[tuple[Trial, float]] = set()
        self._epochs = 1.0  # share of the epochs in this round

    def run(self) -> None:
        """Fit until the budget is used up or the remaining encodings have all folds."""
        names = self._first_round(sorted(self.study.names, key=self.prior.__getitem__))
        for fold in range(self.study.resamples):
            if len(names) < 2:
                break
            complete = self._fit(names, fold, self.results)
            names = [name for name in names if name not in self.dropped]
            if not complete or fold + 1 == self.study.resamples or not names:
                break
            scores = {name: self._scores(name, fold + 1) for name in names}
            n_test, n_left = sum(self.n_test[: fold + 1]), self.study.resamples - fold - 1
            after = f"round {fold + 1 + (self._first is not None)}"
            names = self._advance(scores, n_test, n_left, after)

    def ranking(self) -> pd.DataFrame | None:
        """Return the ranking as `rank` does, with `fit_seconds`; None if no encoding remains."""
        if not self.results.rows or not set(self.study.names) - set(self.dropped):
            return None
        n_folds, first = len(self.n_test), None
        table = pd.DataFrame({name: self._scores(name, n_folds) for name in self.study.names})
        if self._first is not None:
            names = self.study.names
            first = pd.Series({name: self._accuracy(self._first, name, 0) for name in names})
        ranking = rank(table, self.dropped, n_folds=n_folds, first=first)
        rows = pd.DataFrame(self.results.rows.values())
        seconds = rows.groupby("encoding")["fit_seconds"].median()
        return ranking.assign(fit_seconds=ranking["encoding"].map(seconds))

    def _first_round(self, names: list[str]) -> list[str]:
        """Time one fit, drop slow encodings, and rank by fewer epochs if need be."""
        for timed in names:
            self._fit([timed], 0, self.results)
            if (row := self.results.rows.get(self._trial(timed, 0))) is not None:
                break
        names = [name for name in names if name not in self.dropped]
        if row is None:
            return names
        # From the stored row alone, so that a resumed comparison takes the same decision.
        unit = _fit_seconds(row) / self.prior[timed]
        costs = {name: unit * self.prior[name] for name in names}
        limit = _MOST_SHARES * max(self.budget, sum(costs.values())) / len(costs)
        for name in [name for name in names if costs[name] > limit]:
            self.dropped[name] = f"not fitted, at about {costs.pop(name):.0f} seconds a fit"
        names, fold = list(costs), sum(costs.values()) / self.jobs
        n_epochs = int(row["n_epochs"])
        if fold <= self.budget or n_epochs == 1:
            return names
        epochs = max(1, int(n_epochs * _FIRST_SHARE * self.budget / fold))
        parameters = {**self.study.parameters, "max_epochs": epochs}
        short = replace(self.study, resamples=1, parameters=parameters)
        self._first = self.open_first(short)
        self._epochs = epochs / n_epochs
        self._fit(names, 0, self._first)
        self._epochs = 1.0
        left = [name for name in names if name not in self.dropped]
        scores = {name: [self._accuracy(self._first, name, 0)] for name in left}
        what = f"round 1, of {epochs} epoch{'s' * (epochs > 1)} in place of {n_epochs}"
        return self._advance(scores, self.n_test[0], self.study.resamples, what) if scores else []

    def _fit(self, names: Sequence[str], fold: int, results: Any) -> bool:
        """Fit encodings on a fold, the cheapest first; return whether the time sufficed."""
        trials = [self._trial(name, fold) for name in sorted(names, key=self.cost)]
        for trial in trials:
            if trial in results.rows and (trial, self._epochs) not in self._counted:
                self._learn(trial, results)  # by an earlier call
        late = lambda trial: self._epochs * self.cost(trial.method) > self._left  # noqa: E731
        for trial in self.fit(trials, results, late):
            if trial in results.rows:
                self._learn(trial, results)
        first_round = fold == 0 and (self._first is None or results is self._first)
        for trial in trials:
            if trial in results.errors:
                self.dropped.setdefault(trial.method, "left out after an error")
            elif first_round and trial not in results.rows:
                self.dropped.setdefault(trial.method, "not reached within the budget")
        return all(trial in results.rows or trial in results.errors for trial in trials)

    def _learn(self, trial: Trial, results: Any) -> None:
        """Spend the seconds of a fit, and record those of one with all epochs."""
        seconds = _fit_seconds(results.rows[trial])
        self._left -= seconds / self.jobs
        self._counted.add((trial, self._epochs))
        self.seconds.setdefault(trial.method, []).append(seconds / self._epochs)

    def cost(self, name: str) -> float:
        """Estimate the seconds of a fit from earlier fits, of other encodings if need be."""
        if name in self.seconds:
            return fmean(self.seconds[name])
        units = [fmean(fits) / self.prior[other] for other, fits in self.seconds.items()]
        return self.prior[name] * median(units) if units else 0.0

    def _sum(self, names: Sequence[str]) -> float:
        """Estimate the seconds of one fold."""
        costs = [self.cost(name) for name in names]
        return max(sum(costs) / self.jobs, *costs)

    def _advance(
        self, scores: Mapping[str, list[float]], n_test: int, n_left: int, after: str
    ) -> list[str]:
        """Return the encodings for the next fold, the best first; drop the others."""
        means = {name: fmean(values) for name, values in scores.items()}
        ranked, left = sorted(means, key=lambda name: -means[name]), self._left
        half = ranked[: max(2, math.ceil(len(ranked) / 2))]
        best = means[ranked[0]]
        variances = {name: (best * (1 - best) + p * (1 - p)) / n_test for name, p in means.items()}
        level = [n for n in ranked if best - means[n] <= _NOISE * math.sqrt(variances[n])]
        wanted, kept = list(half), list[str]()
        for name in ranked[len(half) :]:
            if name in level and n_left * self._sum([*wanted, name]) <= left:
                wanted.append(name)
        for name in wanted:
            most = _MOST_SHARES * left / len(ranked) * self.jobs
            if self._sum([*kept, name]) <= left and self.cost(name) <= most:
                kept.append(name)
        if len(kept) < 2 or kept[0] != ranked[0]:
            return []  # a fold without the best encoding would not count
        for name in ranked:
            if name not in kept:
                hurried = " for lack of time" * (name in half or name in level)
                self.dropped[name] = f"dropped{hurried} after {after}"
        return kept

    def _scores(self, name: str, n_folds: int) -> list[float]:
        return [self._accuracy(self.results, name, fold) for fold in range(n_folds)]

    def _accuracy(self, results: Any, name: str, fold: int) -> float:
        row = results.rows.get(self._trial(name, fold))
        return math.nan if row is None else float(row["accuracy"])

    def _trial(self, name: str, fold: int) -> Trial:
        return Trial(self.study.datasets[0], name, self.study.seeds[0], resample=fold)


def _fit_seconds(row: Mapping[str, Any]) -> float:
    """Return the seconds of a fit and its predictions."""
    return float(row["fit_seconds"] + row["predict_seconds"])
