"""A small real comparison, shown by `tsformer ui`, in a real browser. Run by `make test-slow`."""

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import browser

HERE = Path(__file__).parent
WANTED = "TSFORMER_TEST_UI"
ENCODINGS = ("none", "tape+erpe", "learnable+gaussian")
DATASETS = ("ItalyPowerDemand", "ArrowHead")
#: Pictures of a fit that no test looks at; a picture takes longer than a fit.
UNSEEN = ("training.png", "confusion.png", "reliability.png")


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Every conftest is called with the items of the whole session.
    ours = [item for item in items if HERE in item.path.parents]
    why = _why_not() if ours else ""
    for item in ours:
        item.add_marker(pytest.mark.slow)
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


def _why_not() -> str:
    if not os.environ.get(WANTED):
        return "in a browser; `make test-slow` runs them"
    try:
        importlib.import_module("playwright.sync_api")
    except ImportError:
        return 'needs Playwright: pip install "tsformer[ui-test]"'
    return "" if browser.find_chromium() else "needs Chromium: set $CHROMIUM to its path"


@pytest.fixture(scope="session")
def comparison(
    tmp_path_factory: pytest.TempPathFactory, empty_store: Callable[[Path], str]
) -> tuple[str, Any]:
    """The store of three encodings on two data sets with two seeds, and what came of it."""
    from tsformer.studies import Study, compare
    from tsformer.tracking import TrackedRun

    figure = TrackedRun.figure

    def seen(run: TrackedRun, draw: Any, path: str, **options: Any) -> None:
        if path not in UNSEEN:
            figure(run, draw, path, **options)

    folder = tmp_path_factory.mktemp("ui")
    store = empty_store(folder / "mlflow.db")
    small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 3}
    titles = {"title": "sums of encodings", "description": "Do **sums** help?"}
    study = Study(DATASETS, ENCODINGS, seeds=2, parameters=small, **titles)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrackedRun, "figure", seen)
        patch.setattr("tsformer.studies.run.finalize.report_of", lambda *args: None)
        return store, compare(study, out=folder / "out", tracking_uri=store)


@pytest.fixture(scope="session")
def pages(comparison: tuple[str, Any]) -> Iterator[dict[str, str]]:
    """The addresses that `tsformer ui` prints, by title. It runs for the whole session."""
    with browser.running_ui(comparison[0]) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    """A browser, which takes longer to start than to show a page."""
    with browser.open_browser(browser.find_chromium()) as window:
        yield window


@pytest.fixture
def page(window: Any) -> Iterator[Any]:
    """A page that shares nothing with others."""
    page = window.new_page(viewport={"width": 1700, "height": 1300})
    page.set_default_timeout(60_000)
    yield page
    page.close()
