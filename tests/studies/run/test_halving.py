"""Successive halving: losers go early, the budget is kept, and nothing is fitted twice."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_once import statuses

from tsformer.encodings.measured import time_ratios
from tsformer.studies import Progress, Study, which_encoding
from tsformer.studies.design.study import Trial
from tsformer.studies.run.fits import Fits
from tsformer.studies.run.halving import Halving, seconds_of
from tsformer.studies.run.trial import TrialResult
from tsformer.tracking import prepare_store

#: Accuracy of each encoding on every fold: two level ones, two 2.3 and 2.4 standard errors behind.
SKILLS = {"rope": 0.9, "tape": 0.88, "erpe": 0.7, "none": 0.5, "fixed": 0.69}


class World:
    """Fits whose scores and seconds are known, under a clock of their own."""

    def __init__(
        self, skills: dict[str, float], seconds: dict[str, float] | None = None, jobs: int = 1
    ):
        self.skills, self.costs, self.jobs = skills, seconds or {}, jobs
        self.n_until_ctrl_c = 0
        self.now, self.fitted = 0.0, list[tuple[Trial, Any]]()
        self.stores: dict[Any, Any] = {}

    def open(self, study: Study) -> Any:
        epochs = study.parameters["max_epochs"]
        store = type("Store", (), {"rows": {}, "errors": {}, "epochs": epochs})
        return self.stores.setdefault(epochs, store)

    def fit(
        self, trials: list[Trial], to: Any, is_late: Callable[[Trial], bool]
    ) -> Iterator[Trial]:
        waiting = [trial for trial in trials if trial not in to.rows]
        assert {trial.seed for trial in trials} == {7}
        while waiting and not is_late(waiting[0]):
            some, waiting = waiting[: self.jobs], waiting[self.jobs :]
            seconds = {each: self.costs.get(each.method, 10.0) * to.epochs / 100 for each in some}
            self.now += max(seconds.values())
            for trial in some:
                self.fitted.append((trial, to.epochs))
                row = {"encoding": trial.method, "accuracy": self.skills[trial.method]}
                row |= dict.fromkeys(("fit_seconds", "predict_seconds"), seconds[trial] / 2)
                to.rows[trial] = row | {"n_epochs": to.epochs}
                if np.isnan(row["accuracy"]):
                    to.errors[trial] = to.rows.pop(trial)
                yield trial
                if len(self.fitted) == self.n_until_ctrl_c:
                    raise KeyboardInterrupt

    def run(self, budget: float, n_test: int = 40) -> Halving:
        study = Study(["Own"], list(self.skills), (7,), {"max_epochs": 100}, resamples=5)
        halving = Halving(
            study, self.open(study), self.open, self.fit, budget,
            n_test=[n_test] * 5, length=64, jobs=self.jobs,
        )  # fmt: skip
        halving.run()
        return halving


def outcomes(halving: Halving) -> dict[str, tuple[int, str]]:
    table = halving.ranking()
    assert table is not None
    rows = table.set_index("encoding")
    return {name: (int(row["folds"]), row["outcome"]) for name, row in rows.iterrows()}


def test_far_losers_are_dropped_after_round_1_and_level_encodings_are_not():
    found = outcomes(World(SKILLS).run(1000))
    assert list(found)[:2] == ["rope", "tape"]
    assert found["none"] == found["fixed"] == (1, "dropped after round 1")
    assert found["rope"] == (5, "leads")
    world = World(SKILLS)
    halving = world.run(1000)
    halving.results.rows[Trial("Own", "rope", 7, resample=2)]["fit_seconds"] = 999.0
    table = halving.ranking().set_index("encoding")
    assert table.loc["rope", "fit_seconds"] == 5, "the median, without prediction"
    # The difference of these is noise on 40 series, and none on 80.
    closer = {"rope": 0.9, "tape": 0.88, "erpe": 0.87, "none": 0.76, "fixed": 0.76}
    assert outcomes(World(closer).run(1000))["none"] == (2, "dropped after round 2")
    # Of the three that level series could hide, more remain than the better half.
    level = outcomes(World({name: 0.8 for name in SKILLS}).run(1000))
    assert {folds for folds, _ in level.values()} == {5}
    tight = outcomes(World({name: 0.8 for name in SKILLS}).run(120))
    assert sorted(folds for folds, _ in tight.values()) == [1, 1, 2, 4, 4]
    assert sum("for lack of time" in outcome for _, outcome in tight.values()) == 3


def test_a_fit_that_fails_or_a_leader_that_is_too_slow_ends_the_rounds():
    found = outcomes(World(SKILLS | {"fixed": np.nan}).run(1000))
    assert found["fixed"] == (0, "left out after an error")
    found = outcomes(World(SKILLS, {"rope": 30.0}).run(95))  # after a fold of 70 seconds
    assert {folds for folds, _ in found.values()} == {1}
    table = World(SKILLS).run(30).ranking().set_index("encoding")
    assert table.loc["rope", ["folds", "accuracy"]].tolist() == [0, 0.9], "of the first round"


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
    fits.elsewhere = lambda tasks: [TrialResult(task.trial) for task in tasks]
    begun = [each.method for each in fits.run(study.trials(), to, lambda t: t.method == "tape")]
    assert begun == ["none", "fixed", "rope"]
    # Two fits of 60 seconds do not end in the last 50, though their mean over four jobs would.
    found = outcomes(World(SKILLS, {"rope": 60.0, "tape": 60.0}, jobs=4).run(90))
    assert found["erpe"] == (1, "too few folds to tell")


def test_an_encoding_that_would_take_several_shares_of_the_budget_is_not_fitted():
    skills = dict.fromkeys(("none", "fixed", "lspe", "tape", "rope", "xpos", "alibi", "t5"), 0.8)
    skills |= dict.fromkeys(("learnable", "fourier", "time2vec", "dape"), 0.9)
    world = World(skills, dict.fromkeys(skills, 1.5) | {"dape": 10.5})
    found = outcomes(world.run(24))
    assert found["dape"] == (0, "not fitted, at about 10 seconds a fit")
    assert all(folds for name, (folds, _) in found.items() if name != "dape")


def test_seconds_of_an_encoding_are_estimated_from_those_of_others():
    halving = World(SKILLS).run(1000)
    halving.prior, halving.seconds = {"none": 2.0, "dape": 6.0}, {"none": [9.0, 11.0]}
    assert halving.cost("dape") == 30
    study = Study(["Own"], ["rope+erpe"], 1)
    halving = Halving(study, None, None, None, 1, n_test=[40], length=150)  # of 64 and 256
    costs = time_ratios(256)
    assert halving.prior == {"rope+erpe": max(costs["rope"], costs["erpe"])}
    assert costs["rope"] != costs["erpe"]


def test_a_budget_below_one_fold_begins_with_fewer_epochs():
    others = ("lspe", "learnable", "fourier", "time2vec", "cape")
    world = World({**SKILLS, **dict.fromkeys(others, 0.5)})
    found = outcomes(world.run(90))
    short = [epochs for _, epochs in world.fitted if epochs != 100]
    assert (len(short), len(set(short))) == (10, 1)
    assert f"of {short[0]} epochs in place of 100" in found["fourier"][1]
    assert found["rope"] == (1, "leads")
    assert world.now <= 100
    world = World(SKILLS, dict.fromkeys(SKILLS, 15.0) | {"none": 10.0})
    world.run(58)  # a fourth fit of 15 seconds would end after it
    assert world.now == 40
    world = World(SKILLS, jobs=2)
    world.run(30)  # as long as one fold of five fits takes, two at a time
    assert [epochs for _, epochs in world.fitted] == [100] * 5


@pytest.mark.parametrize(("budget", "jobs"), [(55, 1), (1000, 1), (80, 2)])
@pytest.mark.parametrize("n_done", [3, 7])
def test_a_resumed_comparison_takes_the_same_decisions(budget, jobs, n_done):
    whole = World(SKILLS, jobs=jobs)
    expected = outcomes(whole.run(budget))
    parts = World(SKILLS, jobs=jobs)
    parts.n_until_ctrl_c = n_done
    with pytest.raises(KeyboardInterrupt):
        parts.run(budget)
    assert outcomes(parts.run(budget)) == expected
    assert parts.fitted == whole.fitted


@pytest.mark.parametrize("budget", ["soon", 0, -1, "nan", "inf", None])
def test_a_budget_is_a_time(budget):
    with pytest.raises(ValueError, match="budget"):
        which_encoding(np.eye(4), [0, 1] * 2, budget=budget)
    assert seconds_of(timedelta(minutes=2)) == 120


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (["a", np.nan, "b", "a"], {}, "y.*NaN"),
        ([0, 1, 0, 1], {"groups": ["a", np.nan, "b", "a"]}, "groups.*NaN"),
        (pd.Series([0, 1, 0, 1], index=[3, 2, 1, 0]), {}, "ids"),
        ([0, 1, 0], {}, "4.* 3"),
        ([0, 1, 0, 1], {"encodings": ["none", "rop"]}, "rop"),
        ([0, 1, 0, 1], {"n_folds": 1}, "from 2 to"),
    ],
)
def test_a_call_is_refused_before_any_fit(y, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        which_encoding(pd.DataFrame(np.eye(4)), y, **{"budget": 60, "n_folds": 2} | options)
    with pytest.raises(ValueError, match="infinity"):
        which_encoding(np.full((4, 4), np.inf), [0, 1] * 2, budget=60, n_folds=2)
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_the_order_of_steps_is_found_to_matter_and_resuming_repeats_nothing(
    uri, experiment, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    y = np.arange(60) % 2
    X = np.zeros((60, 1, 16))
    X[np.arange(60), 0, np.where(y, 11, 4)] = 1.0  # a bump early or late
    X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    options: dict[str, Any] = {
        "budget": "3min", "n_folds": 3, "encodings": ["none", "learnable", "fixed", "erpe"],
        "parameters": {
            "stem": "linear", "d_model": 16, "n_heads": 2, "n_layers": 1, "max_epochs": 40
        },
        "tracking_uri": uri, "experiment": experiment,
    }  # fmt: skip

    def press(progress: Progress) -> None:
        if progress.event == "epoch" and progress.trial == Trial(*progress.trial[:4], 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        which_encoding(X, y, **options, on_progress=press)
    store = prepare_store(uri, experiment)
    assert len(store.runs("FINISHED", {"tsformer.kind": "fit"})) == 4
    found = which_encoding(X, y, **options)
    assert found.ranking is not None
    table = found.ranking.set_index("encoding")
    assert table["accuracy"].iloc[0] > 0.9
    assert table.loc["none", ["folds", "outcome"]].tolist() == [1, "dropped after round 1"]
    assert "`none`" in found.answer()
    ended = statuses(store)
    assert {n for (_, status), n in ended.items() if status == "FINISHED"} == {1}
    assert len(found.results) == sum(status == "FINISHED" for _, status in ended)
    (parent,) = store.runs(tags={"tsformer.kind": "study"})
    assert parent.data.tags["tsformer.answer"] == found.answer()
    page = Path(store.client().download_artifacts(parent.info.run_id, "ranking.md"))
    assert page.read_text() == (tmp_path / "results/compare/ranking.md").read_text()
