"""`tsformer fit` that was cut off goes on where it stood."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tsformer import load, load_dataset
from tsformer.cli import main
from tsformer.training.checkpoint import CheckpointFile

for library in ("typer", "rich", "sktime"):
    pytest.importorskip(library, reason='needs the extra "all"')

FIT = ["fit", "ItalyPowerDemand", "--no-track", "--encoding", "tape", "--max-epochs", "4"]
FIT += ["--set", "n_layers=1", "--set", "d_model=8", "--set", "n_heads=2", "--set", "verbose=0"]
KEPT = ["--checkpoint", "state", "--set", "checkpoint_minutes=0"]


class PowerCut(BaseException):
    """Ends a fit as nothing that it expects would; test_checkpoint.py kills a process."""


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 0


@pytest.mark.slow
def test_cut_off_and_resumed_it_predicts_bit_for_bit_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(*FIT, "--out", "whole")
    save, saved = CheckpointFile.save, []

    def cut_off_after_the_second(self, state):
        save(self, state)
        saved.append(state)
        if len(saved) == 2:
            raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "save", cut_off_after_the_second)
        with pytest.raises(PowerCut):
            main([*FIT, *KEPT, "--out", "cut"])
    assert not (tmp_path / "cut").exists()
    run(*FIT, *KEPT, "--resume", "--out", "resumed")
    X, _ = load_dataset("ItalyPowerDemand", "test")
    whole, resumed = load(tmp_path / "whole"), load(tmp_path / "resumed")
    assert np.array_equal(whole.predict_proba(X), resumed.predict_proba(X))
    parameters = json.loads((tmp_path / "resumed/estimator.json").read_text())["parameters"]
    assert parameters["checkpoint_dir"] is None, "a path of this machine is none of the model's"
    assert parameters["resume"] is False
