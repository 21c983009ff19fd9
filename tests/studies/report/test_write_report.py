"""The report of a study: a page that stands alone, says what is there, and claims no more."""

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from picture_checks import panels

from tsformer.studies.analysis.study_scores import read_study
from tsformer.studies.report.content import learning_curves
from tsformer.studies.report.render import code, codes, escaped, html
from tsformer.studies.report.write import ReportFiles, write_report

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
        for stem, seed, name in itertools.product(GAINS, (0, 1), DATASETS)
        for method, gain in GAINS[stem].items()
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


def study_in(folder: Path, rows: pd.DataFrame, **design: Any) -> Path:
    folder.mkdir(exist_ok=True)
    rows.to_csv(folder / "results.csv", index=False)
    (folder / "study.json").write_text(json.dumps(DESIGN | design))
    return folder


def written(study: Path, **options: Any) -> tuple[ReportFiles, str]:
    """Write a report, in which figures take most of the time; return its Markdown, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsformer.studies.report.write.as_png", lambda figure: b"")
        files = write_report(study, **options)
    return files, files.markdown.read_text(encoding="utf-8")


class Page(HTMLParser):
    """What a browser would load, and the tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [v or "" for name, v in attrs if name in ("src", "href", "srcset", "data")]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = study_in(tmp_path_factory.mktemp("report") / "a <study>", results())
    return written(folder, command="tsformer report 'a <study>\udce9'")[0]


def test_the_same_scores_give_the_same_bytes(files, tmp_path):
    study, outs = files.html.parents[1], (tmp_path / "first", tmp_path / "again")
    first, again = (written(study, out=out)[0].html.read_bytes() for out in outs)
    assert first == again


def test_the_page_loads_nothing_and_its_places_are_linked(files):
    text = files.html.read_text()
    page = Page(text)
    assert page.tags.count("img") == len(files.figures) == 8
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in page.loaded)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    assert not {"link", "iframe", "object", "study"} & set(page.tags)
    assert ">Which encoding helps: a &lt;study&gt;</h1>" in text
    places = re.findall(r'<h[23] id="(.*?)">', text)
    assert len(set(places)) == len(places)
    assert re.findall(r'<a href="#(.*?)">', text) == places, "the contents"
    page = files.markdown.read_text()
    assert page.startswith("# Which encoding helps: a \\<study\\>\n")
    order = ("(comparison.png)", "(mean_gains.png)", "## The comparison")
    assert sorted(order, key=page.index) == list(order)


def test_a_name_cannot_leave_its_place():
    assert codes(["a", "b`c", "x|y"]) == "`a`, b\\`c and x\\|y"
    assert code("two\nlines") == "`two lines`"
    assert escaped("[x](y) <b>") == "\\[x\\](y) \\<b\\>"
    page = Page(html(f"# {escaped('<b>[x](http://y)')}\n\n{code('<i>')}\n", {}))
    assert not {"b", "i", "a"} & set(page.tags)


def test_variants_are_apart_and_nothing_is_claimed_of_noise(files):
    text = files.markdown.read_text()
    first, second = text.splitlines()[2:4]
    assert first.startswith("- stem=linear: `rope` beats `none`")
    assert second.startswith("- stem=conv: No encoding beats `none`")
    assert "All 120 fits" in text
    assert "tsformer compare --study study.json\ntsformer report 'a <study>?'\n" in text
    assert '"parameters": {"d_model": 32}' in text
    assert "tsformer 0.1.0" in text
    linear, conv = text.split("## Results, stem=linear")[1].split("## Results, stem=conv")
    assert re.search(r"Better than `none`: `rope` \(\+0\.\d+, p=\.\d+\)\.", linear)
    assert re.search(r"equivalent to `none`: (`rope` and `alibi`|`alibi` and `rope`)\.", conv)


