"""MLflowTracker: the curves, costs and pictures of a training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tsformer import TSTransformerClassifier
from tsformer.tracking import MLflowTracker
from tsformer.training import TrainingPlan, TrainingState

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "random_state": 0}


def test_any_module_that_trains_can_be_tracked(store):
    plan = TrainingPlan(
        n_epochs=1, batch_size=1, learning_rate=1.0, weight_decay=0.0, seed=0,
        device=torch.device("cpu"),
    )  # fmt: skip
    state = TrainingState(torch.nn.Linear(3, 2), plan)
    with store.start("module", kind="fit") as run:
        tracker = MLflowTracker(run, pictures=True)
        tracker.on_train_begin(state)
        state.history.append({"epoch": 1, "loss": 0.5, "lr": 0.1, "seconds": 0.0})
        tracker.on_epoch_end(state)
        tracker.on_train_end(state)
    assert store.client().get_run(run.run_id).data.metrics["n_parameters"] == 8
    assert [each.path for each in store.client().list_artifacts(run.run_id)] == ["training.png"]


def test_members_follow_each_other_in_one_run(store, italy):
    with store.start("members", kind="fit") as run:
        tracker = MLflowTracker(run, pictures=False)
        classifier = TSTransformerClassifier(
            "lspe", **SMALL, max_epochs=2, n_estimators=3, callbacks=[tracker]
        ).fit(*italy)
    logged = store.client().get_run(run.run_id).data.metrics
    assert logged["n_epochs"] == 6
    assert logged["n_parameters"] == sum(
        parameter.numel() for model in classifier.models_ for parameter in model.parameters()
    )
    points = store.client().get_metric_history(run.run_id, "train/loss")
    losses = [row["loss"] for history in classifier.histories_ for row in history]
    assert [(point.step, point.value) for point in points] == [*enumerate(losses, start=1)]


CHILD = """
import torch
from tsformer.tracking.tracker import peak_memory_mb, reset_peak_memory
cpu = torch.device("cpu")
reset_peak_memory(cpu)
peaks = [peak_memory_mb(cpu)]
held = torch.ones(50_000_000)  # 200 MB
del held
peaks.append(peak_memory_mb(cpu))
reset_peak_memory(cpu)
peaks.append(peak_memory_mb(cpu))
print(*peaks)
"""
PARENT = """
import subprocess, sys
held = bytearray(b"1") * 1_000_000_000
print(subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=-1, check=True).stdout.decode())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells")
def test_a_peak_of_memory_is_neither_the_parents_nor_an_earlier_one():
    done = subprocess.run(
        [sys.executable, "-c", PARENT, CHILD], capture_output=True, text=True, check=True
    )
    before, most, after = map(float, done.stdout.split())
    assert before < 900, "the parent's"
    assert 180 < most - before < 400
    assert after < before + 50
