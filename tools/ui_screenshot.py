"""Take the screenshot of MLflow's pages that the README shows.

    python experiments/ui_screenshot.py sqlite:///mlflow.db --experiment which-encoding

Writes results/ui.png: the view "Encodings side by side" of a comparison, in a headless Chromium.
Needs the extra `ui-test`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from browser import find_chromium, open_page, running_ui

RESULTS = Path(__file__).parent / "results" / "ui.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", help="its address")
    parser.add_argument("--experiment", default="tsformer")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        parser.error("no Chromium here; set $CHROMIUM to its path")
    experiment = ("--experiment", options.experiment)
    with running_ui(options.store, *experiment) as pages, open_page(chromium) as page:
        page.set_viewport_size({"width": 1500, "height": 1450})
        page.goto(pages["encodings side by side"])
        for button in ("Close", "Toggle sidebar"):  # what is of MLflow and not of the runs
            page.locator(f"button[aria-label='{button}']").first.click()
        page.get_by_test_id("experiment-view-compare-runs-card").first.wait_for()
        page.locator(".bars .point").first.wait_for()
        page.locator("img[src*='get-artifact']").first.wait_for()
        page.wait_for_function("[...document.images].every(image => image.naturalWidth > 0)")
        page.wait_for_timeout(2000)  # of moving panels and bars
        page.screenshot(path=options.out)
    print(options.out)


if __name__ == "__main__":
    main()
