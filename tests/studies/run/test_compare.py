"""compare(): real fits on real problems, and everything that it says about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import image
from pandas.testing import assert_frame_equal
from run_once import Done, statuses
from torch import Tensor

import tsformer
from tsformer import TSTransformerClassifier
from tsformer.data import DatasetError, load_dataset
from tsformer.plots import encoding_color
from tsformer.studies import Progress, Study, compare
from tsformer.studies.report.summary import to_markdown
from tsformer.tracking import RunStore
from tsformer.training import Callback, TrainingState

MlflowClient = pytest.importorskip("mlflow", reason='needs the extra "tracking"').MlflowClient

# The study that most of them look at takes ten seconds.
pytestmark = pytest.mark.slow

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=SMALL)


@pytest.fixture(scope="module")
def done(uri, tmp_path_factory):
    sizes: list[int] = []
    original = TSTransformerClassifier.predict_proba

    def spy(self: TSTransformerClassifier, X: Any) -> Any:
        sizes.append(len(X))
        return original(self, X)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TSTransformerClassifier, "predict_proba", spy)
        found = Done(STUDY, uri, "done", tmp_path_factory.mktemp("done"))
    assert sizes == [1029] * 4, "each fit predicts the test split once"
    return found


def artifact(store: RunStore, run_id: str, name: str) -> Path:
    return Path(MlflowClient(store.uri).download_artifacts(run_id, name))


def test_a_row_a_fit_with_the_numbers_of_that_fit(done):
    results = done.comparison.results
    trials = results[["dataset", "encoding", "seed"]].itertuples(index=False, name=None)
    assert list(trials) == [trial[:3] for trial in STUDY.trials()]
    assert (results["resample"] == 0).all()
    X, y = load_dataset("ItalyPowerDemand", split="train")
    X_test, y_test = load_dataset("ItalyPowerDemand", split="test")
    row = results.iloc[3]
    by_hand = TSTransformerClassifier(row.encoding, random_state=int(row.seed), **SMALL).fit(X, y)
    assert row.accuracy == by_hand.score(X_test, y_test)
    right = by_hand.predict_proba(X_test)[
        np.arange(len(y_test)), np.searchsorted(["1", "2"], y_test)
    ]
    assert row.log_loss == pytest.approx(-np.log(right).mean(), rel=1e-5)
    assert row.n_parameters == sum(p.numel() for p in by_hand.model_.parameters())
    assert row.n_epochs == 2
    assert (results.n_parameters_encoding > 0).tolist() == [False, True, False, True]


def test_files(done):
    assert sorted(p.name for p in done.folder.iterdir()) == [
        "comparison.png", "report", "results.csv", "study.json", "summary.md",
    ]  # fmt: skip
    written = pd.read_csv(done.comparison.csv_path, dtype={"configuration": str})
    assert_frame_equal(written, done.comparison.results, check_dtype=False)
    assert image.imread(done.comparison.figure_path).std() > 0.05
    assert json.loads((done.folder / "study.json").read_text()) == STUDY.as_dict()
    assert (done.folder / "summary.md").read_text() == to_markdown(done.comparison.summary())


def test_each_fit_is_a_run_that_says_what_it_was(done):
    assert statuses(done.store) == {(STUDY.key(*trial), "FINISHED"): 1 for trial in STUDY.trials()}
    runs = {run.info.run_id: run for run in done.store.runs()}
    (study,) = (run for run in runs.values() if run.data.tags["tsformer.kind"] == "study")
    for row in done.comparison.results.itertuples():
        run = runs[row.run_id]
        metrics, tags = run.data.metrics, run.data.tags
        for name in ("accuracy", "f1_macro", "balanced_accuracy", "log_loss"):
            assert metrics[f"test/{name}"] == getattr(row, name)
        assert metrics["fit_seconds"] == row.fit_seconds
        assert metrics["fit_cpu_seconds"] == row.fit_cpu_seconds > 0
        same = {"dataset": "ItalyPowerDemand", "encoding": row.encoding, "seed": str(row.seed)}
        assert run.data.params.items() >= {**same, "d_model": "8"}.items()
        assert tags["mlflow.runColor"] == encoding_color(row.encoding)
        assert tags["mlflow.parentRunId"] == study.info.run_id
        assert tags["tsformer.version"] == tsformer.__version__
        used = {i.tags[0].value: i.dataset.profile for i in run.inputs.dataset_inputs}
        assert "[67, 1, 24]" in used["train"]
        assert "[1029, 1, 24]" in used["test"]
    for picture in ("confusion.png", "encoding.png", "training.png"):
        assert image.imread(artifact(done.store, row.run_id, picture)).std() > 0.02
    answers = pd.read_csv(artifact(done.store, row.run_id, "predictions.csv"), dtype=str)
    assert (answers.true == answers.predicted).mean() == pytest.approx(row.accuracy)
    configuration = json.loads(artifact(done.store, row.run_id, "configuration.json").read_text())
    assert configuration.items() >= {"encoding": row.encoding, "n_layers": 1}.items()


def test_the_study_and_each_encoding_have_a_run(done):
    summary = done.comparison.summary()
    runs = done.store.runs("FINISHED", {"tsformer.kind": "encoding"})
    assert [run.data.params["encoding"] for run in runs] == ["none", "tape+erpe"]
    for run, row in zip(runs, summary.itertuples(), strict=True):
        assert run.data.metrics["test/accuracy"] == row.accuracy
        assert run.data.metrics["test/accuracy/ItalyPowerDemand"] == row.accuracy
        assert run.data.metrics["test/accuracy_spread"] == row.spread
    (study,) = done.store.runs("FINISHED", {"tsformer.kind": "study"})
    assert study.data.metrics == {"fits/finished": 4, "fits/failed": 0, "fits/unrecorded": 0}
    for file in ("study.json", "results.csv", "report/report.html"):
        kept = artifact(done.store, study.info.run_id, Path(file).name)
        assert kept.read_text().strip() == (done.folder / file).read_text().strip()


def test_events_tell_how_far_it_is(done):
    fit = ["fit-start", "epoch", "epoch", "fit-end"]
    assert [e.event for e in done.events] == ["start", *fit, *fit, *fit, *fit, "end"]
    fractions = [e.fraction for e in done.events]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[2], fractions[-1]) == (0.0, 0.125, 1.0)
    ends = [e for e in done.events if e.event == "fit-end"]
    assert [e.trial for e in ends] == STUDY.trials()
    assert [e.accuracy for e in ends] == done.comparison.results.accuracy.tolist()
    assert (done.events[0].seconds_left, done.events[-1].seconds_left) == (None, 0.0)


def test_a_problem_that_is_not_there_stops_it_before_any_fit(tmp_path):
    study = Study(("ItalyPowerDemand", "ItalyPowerDemnd"), ("none",), parameters=SMALL)
    with pytest.raises(DatasetError, match="ItalyPowerDemand"):
        compare(study, out=tmp_path / "out", tracking_uri=f"sqlite:///{tmp_path / 'new.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_report")
def test_what_is_finished_is_not_done_again(done, tmp_path):
    before = statuses(done.store)
    events: list[Progress] = []
    again = done.again(events)
    assert [e.event for e in events] == ["start", "end"]
    assert events[0].skipped == events[0].done == 4
    assert_frame_equal(again.results, done.comparison.results)
    assert statuses(done.store) == before
    assert len(done.store.runs(tags={"tsformer.kind": "study"})) == 1
    assert len(done.store.runs(tags={"tsformer.kind": "encoding"})) == 2

    other = Study(STUDY.datasets, ("none", "rope"), seeds=1, parameters=SMALL)
    events.clear()
    options: dict[str, Any] = {"tracking_uri": done.uri, "experiment": "done"}
    compare(other, out=tmp_path, on_progress=events.append, **options)
    assert [e.trial.method for e in events if e.event == "fit-end" and e.trial] == ["rope"]


class Start(Callback):
    """Keeps the weights before the first step, and the batches of the first epoch."""

    def on_train_begin(self, state: TrainingState) -> None:
        weights = {n: w.clone() for n, w in state.model.state_dict().items()}
        self.weights = {n: w for n, w in weights.items() if "encoding" not in n.split(".")}
        self.batches: list[Tensor] = []
        state.model.get_submodule("stem").register_forward_pre_hook(self._see)

    def _see(self, module: Any, arguments: tuple[Any, ...]) -> None:
        if module.training:
            self.batches.append(arguments[0].clone())


def start(encoding: str, seed: int = 1) -> tuple[dict[str, Tensor], list[Tensor]]:
    seen, small = Start(), {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1}
    classifier = TSTransformerClassifier(encoding, **small, random_state=seed, callbacks=[seen])
    classifier.fit(*load_dataset("BasicMotions", split="train"))
    return seen.weights, seen.batches


def test_one_seed_is_one_start_for_all_encodings_and_another_is_another():
    weights, batches = start("none")
    assert len(weights) > 10
    assert len(batches) > 1
    exact = {"rtol": 0, "atol": 0}
    for encoding in ("lspe", "tape+erpe"):
        torch.testing.assert_close(start(encoding), (weights, batches), **exact)
    other, seen = start("none", 2)
    assert any(not torch.equal(other[name], weights[name]) for name in weights)
    assert not torch.equal(seen[0], batches[0])
