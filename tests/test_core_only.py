"""The core alone: torch, numpy, pandas and scikit-learn, and no library of an extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Refuses the libraries as an environment without them does, and says who asked.
import pytest

BLOCKED = """
import sys

class Blocker:
    names = {
        *("aeon", "captum", "matplotlib", "mlflow", "rich", "skbase"),
        *("sktime", "typer"),
    }

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())

import numpy as np
from tsformer import ModelConfig, TSTransformer, TSTransformerClassifier, load
from tsformer.encodings import names

rng = np.random.default_rng(0)
X = [rng.normal(size=(2, n)) for n in rng.integers(5, 20, size=12)]
y = ["no", "yes"] * 6
small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "random_state": 0}
"""


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED + code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_fit_save_and_load(tmp_path):
    code = """
for encoding in [*names(), "tape+erpe"]:
    clf = TSTransformerClassifier(encoding, early_stopping=True, **small).fit(X, y)
    clf.save("model")
    assert (load("model").predict_proba(X) == clf.predict_proba(X)).all()
    assert clf.history_.to_frame().shape == (2, 5)
print(not Blocker.names & {name.partition(".")[0] for name in sys.modules})
"""
    assert run(code, tmp_path) == "True\n"


@pytest.mark.slow
def test_progress_is_shown_in_lines(tmp_path):
    code = """
sys.stderr = sys.stdout
clf = TSTransformerClassifier(verbose=1, **small).fit(X, y)
print(clf.history_[-1]["loss"])
"""
    first, *_, last, loss = run(code, tmp_path).splitlines()
    assert first == "epoch 0/2"
    assert last == f"epoch 2/2  loss {float(loss):.4f}  0:00:00 left"
