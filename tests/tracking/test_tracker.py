"""MLflowTracker: curves, costs and pictures of a training; scores of an evaluation."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss
from small_estimators import classifier

from tsformer.metrics import expected_calibration_error
from tsformer.plots import plot_encoding_change
from tsformer.tracking import MLflowTracker
from tsformer.tracking.autologging import track_evaluation
from tsformer.tracking.scoring import classification_scores

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')


def test_the_encoding_is_drawn_as_it_was_before_and_after(store, italy, monkeypatch):
    seen = []

    def drawn(before, after, *sizes, **options):
        seen.append((before.state_dict(), after.state_dict(), sizes, options))
        return plot_encoding_change(before, after, *sizes, **options)

    monkeypatch.setattr("tsformer.tracking.tracker.plot_encoding_change", drawn)
    with store.start("drawn", kind="fit") as run:
        tracker = MLflowTracker(run, pictures=True)
        classifier("lspe", callbacks=[tracker]).fit(*italy)
    ((before, after, sizes, options),) = seen
    assert not any(torch.equal(before[name], after[name]) for name in after)
    assert (sizes, options) == ((24,), {"d_model": 8, "n_heads": 2, "name": "lspe"})


CHILD = """
import torch
from tsformer.tracking.tracker import peak_memory_mb, reset_peak_memory
cpu = torch.device("cpu")
reset_peak_memory(cpu)
print(peak_memory_mb(cpu))
held = torch.ones(50_000_000)  # 200 MB
del held
print(peak_memory_mb(cpu))
reset_peak_memory(cpu)
print(peak_memory_mb(cpu))
"""
PARENT = """
import subprocess, sys
held = bytearray(b"1") * 1_000_000_000
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells")
def test_a_peak_of_memory_is_neither_the_parents_nor_an_earlier_one():
    printed = subprocess.check_output([sys.executable, "-c", PARENT, CHILD], text=True)
    before, most, after = map(float, printed.split())
    assert before < 900, "the parent's"
    assert 180 < most - before < 400
    assert after < before + 50


def test_scores_of_a_classifier_without_a_class():
    random = np.random.default_rng(0)
    classes = np.array(["a", "b", "c"])
    p = random.dirichlet(np.ones(3), size=40)
    y = random.choice(classes, size=40)
    predicted = classes[p.argmax(axis=1)]
    squared = np.square(p - (y[:, None] == classes)).sum(axis=1)
    scores = classification_scores(y, p, classes)
    assert scores == pytest.approx({
        "accuracy": (predicted == y).mean(),
        "balanced_accuracy": balanced_accuracy_score(y, predicted),
        "log_loss": log_loss(y, p, labels=classes),
        "f1_macro": f1_score(y, predicted, average="macro"),
        "brier_score": squared.mean(),
        "calibration_error": expected_calibration_error(y, p, classes),
    })  # fmt: skip
    with warnings.catch_warnings(action="error"):
        alone = classification_scores(np.full(40, "a"), p, classes)
    assert alone["balanced_accuracy"] == pytest.approx((predicted == "a").mean())
    y[0] = "unknown to the model"
    scores = classification_scores(y, p, classes)
    assert scores["accuracy"] == pytest.approx((predicted == y).mean())
    assert "log_loss" not in scores
    scores = classification_scores(np.array(["0", "1", "zzz"]), p[:3, :2], np.arange(2))
    assert scores["accuracy"] == pytest.approx((p[:2, :2].argmax(axis=1) == [0, 1]).sum() / 3)


def test_some_series_of_each_class_are_explained_if_requested(store, uri):
    for library in ("mlflow", "matplotlib", "captum"):
        pytest.importorskip(library, reason='needs the extra "all"')
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(2, size)) for size in (20, 12, 15, 20)], ["a/b", "c", "c", "c"]
    fitted = classifier(max_epochs=1).fit(X * 2, y * 2)
    where = {"dataset": "own", "tracking_uri": uri, "experiment": "explanations"}
    client, drawn = store.client(), []
    for n in (0, 2):
        run = track_evaluation(fitted, X, y, **where, explanations=n).run_id
        folders = [entry.path for entry in client.list_artifacts(run, "explanations")]
        files = [entry.path for folder in folders for entry in client.list_artifacts(run, folder)]
        drawn.append([path.removeprefix("explanations/") for path in files])
    assert drawn == [[], ["a_b/0.png", "c/1.png", "c/2.png"]]
