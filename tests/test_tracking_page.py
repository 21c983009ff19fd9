"""docs/tracking.md: its example runs as it stands, and what it names is there."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

import tsformer
from experiments.output import COMMITTED

PAGE = (Path(__file__).parents[1] / "docs/tracking.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_runs(tmp_path, monkeypatch, capsys, empty_store) -> None:
    pytest.importorskip("mlflow", reason='needs the extra "tracking"')
    pytest.importorskip("sktime", reason='the problem comes with the extra "data"')
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    uri = empty_store(tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    try:
        runpy.run_path("example.py")
    finally:
        tsformer.autolog(disable=True)
    assert "best {'encoding'" in capsys.readouterr().out
    from tsformer.tracking.views import find_experiment

    store = find_experiment(uri)
    count = {kind: len(store.runs("FINISHED", {"tsformer.kind": kind})) for kind in KINDS}
    assert count == {"search": 1, "fit": 1, "encoding": 3, "refit": 1}


KINDS = ("search", "fit", "encoding", "refit")


def test_every_screenshot_is_shown_in_words_too_and_is_small() -> None:
    shown = dict(re.findall(r"!\[([^\]]*)\]\(\.\./experiments/results/(ui_\w+\.png)\)", PAGE))
    assert set(shown.values()) == {path.name for path in COMMITTED.glob("ui*.png")}
    assert min(len(words) for words in shown) > 50, "what a reader of a screen hears"
    for name in shown.values():
        assert (COMMITTED / name).stat().st_size < 150_000


def test_options_that_are_named_exist() -> None:
    options = inspect.signature(tsformer.autolog).parameters
    named = re.findall(r"`(\w+)=(?:True|False)`", PAGE)
    assert {"disable", "exclusive", "silent", "log_models"} <= set(named) <= set(options)
