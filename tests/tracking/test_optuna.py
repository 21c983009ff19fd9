"""The guide's program with Optuna: pruned after an epoch, every trial a run in one experiment."""

import re
import runpy
from pathlib import Path

import pytest
from tracked_runs import runs

optuna = pytest.importorskip("optuna", reason='needs the extra "test"')


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_trials_are_pruned_after_an_epoch_and_tracked_together(experiment, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs/guide/integrations.md"
    programs = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.M)
    (program,) = [code for code in programs if "import optuna" in code]
    (tmp_path / "program.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    study = runpy.run_path("program.py")["study"]
    tracked = runs(kind="fit")
    assert len(tracked) == len(study.trials) == 6
    for run, trial in zip(tracked, study.trials, strict=True):
        assert run.info.status == "FINISHED"
        assert run.data.params["encoding"] == trial.params["encoding"]
        assert run.data.metrics["n_epochs"] == trial.last_step
        last = trial.intermediate_values[trial.last_step]
        assert run.data.metrics["val/score"] == last
        pruned = trial.state == optuna.trial.TrialState.PRUNED
        assert pruned or (trial.last_step == 5 and trial.value == last)
    assert any(trial.last_step < 5 for trial in study.trials)
