"""Successive halving: losers go early, the budget is kept, and nothing is fitted twice."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsformer.studies import Study, which_encoding
from tsformer.studies.design.study import Trial
from tsformer.studies.run.fits import Fits
from tsformer.studies.run.halving import Halving, seconds_of
from tsformer.studies.run.trial import TrialResult

#: Accuracy of each encoding on every fold: two level ones, two 2.3 and 2.4 standard errors behind.
SKILLS = {"rope": 0.9, "tape": 0.88, "erpe": 0.7, "none": 0.5, "fixed": 0.69}


class World:
    """Fits whose scores and seconds are known, under a clock of their own."""

    def __init__(
        self, skills: dict[str, float], seconds: dict[str, float] | None = None, jobs: int = 1
    ):
        self.skills, self.costs, self.jobs = skills, seconds or {}, jobs
        self.n_until_ctrl_c = 0
        self.now, self.fitted = 0.0, list[Trial]()
        self.results: Any = SimpleNamespace(rows={}, errors={})

    def fit(
        self, trials: list[Trial], to: Any, is_late: Callable[[Trial], bool]
    ) -> Iterator[Trial]:
        waiting = [trial for trial in trials if trial not in to.rows]
        assert {trial.seed for trial in trials} == {7}
        while waiting and not is_late(waiting[0]):
            some, waiting = waiting[: self.jobs], waiting[self.jobs :]
            seconds = {trial: self.costs.get(trial.method, 10.0) for trial in some}
            self.now += max(seconds.values())
            for trial in some:
                self.fitted.append(trial)
                row = {"encoding": trial.method, "accuracy": self.skills[trial.method]}
                row |= dict.fromkeys(("fit_seconds", "predict_seconds"), seconds[trial] / 2)
                (to.errors if np.isnan(row["accuracy"]) else to.rows)[trial] = row
                yield trial
                if len(self.fitted) == self.n_until_ctrl_c:
                    raise KeyboardInterrupt

    def run(self, budget: float, n_test: int = 40) -> Halving:
        study = Study(["Own"], list(self.skills), (7,), resamples=5)
        halving = Halving(study, self.results, self.fit, budget, [n_test] * 5, 64, self.jobs)
        halving.run()
        return halving


def outcomes(halving: Halving) -> dict[str, tuple[int, str]]:
    table = halving.ranking()
    assert table is not None
    rows = table.set_index("encoding")
    return {name: (int(row["folds"]), row["outcome"]) for name, row in rows.iterrows()}


def test_far_losers_are_dropped_after_round_1_and_level_encodings_are_not():
    fates = outcomes(World(SKILLS).run(1000))
    assert list(fates)[:2] == ["rope", "tape"]
    assert fates["none"] == fates["fixed"] == (1, "dropped after round 1")
    assert fates["rope"] == (5, "leads")
    world = World(SKILLS)
    halving = world.run(1000)
    halving.results.rows[Trial("Own", "rope", 7, resample=2)]["fit_seconds"] = 999.0
    table = halving.ranking().set_index("encoding")
    assert table.loc["rope", "fit_seconds"] == 5, "the median, without prediction"
    # The difference of these is noise on 40 series, and none on 80.
    closer = {"rope": 0.9, "tape": 0.88, "erpe": 0.87, "none": 0.76, "fixed": 0.76}
    assert outcomes(World(closer).run(1000))["none"] == (2, "dropped after round 2")
    # Of the three that level series could hide, more remain than the better half.
    level = dict.fromkeys(SKILLS, 0.8)
    assert {folds for folds, _ in outcomes(World(level).run(1000)).values()} == {5}
    tight = outcomes(World(level).run(120))
    assert sorted(folds for folds, _ in tight.values()) == [1, 1, 2, 4, 4]
    assert sum("for lack of time" in outcome for _, outcome in tight.values()) == 3


def test_a_fit_that_fails_or_a_leader_that_is_too_slow_ends_the_rounds():
    fates = outcomes(World(SKILLS | {"fixed": np.nan}).run(1000))
    assert fates["fixed"] == (0, "left out after an error")
    fates = outcomes(World(SKILLS, {"rope": 30.0}).run(95))  # after a fold of 70 seconds
    assert {folds for folds, _ in fates.values()} == {1}
    fates = outcomes(World(SKILLS).run(30))
    assert fates["none"][0] == 1, "the cheapest first"
    assert fates["erpe"] == (0, "not reached within the budget")


@pytest.mark.parametrize("budget", [30, 70, 120, 200])
def test_the_budget_is_kept(budget):
    world = World(SKILLS, {"erpe": 25.0, "rope": 15.0})
    world.run(budget)
    assert 0.5 * budget < world.now <= budget + 25


def test_parallel_fits_keep_the_budget():
    study = Study(["Own"], ["none", "fixed", "rope", "tape"], 1)
    to: Any = SimpleNamespace(rows={}, waiting=study.trials, study=study, store=None)
    to.add = lambda result: []
    fits: Any = Fits("", jobs=2)
    fits.results_of = lambda tasks: [TrialResult(task.trial) for task in tasks]
    begun = [trial.method for trial in fits.run(study.trials(), to, lambda t: t.method == "tape")]
    assert begun == ["none", "fixed", "rope"]
    # Two fits of 60 seconds do not end in the last 50, though their mean over four jobs would.
    fates = outcomes(World(SKILLS, {"rope": 60.0, "tape": 60.0}, jobs=4).run(90))
    assert fates["erpe"] == (1, "too few folds to tell")


@pytest.mark.parametrize(("budget", "jobs"), [(55, 1), (1000, 1), (80, 2)])
@pytest.mark.parametrize("n_done", [1, 3])
def test_a_resumed_comparison_takes_the_same_decisions(budget, jobs, n_done):
    whole = World(SKILLS, jobs=jobs)
    expected = outcomes(whole.run(budget))
    parts = World(SKILLS, jobs=jobs)
    parts.n_until_ctrl_c = n_done
    with pytest.raises(KeyboardInterrupt):
        parts.run(budget)
    assert outcomes(parts.run(budget)) == expected
    assert parts.fitted == whole.fitted


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (["a", np.nan, "b", "a"], {}, "y.*NaN"),
        ([0, 1, 0, 1], {"groups": ["a", np.nan, "b", "a"]}, "groups.*NaN"),
        ([0, 1, 0, 1], {"groups": [*"aaaa"], "budget": 0.001}, "n_splits"),
        (pd.Series([0, 1, 0, 1], index=[3, 2, 1, 0]), {}, "ids"),
        ([0, 1, 0], {}, "4.* 3"),
        ([0, 1, 0, 1], {"encodings": ["none", "rop"]}, "rop"),
        ([0, 1, 0, 1], {"encodings": "none"}, "two encodings or more"),
        ([0, 1, 0, 1], {"n_folds": 1}, "n_splits"),
        *(([0, 1, 0, 1], {"budget": time}, "budget") for time in ("soon", 0, "nan", "inf", None)),
    ],
)
def test_a_call_is_refused_before_any_fit(y, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        which_encoding(pd.DataFrame(np.eye(4)), y, **{"budget": 60, "n_folds": 2} | options)
    assert not (tmp_path / "results").exists()
    assert seconds_of(timedelta(minutes=2)) == 120
