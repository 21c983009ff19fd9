"""MLflow's pages after a comparison, in a browser, as version 3.17.2 draws them."""

from typing import Any

import pytest

from tsformer.plots import encoding_color
from tsformer.tracking.views import find_experiment

ENCODINGS = {"none", "tape+erpe", "learnable+gaussian"}
pytestmark = pytest.mark.timeout(900)  # every page is drawn by the processor
PATIENCE = 90_000  # milliseconds: the machine may be busy
WIDTHS = (1400, pytest.param(2000, marks=pytest.mark.exhaustive))
PICTURE = "img[src*='get-artifact']"


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def card(page: Any, title: str) -> Any:
    """The chart of that title."""
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    return cards.filter(has=page.get_by_text(title, exact=True)).first


def dots(page: Any, title: str, count: int) -> Any:
    """The dots of a chart, once there are so many."""
    card(page, title).scroll_into_view_if_needed(timeout=PATIENCE)  # drawn when it is in sight
    points = card(page, title).locator(".scatterlayer .point")
    expect(points).to_have_count(count, timeout=PATIENCE)
    return points


def colors(marks: Any) -> set[str]:
    """The fills of dots, as "rgb(r, g, b)"."""
    return set(marks.evaluate_all("marks => marks.map(mark => getComputedStyle(mark).fill)"))


def rgb(color: str) -> str:
    return "rgb({}, {}, {})".format(*(int(color[i : i + 2], 16) for i in (1, 3, 5)))


OWN_COLORS = {rgb(encoding_color(name)) for name in ENCODINGS}


def ticks(page: Any, title: str, axis: str) -> list[str]:
    return list(card(page, title).locator(f".{axis}tick text").all_text_contents())


def width_of(image: Any) -> int:
    """The natural width of a picture: 0 unless it has loaded."""
    image.scroll_into_view_if_needed()
    image.page.wait_for_function("image => image.complete", arg=image.element_handle())
    return int(image.evaluate("image => image.naturalWidth"))


def grid(page: Any, section: str, count: int) -> Any:
    """The card of the pictures below a heading, once so many have loaded."""
    page.get_by_text(section).first.scroll_into_view_if_needed()
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    pictured = cards.filter(has=page.locator("img[src*='get-artifact']"))
    pictures = pictured.first if section.startswith("Each") else pictured.last
    expect(pictures.locator(PICTURE)).to_have_count(count, timeout=PATIENCE)
    return pictures


@pytest.fixture(scope="module")
def server(pages: dict[str, str]) -> str:
    return pages["All fits"].partition("/#/")[0]


@pytest.fixture(scope="module")
def store(comparison: tuple[str, Any]) -> Any:
    return find_experiment(comparison[0])


@pytest.mark.parametrize("width", WIDTHS)
def test_encodings_side_by_side(page: Any, pages: dict[str, str], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 2000})
    page.goto(pages["Encodings side by side: sums of encodings"])
    for metric in ("test/accuracy", "test/mean_rank", "test/accuracy_spread"):
        marks = dots(page, f"encoding vs. {metric}", 3)
        assert colors(marks) == OWN_COLORS
    for name in ENCODINGS:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible(timeout=PATIENCE)
    assert set(ticks(page, "encoding vs. test/accuracy", "x")) == ENCODINGS
    page.get_by_text("Cost", exact=True).first.scroll_into_view_if_needed()
    bars = card(page, "seconds_per_epoch").locator(".bars .point path")
    expect(bars).to_have_count(3, timeout=PATIENCE)
    assert colors(bars) == OWN_COLORS


def test_accuracy_by_data_set_with_error_bars(page: Any, pages: dict[str, str]) -> None:
    page.set_viewport_size({"width": 1400, "height": 6000})  # MLflow draws what is in sight
    page.goto(pages["Encodings side by side: sums of encodings"])
    whole = grid(page, "Each data set: mean and spread over seeds", 1).locator(PICTURE)
    assert width_of(whole) > 700, "the figure of the study, in which words can be read"
    for dataset in ("ItalyPowerDemand", "ArrowHead"):
        assert colors(dots(page, f"encoding vs. test/accuracy/{dataset}", 3)) == OWN_COLORS


def test_all_fits_have_dots_lines_and_pictures(page: Any, pages: dict[str, str]) -> None:
    page.set_viewport_size({"width": 1700, "height": 6000})
    page.goto(pages["All fits"])
    marks = dots(page, "dataset vs. test/accuracy", 12)
    assert colors(marks) == OWN_COLORS
    assert set(ticks(page, "dataset vs. test/accuracy", "x")) == {"ItalyPowerDemand", "ArrowHead"}
    expect(page.get_by_text("Everything else").first).to_be_attached(timeout=PATIENCE)
    for made_by_mlflow in ("Model metrics", "test", "fits"):
        expect(page.get_by_text(made_by_mlflow, exact=True)).to_have_count(0)
    lines = card(page, "train/loss").locator(".scatterlayer .trace")
    expect(lines.first).to_be_attached(timeout=PATIENCE)
    parallel = card(page, "Parallel Coordinates")
    expect(parallel.get_by_text("dataset", exact=True).first).to_be_visible(timeout=PATIENCE)
    # MLflow shows ten runs in a grid.
    pictured = grid(page, "The encodings, before and after training", 10)
    assert all(width_of(picture) > 300 for picture in pictured.locator(PICTURE).all())
    expect(page.get_by_text("12 matching runs")).to_be_visible(timeout=PATIENCE)
    page.get_by_test_id("saved-views-trigger").click()
    for title in ("Encodings side by side: sums of encodings", "All fits"):
        expect(page.get_by_text(title, exact=True).last).to_be_visible(timeout=PATIENCE)


def test_a_run_has_its_command_and_a_link_to_the_study(page: Any, server: str, store: Any) -> None:
    fit = store.runs("FINISHED", {"tsformer.kind": "fit"})[0]
    page.goto(f"{server}/{store.page_of(fit.info.run_id)}")
    source = page.get_by_text(fit.data.tags["mlflow.source.name"], exact=True)
    expect(source.first).to_be_visible(timeout=PATIENCE)
    parent = page.get_by_role("link", name="sums of encodings", exact=True)
    expect(parent.first).to_be_visible(timeout=PATIENCE)
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="this study", exact=True).click()
    heading = opened.value.get_by_role("heading", name="sums of encodings")
    expect(heading).to_be_visible(timeout=PATIENCE)
    expect(opened.value.locator("strong", has_text="sums")).to_be_visible(timeout=PATIENCE)
    expect(opened.value.get_by_text("12 fits.")).to_be_visible(timeout=PATIENCE)
    with page.context.expect_page() as view:
        opened.value.get_by_role("link", name="Encodings side by side", exact=True).click()
    dots(view.value, "encoding vs. test/accuracy", 3)
