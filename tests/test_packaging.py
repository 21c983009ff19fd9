"""What the package drags in: extras, versions, the direction of imports."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from tsformer import _optional
from tsformer._optional import install_command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
OPTIONAL = [
    *("aeon", "captum", "matplotlib", "mlflow", "onnx", "onnxscript", "rich", "skbase", "sktime"),
    "typer",
]


def python(code: str, cwd: Path) -> list[str]:
    """Run a program; return the lines that it prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_core_fits_saves_loads_and_shows_progress_without_any_extra(tmp_path):
    """`import tsformer` loads torch late; the command line names the extra that it misses."""
    code = f"""
import sys
import tsformer
assert "torch" not in sys.modules
tsformer.data.from_long; tsformer.TSTransformerClassifier(); tsformer.load
print([name for name in {OPTIONAL!r} if name in sys.modules])
sys.modules.update(dict.fromkeys({OPTIONAL!r}))  # as where no extra is installed

import numpy as np
from tsformer import TSTransformerClassifier, load
from tsformer.cli import main

rng = np.random.default_rng(0)
X, y = [rng.normal(size=(2, n)) for n in rng.integers(5, 20, size=12)], ["no", "yes"] * 6
small = dict(d_model=8, n_heads=2, n_layers=1, max_epochs=2, random_state=0)
for encoding in ("lspe", "tape+erpe"):
    clf = TSTransformerClassifier(encoding, early_stopping=True, **small).fit(X, y)
    clf.save("model")
    assert (load("model").predict_proba(X) == clf.predict_proba(X)).all()
    assert clf.history_.to_frame().shape == (2, 5)
sys.stderr = sys.stdout
clf = TSTransformerClassifier(verbose=1, **small).fit(X, y)
print(clf.history_[-1]["loss"])
try:
    main(["encodings"])
except SystemExit as stopped:
    print(stopped.code)
"""
    loaded, first, *_, last, loss, missing, status = python(code, tmp_path)
    assert loaded == "[]"
    assert first == "epoch 0/2"
    assert last == f"epoch 2/2  loss {float(loss):.4f}  0:00:00 left"
    assert missing == (
        "tsformer: the command line needs typer, which is not installed; "
        f"install it with: {install_command('cli')}"
    )
    assert status == "2"


def test_every_public_name_is_there():
    import tsformer

    for name in tsformer.__all__:
        assert getattr(tsformer, name).__name__ == name
        assert name in dir(tsformer)
    for name in ("data", "encodings", "plots", "tracking"):
        assert name in dir(tsformer)
    assert "Any" not in dir(tsformer)
    with pytest.raises(AttributeError):
        _ = tsformer.TSTransformerClasifier


def test_errors_and_baselines_name_extras_that_exist():
    from tsformer.baselines import BASELINES

    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "tsformer").rglob("*.py")]
    named = {extra for text in texts for extra in re.findall(r'extra="([^"]+)"', text)}
    assert named >= {"cli", "tracking"}
    assert named <= set(EXTRAS)
    requirements = [*EXTRAS["baselines"], *PROJECT["project"]["dependencies"]]
    provided = {re.split(r"[\[<>=]", requirement)[0] for requirement in requirements}
    needed = {module for baseline in BASELINES.values() for module in baseline.needs}
    assert needed
    assert needed <= provided  # each of these modules has the name of its distribution
    (everything,) = EXTRAS["all"]
    listed = set(re.fullmatch(r"tsformer\[(.*)\]", everything)[1].split(","))
    assert listed == set(EXTRAS) - {"all", "docs", "test", "ui-test", "dev"}


def test_constraints_pin_everything_that_is_asked_for():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.lower().split("==") for line in lines if not line.startswith("#"))
    requirements = sum(EXTRAS.values(), PROJECT["project"]["dependencies"])
    names = {re.split(r"[\[<>=]", requirement)[0].lower() for requirement in requirements}
    assert names - set(pins) <= {"tsformer"}
    # A local suffix, as in 2.13.0+cpu, is known to one index only.
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins.values())
    bounds = dict(line.split(">=") for line in PROJECT["project"]["dependencies"])
    lowest = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w-]+)==([\d.]+)(?:; python_version < .*)?$", lowest, re.MULTILINE)
    assert {name: Version(pin) for name, pin in pins} == {
        name: Version(bound) for name, bound in bounds.items()
    }


def test_a_broken_library_tells_its_own_error(tmp_path, monkeypatch):
    """Only a library that is absent needs the extra."""
    (tmp_path / "half_there.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        _optional.require("half_there", extra="explain", purpose="explain")
    with pytest.raises(ImportError, match="explain"):
        _optional.require("not_there_at_all.part", extra="explain", purpose="explain")
