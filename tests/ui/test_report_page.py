"""The report of a study, opened from a file in a browser without network."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tsformer.studies.report.write import write_report

pytest.importorskip("baycomp", reason='needs the extra "statistics"')


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gains = {"none": 0.0, "rope": 0.1, "erpe": 0.15, "alibi": 0.02}
    rows = [
        (f"d{d}", method, seed, round(0.5 + gain + 0.03 * d + 0.001 * seed * d, 4))
        for d in range(11)
        for method, gain in gains.items()
        for seed in range(2)
    ]
    folder = tmp_path_factory.mktemp("report")
    table = pd.DataFrame(rows, columns=["dataset", "encoding", "seed", "accuracy"])
    table.to_csv(folder / "results.csv", index=False)
    return write_report(folder).html


def column(table: Any, index: int) -> list[str]:
    return list(table.locator(f"tbody td:nth-child({index + 1})").all_inner_texts())


def test_pictures_load_and_tables_sort(page: Any, report: Path) -> None:
    requests: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(report.as_uri())
    widths = page.locator("img").evaluate_all("images => images.map(image => image.naturalWidth)")
    assert len(widths) == 4
    assert min(widths) > 300
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []

    table = page.locator("table").first
    names = [name.strip() for name in table.locator("th").all_inner_texts()]
    index = names.index("mean score")
    scores = [float(text) for text in column(table, index)]
    assert scores == sorted(scores, reverse=True), "methods are by rank"
    button = table.locator("th").nth(index).locator("button")
    button.click()
    assert [float(text) for text in column(table, index)] == sorted(scores)
    button.click()
    assert [float(text) for text in column(table, index)] == sorted(scores, reverse=True)
    assert column(table, 0)[0] == "erpe", "rows move as a whole"
    assert wrong == []


def test_the_verdict_is_on_top_and_the_contents_lead_on(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    verdict = page.locator("h1 + p")
    assert verdict.inner_text().startswith("erpe, rope and alibi beat none on these 11 data sets. ")
    assert verdict.bounding_box()["y"] < 200
    links = page.locator("nav a")
    headings = page.locator("h2, h3")
    assert links.all_inner_texts() == headings.all_inner_texts()
    for number in range(links.count()):
        links.nth(number).click()
        # The last headings cannot scroll to the top of the window, but they are in it.
        assert -1 <= headings.nth(number).bounding_box()["y"] < page.viewport_size["height"]
