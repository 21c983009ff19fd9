"""Take the screenshots of MLflow's pages that the guide shows.

    python tools/ui_screenshot.py [--commit]

Runs a small comparison and the example of docs/tracking.md, both tracked, and writes `ui_*.png`,
the pages that docs/tracking.md explains, as a headless Chromium draws them. Needs the extra
`ui-test`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.output import add_output_options
from tools.browser import find_chromium, open_page, running_ui
from tools.pictures import write_png
from tsformer.tracking.views import find_experiment

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
#: The comparison in the guide, and the fit with its pages there.
EXPERIMENT = "six_encodings"
COMPARISON = (
    *("compare", "--name", EXPERIMENT, "--experiment", EXPERIMENT),
    *("--datasets", "ECG200,ArrowHead,FaceFour", "--seeds", "2", "--max-epochs", "12"),
    *("--encodings", "none,fixed,learnable,lspe,tape+erpe,learnable+gaussian"),
    *("--set", "d_model=16", "--set", "n_layers=1"),
)
FIT = "ArrowHead lspe 0"
#: All pictures of the guide are as wide.
_WIDTH = 1400
# Pages are drawn by the processor, which may be busy.
_PATIENCE = 240_000


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_output_options(parser, "ui")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    chromium = find_chromium()
    if chromium is None:
        sys.exit("ui_screenshot.py: Chromium was not found; set $CHROMIUM to its path")
    with tempfile.TemporaryDirectory() as folder, open_page(chromium, width=_WIDTH) as page:
        page.set_default_timeout(_PATIENCE)
        pages_of_the_guide(page, tracked(Path(folder), COMPARISON), options.out)


def tracked(folder: Path, comparison: Sequence[str]) -> str:
    """Run a comparison and the example of docs/tracking.md in a folder; return their store."""
    text = (ROOT / "docs/tracking.md").read_text(encoding="utf-8")
    (folder / "search.py").write_text(re.findall(r"```python\n(.*?)```", text, re.S)[0])
    elsewhere = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID")
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    environment["PYTHONPATH"] = str(ROOT)
    for command in (("-m", "tsformer", *comparison), ("search.py",)):
        subprocess.run([sys.executable, *command], cwd=folder, env=environment, check=True)
    return f"sqlite:///{folder / 'mlflow.db'}"


def pages_of_the_guide(page: Page, uri: str, out: Path) -> None:
    """Take the pictures that docs/tracking.md shows."""
    compared, searched = find_experiment(uri, EXPERIMENT), find_experiment(uri, "tsformer")
    with running_ui(uri, "--experiment", EXPERIMENT) as pages:
        server = pages["all fits"].partition("/#/")[0]
        _prefer_model_training(page, server)

        _open(page, pages["encodings side by side"], height=1350)
        _save(page, out / "ui_encodings.png")
        _open(page, pages["all fits"], height=1750)
        _save(page, out / "ui_fits.png")

        fits = compared.runs("FINISHED", {"tsformer.kind": "fit"})
        (fit,) = (run for run in fits if run.info.run_name == FIT)
        own = f"{server}/#/experiments/{compared.experiment_id}/runs/{fit.info.run_id}"
        _open(page, f"{own}/model-metrics", height=950)
        page.get_by_text("test", exact=True).first.click()  # closed, so that curves come first
        page.locator(".js-line").first.wait_for()
        _save(page, out / "ui_run.png")
        _open(page, f"{own}/artifacts/encoding.png", height=950)
        page.locator("img[src*='get-artifact'], img[src^='blob:']").first.wait_for()
        _save(page, out / "ui_artifact.png")

        runs = f"{server}/#/experiments/{searched.experiment_id}/runs"
        _open(page, f"{runs}?workflowType=machine_learning", height=620)
        page.locator(".ag-row", has_text="GridSearchCV").get_by_role("button").first.click()
        _save(page, out / "ui_search.png")


def _prefer_model_training(page: Page, server: str) -> None:
    """Turn the switch of MLflow that pages of runs are without, where the address says nothing."""
    _open(page, f"{server}/#/experiments", height=950)
    page.get_by_text("Model training", exact=True).first.click()


def _open(page: Page, address: str, *, height: int) -> None:
    page.set_viewport_size({"width": _WIDTH, "height": height})
    page.goto("about:blank")  # a change after the # alone loads nothing
    page.goto(address)
    page.get_by_role("heading", level=2).first.wait_for()
    page.wait_for_timeout(3000)
    assistant = page.locator("button[aria-label='Close']").first  # MLflow's own, not about the runs
    if assistant.is_visible():
        assistant.click()
    if "compareRunsMode" in address:
        page.get_by_test_id("experiment-view-compare-runs-card").first.wait_for()
        page.locator(".scatterlayer .point").first.wait_for()


def _save(page: Page, out: Path) -> None:
    page.wait_for_function("[...document.images].every(image => image.complete)")
    page.wait_for_timeout(4000)  # animations of panels and dots
    write_png(page.screenshot(animations="disabled"), out)


if __name__ == "__main__":
    main()
