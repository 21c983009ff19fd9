"""The screenshots of the guide can be taken again, with the MLflow that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from experiments.output import COMMITTED
from tools import ui_screenshot

# Every page is drawn by the processor; test_pages.py looks at the same pages.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(900)]
SMALL = (
    *("compare", "--name", "six_encodings", "--experiment", "six_encodings"),
    *("--datasets", "ArrowHead", "--encodings", "none,lspe", "--seeds", "1", "--max-epochs", "3"),
    *("--set", "d_model=16", "--set", "n_layers=1"),
)


def test_every_picture_of_the_guide_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui_screenshot, "COMPARISON", SMALL)
    ui_screenshot.main(["--out", str(tmp_path)])
    committed = {path.name: Image.open(path).size for path in COMMITTED.glob("ui_*.png")}
    assert {path.name: Image.open(path).size for path in tmp_path.iterdir()} == committed
    for path in tmp_path.iterdir():
        assert len(Image.open(path).convert("RGB").getcolors(2**24)) > 30, f"{path.name} is empty"
