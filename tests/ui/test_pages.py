"""What a person sees in MLflow's pages after a comparison."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tsformer.plots import encoding_color
from tsformer.tracking.server import find_experiment

ENCODINGS = {"none", "fixed", "lspe", "tape+erpe"}
PATIENCE = 60_000  # milliseconds: the machine may be busy


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def card(page: Any, title: str) -> Any:
    """The chart of that title."""
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    return cards.filter(has=page.get_by_text(title, exact=True)).first


def colors(bars: Any) -> list[str]:
    """The fill of each bar, as "rgb(r, g, b)"."""
    fills: list[str] = bars.locator("path").evaluate_all(
        "paths => paths.map(path => getComputedStyle(path).fill)"
    )
    return fills


def rgb(color: str) -> str:
    return "rgb({}, {}, {})".format(*(int(color[i : i + 2], 16) for i in (1, 3, 5)))


def width_of(image: Any) -> int:
    """The natural width of a picture: 0 unless it has loaded."""
    image.scroll_into_view_if_needed()
    image.page.wait_for_function("image => image.complete", arg=image.element_handle())
    width: int = image.evaluate("image => image.naturalWidth")
    return width


def widths_of_grid(page: Any, count: int) -> list[int]:
    """The natural widths of so many pictures in the grid, which loads when it is in sight."""
    section = page.get_by_text("The encodings, before and after training").first
    section.scroll_into_view_if_needed()
    images = page.locator("img[src*='get-artifact']")
    expect(images).to_have_count(count, timeout=PATIENCE)
    return [width_of(image) for image in images.all()]


def test_encodings_side_by_side(page: Any, pages: dict[str, str]) -> None:
    page.goto(pages["encodings side by side"])
    for metric in ("test/accuracy", "test/accuracy_spread", "test/mean_rank"):
        expect(card(page, metric).locator(".bars .point")).to_have_count(4, timeout=PATIENCE)
    bars = card(page, "test/accuracy").locator(".bars .point")
    assert set(colors(bars)) == {rgb(encoding_color(name)) for name in ENCODINGS}
    for name in ENCODINGS:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible(timeout=PATIENCE)
    assert all(width > 100 for width in widths_of_grid(page, 4))


def test_fits_grouped_have_a_bar_for_each_encoding(page: Any, pages: dict[str, str]) -> None:
    page.goto(pages["fits by encoding"])
    expect(card(page, "test/accuracy").locator(".bars .point")).to_have_count(4, timeout=PATIENCE)
    expect(card(page, "train/loss").locator(".scatterlayer .trace").first).to_be_attached(
        timeout=PATIENCE
    )
    for name in ENCODINGS:  # the legend, in full
        legend = card(page, "test/accuracy").get_by_text(name, exact=True)
        expect(legend.first).to_be_visible(timeout=PATIENCE)


def test_all_fits_have_lines_and_pictures(page: Any, pages: dict[str, str]) -> None:
    page.goto(pages["all fits"])
    parallel = card(page, "Parallel Coordinates")
    expect(parallel.get_by_text("dataset", exact=True).first).to_be_visible(timeout=PATIENCE)
    assert all(width > 100 for width in widths_of_grid(page, 8))
    expect(page.get_by_text("8 matching runs")).to_be_visible(timeout=PATIENCE)


def test_the_menu_names_the_views(page: Any, pages: dict[str, str]) -> None:
    page.goto(pages["encodings side by side"])
    page.get_by_test_id("saved-views-trigger").click()
    for title in ("Encodings side by side", "Fits grouped by encoding", "All fits"):
        expect(page.get_by_text(title, exact=True).last).to_be_visible(timeout=PATIENCE)


def test_the_picture_of_a_study_loads(
    page: Any, pages: dict[str, str], comparison: tuple[str, Any]
) -> None:
    store = find_experiment(comparison[0])
    (study,) = store.runs("FINISHED", {"tsformer.kind": "study"})
    server = pages["all fits"].partition("/#/")[0]
    run = f"{server}/#/experiments/{store.experiment_id}/runs/{study.info.run_id}"
    for picture in ("comparison.png", "boxes.png"):
        page.goto(f"{run}/artifacts/{picture}")
        image = page.locator("img[src*='get-artifact'], img[src^='blob:'], .image-container img")
        expect(image.first).to_be_visible(timeout=PATIENCE)
        assert width_of(image.first) > 400


def test_runs_can_be_compared(
    page: Any, pages: dict[str, str], comparison: tuple[str, Any]
) -> None:
    results = comparison[1].results
    runs = list(results[results.seed == 0].run_id)
    server = pages["all fits"].partition("/#/")[0]
    experiment = find_experiment(comparison[0]).experiment_id
    query = f"runs={quote(json.dumps(runs))}&experiments={quote(json.dumps([experiment]))}"
    page.goto(f"{server}/#/compare-runs?{query}")
    expect(page.get_by_text("Comparing 4 Runs from 1 Experiment").first).to_be_visible(
        timeout=PATIENCE
    )
    expect(page.get_by_text("tape+erpe", exact=True).first).to_be_attached(timeout=PATIENCE)
