"""Take screenshots of MLflow's pages: the one that the README shows, or all, to be looked at.

    python tools/ui_screenshot.py sqlite:///mlflow.db --experiment which-encoding [--commit]
    python tools/ui_screenshot.py sqlite:///mlflow.db --all --out /tmp/pages

Writes ui.png: the view "Encodings side by side" of a comparison, in a headless Chromium. With
--all, every page that `tsformer ui` prints, and the page of a study and of a fit, at widths of
1,400 and 2,000 pixels. Needs the extra `ui-test`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.output import add_output_options
from tools.browser import find_chromium, open_page, running_ui
from tsformer.tracking.server import find_experiment

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTHS = (1400, 2000)
# Pages are drawn by the processor, which may be busy.
_PATIENCE = 240_000


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", help="address of the tracking store")
    parser.add_argument("--experiment", default="tsformer")
    parser.add_argument("--all", action="store_true", help="every page at every width")
    add_output_options(parser, "ui")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    chromium = find_chromium()
    if chromium is None:
        sys.exit("ui_screenshot.py: Chromium was not found; set $CHROMIUM to its path")
    options.out.mkdir(parents=True, exist_ok=True)
    experiment = ("--experiment", options.experiment)
    with running_ui(options.store, *experiment) as pages, open_page(chromium) as page:
        page.set_default_timeout(_PATIENCE)
        shown = pages["encodings side by side"]
        if not options.all:
            _take(page, shown, options.out / "ui.png", width=1500, height=1450)
            return
        runs = dict(_runs(options.store, options.experiment, shown.partition("/#/")[0]))
        for name, address in {**pages, **runs}.items():
            for width in WIDTHS:
                out = options.out / f"{name.replace(' ', '_')}_{width}.png"
                _take(page, address, out, width=width, height=1000 if name in runs else 3600)


def _runs(uri: str, experiment: str, server: str) -> Iterator[tuple[str, str]]:
    """Yield the addresses of the pages of the newest study and the newest fit, by what they are."""
    store = find_experiment(uri, experiment)
    for kind in ("study", "fit"):
        for run in store.runs("FINISHED", {"tsformer.kind": kind})[-1:]:
            yield kind, f"{server}/{store.page_of(run.info.run_id)}"


def _take(page: Page, address: str, out: Path, *, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto("about:blank")  # otherwise only what follows the # changes, and nothing is loaded
    page.goto(address)
    assistant = page.locator("button[aria-label='Close']").first  # MLflow's own, not about the runs
    page.get_by_role("heading", level=2).first.wait_for()
    page.wait_for_timeout(3000)
    if assistant.is_visible():
        assistant.click()
    if "compareRunsMode" in address:
        page.get_by_test_id("experiment-view-compare-runs-card").first.wait_for()
        page.locator(".scatterlayer .point").first.wait_for()
    page.wait_for_function("[...document.images].every(image => image.complete)")
    page.wait_for_timeout(4000)  # animations of panels and dots
    page.screenshot(path=out, animations="disabled")
    print(out)


if __name__ == "__main__":
    main()