def test_methods_have_gains_over_the_transformer_costs_and_skipped_fits(tmp_path):
    """One of them failed on one data set and cannot read two others."""
    names, datasets = ["tsformer", "rocket", "forest"], DATASETS[:5]
    rows = pd.DataFrame([(d, m) for d in datasets for m in names], columns=["dataset", "method"])
    index = rows["method"].map(names.index)
    rows = rows.assign(seed=0, helped="", accuracy=0.7 + 0.01 * index, fit_seconds=1.0 + index)
    rows = rows.assign(peak_memory_mb=1234.5 - index, predict_memory_mb=2345.6 + 500 * index)
    missing = rows["dataset"].isin(datasets[2:]) & (rows["method"] == "forest")
    methods: dict[str, Any] = {name: {} for name in names}
    design = {"encodings": [], "methods": methods, "seeds": [0], "vary": {}}
    design["leave_out"] = {name: DATASETS[5:6] for name in names}
    study_in(tmp_path, rows[~missing], datasets=DATASETS[:6], **design)
    errors = ["UnreadableSeries: it reads one channel"] * 2 + ["ArithmeticError: no such luck"]
    failures = rows.loc[missing, ["dataset", "method", "seed"]].assign(error=errors)
    failures.to_csv(tmp_path / "failures.csv", index=False)
    _, text = written(tmp_path)
    assert re.search(r"^\| `rocket` \| 2\.00 \| 0\.710 \| \+0\.010 \| 2/0/0 \|", text, flags=re.M)
    assert "12 of 15 fits are available, 1 failed, 2 skipped." in text
    assert f"`rocket` on {DATASETS[5]}" in text
    assert f"forest on {DATASETS[2]}: it reads one channel" in text
    cost = text.split("## Cost\n")[-1].split("\n#")[0]
    assert "| `rocket` | 0.710 | 2.00 | 2.00 | yes | 2,846 |" in cost, "memory of fitting is noise"
    assert cost.count("on Pareto front") == 1


def test_one_data_set_has_means_but_no_test(tmp_path):
    fits = itertools.product(("ridge", "tree"), range(3))
    rows = pd.DataFrame(fits, columns=["method", "resample"]).assign(dataset="own-1", seed=0)
    rows["accuracy"] = [0.9, 0.8, 0.7, 0.6, 0.8, 0.7]
    rows.to_csv(tmp_path / "results.csv", index=False)
    files, text = written(tmp_path / "results.csv")
    assert files.figures == ()
    assert "| own-1 | – | – | 0.800 ± 0.100 | 0.700 ± 0.100 |" in text
    assert not re.search("Friedman|significant", text)


@pytest.mark.slow
def test_a_table_of_others_is_reported_without_a_word_on_how_it_came_about(tmp_path):
    """Single published scores join those of several seeds."""
    theirs = results("linear")[["dataset", "encoding", "seed", "accuracy"]]
    theirs = theirs.rename(columns={"encoding": "method", "accuracy": "score"})
    theirs = theirs.replace({"method": {"none": "ROCKET <b>"}})
    single = pd.DataFrame({"dataset": DATASETS, "method": "HC2", "seed": 0, "score": 0.9})
    scores = tmp_path / "scores.csv"
    pd.concat([theirs, single.assign(source="a paper")]).to_csv(scores, index=False)
    files, text = written(scores, baseline="ROCKET <b>")
    assert "b" not in Page(files.html.read_text()).tags
    assert "used the training split only" not in text
    assert re.search(r"^\| GunPoint .* 0\.900 \|", text, flags=re.M), "without a spread"
    assert "Better than `ROCKET <b>`" in text
    assert re.search(r"^\| `HC2` \| 1\.00 \| 0\.900 \| \+0\.2\d\d \[", text, flags=re.M)


def test_each_train_size_is_a_variant_and_has_its_curves(tmp_path):
    """A point of a curve is over the draws of every method; one lacks a seed."""
    rows = results("linear", sizes={"20%": 8, "100%": 40})
    rows = rows[rows["dataset"].eq("CBF") & (rows["encoding"].eq("none") | rows["seed"].eq(0))]
    design = {"encodings": ["none", "rope"], "vary": {}, "train_sizes": ["20%", "100%"]}
    study = study_in(tmp_path, rows, **design, datasets=["CBF"])
    files, text = written(study)
    assert "2 variants (train\\_size=20%; train\\_size=100%)" in text
    assert "6 of 8 fits" in text
    subset, whole = text.split("### Data sets")[1:]
    assert re.search(r"^\| CBF \| 128 \| 8 \|", subset, flags=re.M), "trained on 8 series"
    assert re.search(r"^\| CBF \| 128 \| 40 \|", whole, flags=re.M)
    assert "learning_curves" in {path.stem for path in files.figures}
    none, *_ = panels(learning_curves(read_study(study))["learning_curves"])[0].get_lines()
    drawn = rows[rows["encoding"].eq("none") & rows["seed"].eq(0)].sort_values("n_train")
    np.testing.assert_allclose(none.get_ydata(), drawn["accuracy"])
