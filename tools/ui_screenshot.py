"""Take the screenshot of MLflow's pages that the README shows.

    python tools/ui_screenshot.py sqlite:///mlflow.db --experiment which-encoding [--commit]

Writes ui.png: the view "Encodings side by side" of a comparison, in a headless Chromium. Needs the
extra `ui-test`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.output import add_output_options
from tools.browser import find_chromium, open_page, running_ui


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", help="address of the tracking store")
    parser.add_argument("--experiment", default="tsformer")
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
        page.set_viewport_size({"width": 1500, "height": 1450})
        page.goto(pages["encodings side by side"])
        for button in ("Close", "Toggle sidebar"):  # MLflow's own, not about the runs
            page.locator(f"button[aria-label='{button}']").first.click()
        page.get_by_test_id("experiment-view-compare-runs-card").first.wait_for()
        page.locator(".bars .point").first.wait_for()
        page.locator("img[src*='get-artifact']").first.wait_for()
        page.wait_for_function("[...document.images].every(image => image.naturalWidth > 0)")
        page.wait_for_timeout(2000)  # animations of panels and bars
        page.screenshot(path=options.out / "ui.png")
    print(options.out / "ui.png")


if __name__ == "__main__":
    main()
