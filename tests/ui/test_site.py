"""The site that `make docs` has built, in a real browser. Run by `make test-slow`."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).parents[2] / "docs/_build/html"
WIDTHS = (390, 1400)
RULES = ["color-contrast", "image-alt", "link-name", "button-name", "document-title"]
FONT_SIZE = "p => parseFloat(getComputedStyle(p).fontSize)"
#: The front page, and one of each kind.
PAGES = (
    "index.html",
    "guide/data.html",
    "encodings.html",
    "gallery/index.html",
    "gallery/explain/plot_relevance.html",
    "api/tsformer.TSTransformerClassifier.html",
    "results/index.html",
)
pytestmark = pytest.mark.timeout(900)  # every page is drawn by the processor


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site to this machine on a free port."""
    if not (SITE / "index.html").is_file():
        pytest.fail("the site is not built; run: make docs")
    handler = functools.partial(Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_from_here_fits_and_can_be_read(page: Any, address: str, name: str) -> None:
    """Contrast and text for screen readers are axe-core's job."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    requests: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("response", lambda got: wrong.append(got.url) if got.status >= 400 else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address + name, wait_until="networkidle")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, "scrolls sideways"
        assert page.locator("article p").first.evaluate(FONT_SIZE) >= 14
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.reload(wait_until="networkidle")
        audit = axe.Axe().run(page, options={"runOnly": {"type": "rule", "values": RULES}})
        assert audit.response["passes"], "axe-core looked at nothing"
        assert audit.response["violations"] == [], f"{scheme}: {audit.generate_report()}"
    assert len(requests) > 3
    assert [url for url in requests if not url.startswith((address, "data:"))] == []
    assert wrong == []
