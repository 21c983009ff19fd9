"""`tsformer fit` that was killed goes on where it stood."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tsformer import load, load_dataset
from tsformer.cli import main

for library in ("typer", "rich", "sktime"):
    pytest.importorskip(library, reason='needs the extra "all"')

FIT = ["fit", "ItalyPowerDemand", "--no-track", "--encoding", "tape", "--max-epochs", "40"]
FIT += ["--set", "n_layers=1", "--set", "d_model=8", "--set", "n_heads=2", "--set", "verbose=0"]
KEPT = ["--checkpoint", "state", "--set", "checkpoint_minutes=0"]


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 0


@pytest.mark.slow
def test_killed_and_resumed_it_predicts_bit_for_bit_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(*FIT, "--out", "whole")
    process = subprocess.Popen(
        [sys.executable, "-m", "tsformer", *FIT, *KEPT, "--out", "killed"], cwd=tmp_path
    )
    end = time.monotonic() + 240
    while not list(tmp_path.glob("state/training-*.pt")) and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not list((tmp_path / "killed").iterdir())
    run(*FIT, *KEPT, "--resume", "--out", "resumed")
    X, _ = load_dataset("ItalyPowerDemand", "test")
    whole, resumed = load(tmp_path / "whole"), load(tmp_path / "resumed")
    assert np.array_equal(whole.predict_proba(X), resumed.predict_proba(X))
    saved = json.loads((tmp_path / "resumed/estimator.json").read_text())["parameters"]
    assert saved["checkpoint_dir"] is None, "a path of this machine is none of the model's"
    assert saved["resume"] is False
