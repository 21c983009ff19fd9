"""What a person sees in MLflow's pages after a study of methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools import browser

pytestmark = pytest.mark.timeout(900)  # every page is drawn by the processor
PATIENCE = 90_000  # milliseconds: the machine may be busy
METHODS = ("small", "majority", "flat-ridge")


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Addresses by what they show, of three methods on two data sets."""
    from tsformer.studies import Study, compare

    folder = tmp_path_factory.mktemp("methods")
    small = {"estimator": "tsformer", "d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1}
    study = Study(
        ("ItalyPowerDemand", "ArrowHead"),
        methods={"small": small, "majority": {}, "flat-ridge": {}},
        seeds=1,
        title="the field",
    )
    store = f"sqlite:///{folder}/mlflow.db"
    compare(study, out=folder / "out", tracking_uri=store)
    with browser.running_ui(store) as found:
        yield found


def cards(page: Any, title: str) -> Any:
    """The charts in which these words stand: as the title, or at an axis."""
    found = page.get_by_test_id("experiment-view-compare-runs-card")
    return found.filter(has=page.get_by_text(title, exact=True))


def test_methods_side_by_side(page: Any, addresses: dict[str, str]) -> None:
    page.set_viewport_size({"width": 1400, "height": 2000})
    page.goto(addresses["methods side by side"])
    chart = cards(page, "method vs. test/accuracy").first
    chart.scroll_into_view_if_needed(timeout=PATIENCE)
    expect(chart.locator(".scatterlayer .point")).to_have_count(3, timeout=PATIENCE)
    assert set(chart.locator(".xtick text").all_text_contents()) == set(METHODS)
    for name in METHODS:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible(timeout=PATIENCE)
    page.get_by_text("Cost", exact=True).first.scroll_into_view_if_needed()
    bars = cards(page, "fit_seconds").locator(".bars .point path")
    expect(bars).to_have_count(3, timeout=PATIENCE)
    page.get_by_test_id("saved-views-trigger").click()
    title = page.get_by_text("Methods side by side: the field", exact=True)
    expect(title.last).to_be_visible(timeout=PATIENCE)
