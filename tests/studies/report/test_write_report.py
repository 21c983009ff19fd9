"""The report of a study: a page that stands alone, says what is there, and claims no more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tsformer.studies.analysis.scores import read_study
from tsformer.studies.report import content
from tsformer.studies.report.render import code, codes, escaped, html
from tsformer.studies.report.write import write_report

DATASETS = ["SmoothSubspace", "Chinatown", "ECG200", "GunPoint", "Coffee", "ShapeletSim", "CBF"]
DATASETS += ["UMD", "NATOPS", "ArrowHead"]
#: Of every data set: rope gains much with the linear stem, and next to nothing with conv.
GAINS = {"linear": {"none": 0.0, "rope": 0.1, "alibi": 0.0}, "conv": {"none": 0.0, "rope": 0.001}}
GAINS["conv"]["alibi"] = 0.0
DESIGN = {
    "datasets": DATASETS,
    "encodings": ["none", "rope", "alibi"],
    "seeds": [0, 1],
    "resamples": 1,
    "parameters": {"d_model": 32},
    "vary": {"stem": ["linear", "conv"]},
}


def results(only: str = "", *, sizes: dict[str, int] | None = None) -> pd.DataFrame:
    """Return every fit, or those of `none` and `rope` with one stem, of each train size."""
    rng = np.random.default_rng(0)
    rows = [
        (name, method, stem, seed, 0.7 + gain + 0.002 * rng.normal(), 1.0 + 10 * gain, 100, "0.1.0")
        for stem, gains in GAINS.items()
        for seed in (0, 1)
        for name in DATASETS
        for method, gain in gains.items()
    ]
    columns = ["dataset", "encoding", "stem", "seed", "accuracy", "fit_seconds", "n_parameters"]
    table = pd.DataFrame(rows, columns=[*columns, "version"])
    if only:
        table = table[(table["stem"] == only) & (table["encoding"] != "alibi")]
    if sizes is None:
        return table
    table = table.drop(columns="stem")
    return pd.concat(
        table.assign(train_size=size, n_train=n, accuracy=table["accuracy"] - 1 / n)
        for size, n in sizes.items()
    )


def folder_of(tmp_path: Path, rows: pd.DataFrame, **design: Any) -> Path:
    folder = tmp_path / "a <study>"
    folder.mkdir()
    rows.to_csv(folder / "results.csv", index=False)
    (folder / "study.json").write_text(json.dumps({**DESIGN, **design}))
    return folder


class Page(HTMLParser):
    """What a browser would load, and the text it would show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.images = 0
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.images += tag == "img"
        self.loaded += [v or "" for name, v in attrs if name in ("src", "href", "srcset", "data")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@contextmanager
def without_pictures() -> Iterator[None]:
    """Render no figure, which takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsformer.studies.report.write._png", lambda figure: b"")
        yield


@pytest.fixture
def no_pictures():
    with without_pictures():
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = folder_of(tmp_path_factory.mktemp("report"), results())
    return write_report(folder, command="tsformer report 'a <study>'")


def test_the_page_loads_nothing(files):
    text = files.html.read_text()
    page = Page(text)
    assert page.images == len(files.figures) == 9
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in page.loaded)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    assert not {"link", "iframe", "object", "study"} & set(page.tags)
    assert "<h1>Which encoding helps: a &lt;study&gt;</h1>" in text
    assert files.markdown.read_text().startswith("# Which encoding helps: a \\<study\\>\n")


def test_both_say_the_same_and_the_figures_are_there(files):
    said, page = files.markdown.read_text(), Page(files.html.read_text()).text
    shown = re.findall(r"^!\[.*\]\((.*)\)$", said, flags=re.M)
    assert [files.markdown.parent / name for name in shown] == list(files.figures)
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in files.figures)
    words = page.replace(" ", "")
    for line in said.splitlines():
        if line.startswith("- "):
            assert re.sub(r"\\(.)|[` ]", r"\1", line[2:]) in words


def test_every_heading_has_a_place_of_its_own_in_the_contents(files):
    page = files.html.read_text()
    places = re.findall(r'<h[23] id="(.*?)">', page)
    assert len(set(places)) == len(places)
    assert {"results-stemlinear", "methods", "methods-1", "against-none"} <= set(places)
    assert re.findall(r'<a href="#(.*?)">', page) == places


def test_a_name_cannot_leave_its_place():
    assert codes(["a", "b`c", "x|y"]) == "`a`, b\\`c and x\\|y"
    assert code("two\nlines") == "`two lines`"
    assert escaped("[x](y) <b>") == "\\[x\\](y) \\<b\\>"
    page = Page(html(f"# {escaped('<b>[x](http://y)')}\n\n{code('<i>')}\n", {}))
    assert not {"b", "i", "a"} & set(page.tags)


def test_variants_are_apart_and_nothing_is_claimed_of_noise(files):
    said = files.markdown.read_text()
    first, second = said.splitlines()[2:4]
    assert first.startswith("- stem=linear: `rope` beats `none` on these 10 data sets. ")
    assert second.startswith("- stem=conv: No encoding beats `none` on these 10 data sets. ")
    assert "<code>rope</code> beats <code>none</code> on" in files.html.read_text()
    assert "All 120 fits are available." in said
    assert "tsformer compare --study study.json\ntsformer report 'a <study>'\n" in said
    assert '"parameters": {"d_model": 32}' in said
    assert "made by tsformer 0.1.0." in said
    linear, conv = said.split("## Results, stem=linear")[1].split("## Results, stem=conv")
    assert re.search(r"Better than `none`: `rope` \(\+0\.\d+, p=\.\d+\)\.", linear)
    assert "No encoding differs significantly from `none`." in conv
    assert re.search(r"equivalent to `none`: (`rope` and `alibi`|`alibi` and `rope`)\.", conv)


@pytest.mark.slow
def test_the_same_scores_give_the_same_bytes(files, tmp_path):
    again = write_report(files.html.parents[1], tmp_path, command="tsformer report 'a <study>'")
    assert again.html.read_bytes() == files.html.read_bytes()
    assert again.markdown.read_bytes() == files.markdown.read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_an_unfinished_study_uses_what_is_paired(tmp_path):
    rows = results()
    rows = rows[rows["stem"] == "linear"]
    gone = (rows["dataset"] == "UMD") & (rows["encoding"] == "rope")
    gone |= (rows["dataset"] == "CBF") & (rows["encoding"] == "rope") & (rows["seed"] == 1)
    said = write_report(folder_of(tmp_path, rows[~gone])).markdown.read_text()
    assert "57 of 120 fits are available: this study is not finished." in said
    assert "Compared over 9 data sets, using the 51 of 57 fits" in said
    assert "left out, because some method has no score: UMD." in said
    assert re.search(r"^\| UMD \|.* – \|", said, flags=re.M), "shown, though not compared"


def test_of_a_beginning_there_is_no_statistic(tmp_path):
    rows = results()
    rows = rows[(rows["dataset"] == "CBF") & (rows["stem"] == "conv")]
    files = write_report(folder_of(tmp_path, rows[rows["encoding"] == "rope"]))
    assert files.figures == ()
    said = files.markdown.read_text()
    assert "No conclusion yet: " in said
    assert "Not enough scores to compare" in said
    assert "| CBF |" in said
    assert "Friedman" not in said


METHODS = ("tsformer", "rocket", "forest")


@pytest.fixture(scope="module")
def of_methods(tmp_path_factory):
    """The report of methods, one of which failed on one data set and cannot read two others."""
    folder = tmp_path_factory.mktemp("methods")
    datasets = DATASETS[:5]
    pairs = [(dataset, method) for dataset in datasets for method in METHODS]
    rows = pd.DataFrame(pairs, columns=["dataset", "method"]).assign(seed=0, helped="")
    place = rows["method"].map(METHODS.index)
    rows = rows.assign(accuracy=0.7 + 0.01 * place, fit_seconds=1.0 + place)
    rows = rows.assign(peak_memory_mb=1234.5 - place, predict_memory_mb=2345.6 + place)
    missing = rows["dataset"].isin(datasets[2:]) & (rows["method"] == "forest")
    rows[~missing].to_csv(folder / "results.csv", index=False)
    errors = ["UnreadableSeries: it reads one channel"] * 2 + ["ArithmeticError: no such luck"]
    failures = rows.loc[missing, ["dataset", "method", "seed"]].assign(error=errors)
    failures.to_csv(folder / "failures.csv", index=False)
    methods: dict[str, Any] = {name: {} for name in METHODS}
    design = {"datasets": datasets, "encodings": [], "methods": methods, "seeds": [0]}
    (folder / "study.json").write_text(json.dumps(design))
    with without_pictures():
        return write_report(folder).markdown.read_text(encoding="utf-8")


def test_methods_have_gains_over_the_transformer_costs_and_skipped_fits(of_methods):
    assert "Gains are relative to `tsformer`." in of_methods
    assert "\n## Gains\n" in of_methods
    assert "\n## Against `tsformer`\n" in of_methods
    assert re.search(r"^\| `rocket` \| 2\.00 \| 0\.710 \| \+0\.010 \|", of_methods, flags=re.M)
    assert "12 of 15 fits are available, 1 failed, 2 skipped." in of_methods
    assert f"Skipped: forest on {DATASETS[2]}: it reads one channel." in of_methods
    cost = of_methods.split("## Cost\n")[-1].split("\n#")[0]
    assert "| peak memory of fitting (MB) | peak memory of predicting (MB) |" in cost
    assert "| `rocket` | 0.710 | 2.00 | 2.00 | yes | 1,234 | 2,347 |" in cost
    assert cost.count("on Pareto front") == 1
    assert cost.count("Memory has no front: it is the whole process's") == 1


def test_one_data_set_has_means_costs_and_paired_differences_but_no_test(tmp_path):
    fits = [(method, resample) for method in ("ridge", "tree", "vote") for resample in range(3)]
    rows = pd.DataFrame(fits, columns=["method", "resample"]).assign(dataset="own-1", seed=0)
    rows["accuracy"] = [0.9, 0.8, 0.7, 0.6, 0.8, 0.7, 0.1, 0.2, 0.3]
    rows["fit_seconds"] = [1, 2, 9, 3, 3, 3, 0, 0, 0]
    rows["peak_memory_mb"] = 1234.5
    rows["predict_memory_mb"] = 2345.4
    rows.to_csv(tmp_path / "results.csv", index=False)
    files = write_report(tmp_path / "results.csv")
    assert files.figures == ()
    said = files.markdown.read_text()
    assert "On own-1, `ridge` has the highest mean score, 0.800; `tree` is next, 0.700." in said
    assert "- `ridge` is 0.100 ahead of `tree`: higher in 1 of 3 paired fits, equal in 2." in said
    assert "- `ridge` is 0.600 ahead of `vote`: higher in 3 of 3 paired fits, equal in 0." in said
    assert "Splits of one data set share series: these differences are not independent" in said
    assert "| `ridge` | 0.800 ± 0.100 | 3 | 2.00 | 1,234 | 2,345 |" in said
    assert said.index("| `ridge` |") < said.index("| `tree` |") < said.index("| `vote` |")
    assert "Mean score over seeds and splits" in said
    assert "Friedman" not in said
    assert "significant" not in said


def test_on_one_data_set_what_is_not_compared_is_named(tmp_path):
    rows = results("linear")
    rows = rows[rows["dataset"].isin(DATASETS[:3])]
    rows = rows[(rows["encoding"] == "none") | (rows["dataset"] == DATASETS[0])]
    said = write_report(folder_of(tmp_path, rows)).markdown.read_text()
    assert f"On {DATASETS[0]}, `rope` has the highest mean score" in said
    lacks = "paired differences on one data set, without a test; left out, because"
    assert f"{lacks} some method has no score: {DATASETS[1]}, {DATASETS[2]}." in said
    assert "Not compared, because no fit is available: `alibi`." in said


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_table_of_others_is_reported_without_a_word_on_how_it_came_about(tmp_path):
    theirs = results().query("stem == 'linear'")[["dataset", "encoding", "seed", "accuracy"]]
    theirs = theirs.rename(columns={"encoding": "method", "accuracy": "score"})
    theirs["method"] = theirs["method"].replace("none", "ROCKET <b>")
    theirs.to_csv(tmp_path / "scores.csv", index=False)
    files = write_report(tmp_path / "scores.csv", tmp_path / "page")
    said = files.markdown.read_text()
    assert "The file does not say how these scores were obtained" in said
    assert "used the training split only" not in said
    assert "Gains" not in said
    assert "ROCKET &lt;b&gt;" in files.html.read_text()
    assert "b" not in Page(files.html.read_text()).tags
    gains = write_report(tmp_path / "scores.csv", tmp_path / "page", baseline="ROCKET <b>")
    assert "Better than `ROCKET <b>`" in gains.markdown.read_text()
    with pytest.raises(ValueError, match="unknown method 'ROKET'"):
        write_report(tmp_path / "scores.csv", baseline="ROKET")


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_the_command(tmp_path, run):
    pytest.importorskip("typer", reason='needs the extra "cli"')
    rows = results()
    folder = folder_of(tmp_path, rows[rows["stem"] == "conv"])
    others = tmp_path / "others.csv"
    PUBLISHED.to_csv(others, index=False)
    flags = ["--out", str(tmp_path / "page"), "--rope", "0.02", "--published", str(others)]
    printed, _ = run("report", folder, *flags)
    assert f"page      {tmp_path}/page/report.html" in printed
    said = (tmp_path / "page" / "report.md").read_text()
    assert "beside 2 published methods." in said
    assert "`HC2 (published)`: HC2/results.csv." in said


PUBLISHED = pd.DataFrame(
    [
        (name, method, "default split", 0.75 + 0.01 * place, f"{method}/results.csv")
        for method, names in {"HC2": DATASETS, "MR-Hydra": DATASETS[:6]}.items()
        for place, name in enumerate(names)
    ],
    columns=["dataset", "method", "protocol", "accuracy", "source"],
)


@pytest.fixture(scope="module")
def beside_published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    results("linear").drop(columns="stem").to_csv(folder / "results.csv", index=False)
    PUBLISHED.to_csv(folder / "others.csv", index=False)
    with without_pictures():
        files = write_report(folder, folder / "report", published=folder / "others.csv")
    return files.markdown.read_text(encoding="utf-8")


def test_what_published_methods_lack_is_said(beside_published):
    for name in ("HC2", "MR-Hydra"):
        named = re.findall(rf"{name}(.{{0,12}})", beside_published)
        assert len(named) > 3
        assert all(after.startswith((" (published)", "/results.csv")) for after in named)
    assert "2 methods, 10 data sets, 2 seeds, beside 2 published methods." in beside_published
    assert "without seeds, seconds or probabilities." in beside_published
    assert "A published score is a single figure." in beside_published
    assert (
        "Not ranked, for lack of some compared data sets: MR-Hydra (published)." in beside_published
    )
    cost = beside_published.split("## Cost\n")[-1]
    row = r"^\| `HC2 \(published\)` \| 0\.795 \| 1\.\d\d \| – \| – \| – \| – \|$"
    assert re.search(row, cost, flags=re.M), "neither cost is known, and it is on no front"
    assert "Published methods have no cost here." in (beside_published)
    assert "`MR-Hydra (published)`: MR-Hydra/results.csv." in beside_published
    assert "may come from implementation, version, tuning" in beside_published


def test_measured_methods_are_set_beside_each_published_one(beside_published):
    beside = beside_published.split("Published results\n")[-1]
    (row,) = re.findall(r"^\| `MR-Hydra \(published\)` \| 6 \| 0\.775 \|.*$", beside, flags=re.M)
    assert re.search(r"\| -0\.07\d \(0/0/6\) \|", row), "none minus it"
    assert re.search(r"\| \+0\.02\d \(6/0/0\) \|", row), "rope minus it"
    datasets = beside.split("### Data sets")[-1].split("## Data sets")[-1]
    (row,) = re.findall(r"^\| ArrowHead .*$", datasets, flags=re.M)
    assert "| 0.840 |" in row
    assert row.endswith("| – |"), "MR-Hydra has no score there"


SIZES = {"20%": 8, "100%": 40}
SIZED = {"encodings": ["none", "rope"], "vary": {}, "train_sizes": list(SIZES)}


@pytest.fixture(scope="module")
def with_sizes(tmp_path_factory):
    """A study of two train sizes, of which one method lacks a seed, beside published results."""
    rows = results("linear", sizes=SIZES)
    rows = rows[rows["dataset"].isin(DATASETS[3:8])]  # fewer pictures
    rows = rows[(rows["encoding"] == "none") | (rows["seed"] == 0)]
    folder = folder_of(tmp_path_factory.mktemp("sizes"), rows, **SIZED, datasets=DATASETS[3:8])
    PUBLISHED.to_csv(folder / "others.csv", index=False)
    write_report(folder, folder / "report", published=folder / "others.csv")
    return folder


@pytest.mark.slow
def test_each_train_size_is_a_variant_and_has_its_curves(with_sizes, monkeypatch):
    said = (with_sizes / "report" / "report.md").read_text(encoding="utf-8")
    assert "2 variants (train\\_size=20%; train\\_size=100%)" in said
    assert "30 of 40 fits are available: this study is not finished." in said
    assert "A train size is a stratified subset of the train split" in said
    part, whole = said.split("### Data sets")[1:]
    assert re.search(r"^\| GunPoint \| 150 \| 8 \|", part, flags=re.M), "trained on 8 series"
    assert re.search(r"^\| GunPoint \| 150 \| 40 \|", whole, flags=re.M)
    for name in ("learning_curves", "learning_curves_mean"):
        assert f"({name}.png)" in said
        assert (with_sizes / "report" / f"{name}.png").stat().st_size > 5_000
    assert "5 data sets cannot show a difference: the smallest possible p is 0.0625" in said
    assert "appear beside fits of train size 100% only" in said
    part, whole = said.split("## Results, ")[1:]
    assert part.startswith("train\\_size=20%")
    assert "published" not in part.lower()
    assert "HC2 (published)" in whole

    drawn = curves_of(with_sizes, monkeypatch)
    assert len(drawn) == 2
    for rows in drawn:
        assert set(rows["seed"]) == {0}, "a point is over the draws of every method"
        assert len(rows) == 5 * 2 * len(SIZES)


def curves_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[pd.DataFrame]:
    """Return what the learning curves of a study are drawn from."""
    drawn: list[pd.DataFrame] = []
    draw = lambda rows, **_: drawn.append(rows) or Figure()  # noqa: E731
    monkeypatch.setattr(content, "plot_learning_curves", draw)
    content.learning_curves(read_study(folder))
    return drawn


def test_a_method_that_was_left_out_takes_no_panel_from_the_others(tmp_path, monkeypatch):
    rows = results("linear", sizes=SIZES)
    rows = rows[(rows["encoding"] == "none") | (rows["dataset"] != "CBF")]
    drawn = curves_of(folder_of(tmp_path, rows, **SIZED), monkeypatch)[-1]
    alone = drawn[drawn["dataset"] == "CBF"]
    assert set(alone["method"]) == {"none"}
    assert set(alone["train_size"]) == set(SIZES)
