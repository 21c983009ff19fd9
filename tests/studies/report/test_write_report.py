"""The report of a study: a page that stands alone, says what is there, and claims no more."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_scores import results as results_of

pytest.importorskip("baycomp", reason='needs the extra "statistics"')
pytest.importorskip("scikit_posthocs", reason='needs the extra "statistics"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

from matplotlib.figure import Figure

from tsformer.studies.analysis.analyse import Findings, analyse
from tsformer.studies.analysis.scores import read_study
from tsformer.studies.analysis.statistics import Statistics, compare_methods
from tsformer.studies.report import sections
from tsformer.studies.report.text import outcome, verdict
from tsformer.studies.report.write import compare_command, write_report

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


def results() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (name, method, stem, seed, 0.7 + gain + 0.002 * rng.normal(), 1.0 + 10 * gain, 100, "0.1.0")
        for stem, gains in GAINS.items()
        for seed in (0, 1)
        for name in DATASETS
        for method, gain in gains.items()
    ]
    columns = ["dataset", "encoding", "stem", "seed", "accuracy", "fit_seconds", "n_parameters"]
    return pd.DataFrame(rows, columns=[*columns, "version"])


def folder_of(tmp_path: Path, rows: pd.DataFrame) -> Path:
    folder = tmp_path / "a <study>"
    folder.mkdir()
    rows.to_csv(folder / "results.csv", index=False)
    (folder / "study.json").write_text(json.dumps(DESIGN))
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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory):
    folder = folder_of(tmp_path_factory.mktemp("report"), results())
    return write_report(folder, command="tsformer report 'a <study>'")


def test_the_page_loads_nothing(files) -> None:
    text = files.html.read_text()
    page = Page(text)
    assert page.images == len(files.figures) == 13
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in page.loaded)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    assert not {"link", "iframe", "object"} & set(page.tags)


def test_names_are_escaped(files) -> None:
    assert "<h1>Which encoding helps: a &lt;study&gt;</h1>" in files.html.read_text()
    assert "study" not in Page(files.html.read_text()).tags
    assert files.markdown.read_text().startswith("# Which encoding helps: a \\<study\\>\n")


def test_both_say_the_same_and_the_figures_are_there(files) -> None:
    said, page = files.markdown.read_text(), Page(files.html.read_text()).text
    shown = re.findall(r"^!\[.*\]\((.*)\)$", said, flags=re.M)
    assert [files.markdown.parent / name for name in shown] == list(files.figures)
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in files.figures)
    for line in said.splitlines():
        if line.startswith("- ") and "](#" not in line:
            assert " ".join(re.sub(r"\\(.)", r"\1", line[2:]).split()) in page


def test_the_contents_lead_to_every_heading(files) -> None:
    said, page = files.markdown.read_text(), files.html.read_text()
    top, rest = said.split("## What was asked", 1)
    headings = re.findall(r"^#{2,3} (.*)$", f"## What was asked{rest}", flags=re.M)
    listed = re.findall(r"^ *- \[(.*)\]\(#(.*)\)$", top, flags=re.M)
    assert [text for text, _ in listed] == headings
    places = [place for _, place in listed]
    assert len(set(places)) == len(places), "headings of the same name are told apart"
    assert {"what-was-asked", "results-stemlinear", "methods", "methods-1"} <= set(places)
    assert re.findall(r'<h[23] id="(.*?)">', page) == places
    assert re.findall(r'<a href="#(.*?)">', page) == places


def test_the_verdict_comes_first(files) -> None:
    said = files.markdown.read_text()
    first = said.splitlines()[2:4]
    assert first[0].startswith("- stem=linear: rope is best by rank. With 10 data sets, only ")
    assert re.search(r"only \d of 3 differences between methods can be shown\.$", first[0])
    assert first[1].startswith("- stem=conv: ")
    assert first[1].endswith(
        "With 10 data sets, none of 3 differences between methods can be shown."
    )
    assert said.index(first[0]) < said.index("](#what-was-asked)")


def compared(scores: dict[str, list[float]]) -> Findings:
    rows = results_of(scores)
    return Findings("", rows, rows, compare_methods(rows))


@pytest.mark.parametrize("order", [("worse", "better"), ("better", "worse")])
def test_of_two_equal_ranks_the_lower_score_is_never_called_better(order: tuple[str, str]) -> None:
    """Each ranks first on half of the data sets, but one wins by more."""
    scores = {"better": [0.9, 0.5] * 3, "worse": [0.6, 0.6] * 3, "far": [0.1, 0.2] * 3}
    found = compared({name: scores[name] for name in (*order, "far")})
    statistics = found.statistics
    assert statistics is not None
    assert statistics.ranks["better"] == statistics.ranks["worse"] == 1.5
    assert list(statistics.ranks.index) == ["better", "worse", "far"]
    assert statistics.pairs[["better", "worse"]].iloc[0].tolist() == ["better", "worse"]
    assert (statistics.pairs["difference"] > 0).all()
    says = "better and worse share the best mean rank, and better has the highest mean score. "
    assert verdict(found).startswith(says)
    assert outcome(found, None)[0].startswith("better and worse share the best mean rank, 1.50")
    equal = compared({"a": [0.5, 0.7], "b": [0.7, 0.5]})
    assert verdict(equal) == (
        "a and b share the best mean rank and mean score. With 2 data sets, the difference between "
        "the two methods cannot be shown."
    )


def test_where_ranks_and_scores_disagree_no_method_is_over_another() -> None:
    pairs = pd.DataFrame({"better": ["a", "a"], "worse": ["b", "c"], "difference": [0.1, -0.1]})
    pairs = pairs.assign(p_holm=0.001, p_same=0.0)
    scores = pd.DataFrame({"a": [0.5], "b": [0.4], "c": [0.6]})
    ranks = pd.Series([1.0, 2.0, 3.0], ["a", "b", "c"])
    found = Statistics(scores, scores, ranks, 0.01, pairs, 0.01, [])
    (line,) = [
        line for line in outcome(Findings("", scores, scores, found), None) if "2 of 2" in line
    ]
    assert "a over b" in line
    assert "a over c" not in line
    assert "a and c, which rank and score order differently" in line


def test_a_size_that_is_the_same_for_all_is_said_to_be_no_covariate(tmp_path: Path) -> None:
    """As with absolute train sizes: it is known for every data set, and gains vary."""
    rows = results_of({"none": list(np.linspace(0.4, 0.6, 8)), "rope": [0.7] * 8})
    rows.assign(n_train=20).to_csv(tmp_path / "scores.csv", index=False)
    (found,) = analyse(read_study(tmp_path / "scores.csv"), baseline="none")
    said = [each for each in outcome(found, "none") if "gains and training size" in each]
    assert len(said) == 1
    assert "or is the same for all" in said[0]


def test_where_one_loss_outweighs_many_gains_no_method_is_called_lower() -> None:
    gains = [*(0.010 + 0.001 * i for i in range(11)), -0.5]
    rows = [
        {"dataset": f"d{i}", "method": method, "seed": 0, "score": 0.6 + shift}
        for i, gain in enumerate(gains)
        for method, shift in (("none", 0.0), ("rope", gain))
    ]
    scores = pd.DataFrame(rows)
    found = compare_methods(scores)
    (line,) = [
        line for line in outcome(Findings("", scores, scores, found), "none") if "Wilcoxon" in line
    ]
    assert line.startswith(
        "Differ from none, but mean score and most data sets do not agree which way"
    )
    assert "rope (-0.028, p=.034)" in line


@pytest.mark.slow
def test_few_data_sets_have_no_intervals_and_no_correlations(tmp_path: Path) -> None:
    rows = results()
    rows = rows[rows["dataset"].isin(DATASETS[:4]) & (rows["stem"] == "linear")]
    files = write_report(folder_of(tmp_path, rows))
    said = files.markdown.read_text()
    assert not [path.name for path in files.figures if "gain_by" in path.name]
    table = said.split("### Methods")[-1].split("## Methods")[-1]
    assert "| gain over none |" in table
    assert re.search(r"^\| rope \| 1\.00 \| 0\.8\d\d \| \+0\.\d+ \| 4/0/0 \|", table, flags=re.M)
    assert "with its interval" not in said
    assert "Nothing can be said about gains and series length" in said


def test_variants_are_apart_and_nothing_is_claimed_of_noise(files) -> None:
    said = files.markdown.read_text()
    linear, conv = said.split("## Results, stem=linear")[1].split("## Results, stem=conv")
    conv = conv.split("## What cannot be concluded")[0]
    assert "Score higher than none" in linear
    assert re.search(r"Score higher than none .*: rope \(\+0\.\d+, p=\.\d+\)\.", linear)
    assert "No method is shown to differ from none" in conv
    assert re.search(
        r"Practically equivalent to none, within 0.01, .*: (rope, alibi|alibi, rope)", conv
    )
    assert "| rope | " in said.split("## Variants side by side")[1].split("##")[0]


def test_the_study_is_counted_and_can_be_run_again(files) -> None:
    said = files.markdown.read_text()
    assert "All 120 fits are available." in said
    assert "--vary stem=linear,conv --set d_model=32\ntsformer report 'a <study>'\n" in said
    assert "made by tsformer 0.1.0." in said


@pytest.mark.slow
def test_the_same_scores_give_the_same_bytes(files, tmp_path: Path) -> None:
    again = write_report(files.html.parents[1], tmp_path, command="tsformer report 'a <study>'")
    assert again.html.read_bytes() == files.html.read_bytes()
    assert again.markdown.read_bytes() == files.markdown.read_bytes()


@pytest.mark.slow
def test_an_unfinished_study_uses_what_is_paired(tmp_path: Path) -> None:
    rows = results()
    rows = rows[rows["stem"] == "linear"]
    gone = (rows["dataset"] == "UMD") & (rows["encoding"] == "rope")
    gone |= (rows["dataset"] == "CBF") & (rows["encoding"] == "rope") & (rows["seed"] == 1)
    said = write_report(folder_of(tmp_path, rows[~gone])).markdown.read_text()
    assert "57 of 120 fits are available: this study is not finished." in said
    assert "Compared over 9 data sets, using the 51 of 57 fits" in said
    assert "left out, because some method has no score: UMD." in said
    assert re.search(r"^\| UMD \|.* – \|", said, flags=re.M), "shown, though not compared"


def test_of_a_beginning_there_is_no_statistic(tmp_path: Path) -> None:
    rows = results()
    rows = rows[(rows["dataset"] == "CBF") & (rows["stem"] == "conv")]
    files = write_report(folder_of(tmp_path, rows[rows["encoding"] == "rope"]))
    assert files.figures == ()
    said = files.markdown.read_text()
    assert "Nothing can be said yet." in said
    assert "Not enough scores to compare" in said
    assert "| CBF |" in said
    assert "Friedman" not in said


METHODS = ("tsformer", "rocket", "forest")


@pytest.fixture(scope="module")
def of_methods(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of methods, one of which failed on one data set and cannot read two others."""
    folder = tmp_path_factory.mktemp("methods")
    datasets = DATASETS[:5]
    rows = pd.DataFrame(
        [(dataset, method) for dataset in datasets for method in METHODS],
        columns=["dataset", "method"],
    )
    place = rows["method"].map(METHODS.index)
    rows = rows.assign(
        seed=0,
        accuracy=0.7 + 0.01 * place,
        fit_seconds=1.0 + place,
        peak_memory_mb=1234.5 - place,
        predict_memory_mb=2345.6 + place,
        helped="",
    )
    missing = rows["dataset"].isin(datasets[2:]) & (rows["method"] == "forest")
    rows[~missing].to_csv(folder / "results.csv", index=False)
    errors = ["UnreadableSeries: it reads one channel"] * 2 + ["ArithmeticError: no such luck"]
    failures = rows.loc[missing, ["dataset", "method", "seed"]].assign(error=errors)
    failures.to_csv(folder / "failures.csv", index=False)
    design = {
        "datasets": datasets,
        "encodings": [],
        "methods": {name: {} for name in METHODS},
        "seeds": [0],
    }
    (folder / "study.json").write_text(json.dumps(design))
    return write_report(folder).markdown.read_text(encoding="utf-8")


def test_methods_have_gains_over_the_transformer(of_methods: str) -> None:
    assert "Gains are relative to tsformer." in of_methods
    assert "\n## Gains\n" in of_methods
    assert "\n## Against tsformer\n" in of_methods
    assert re.search(r"^\| rocket \| 2\.00 \| 0\.710 \| \+0\.010 \|", of_methods, flags=re.M)


def test_memory_has_no_front_and_the_report_says_why(of_methods: str) -> None:
    cost = of_methods.split("## Cost\n")[-1].split("\n#")[0]
    assert "| peak memory of fitting (MB) | peak memory of predicting (MB) |" in cost
    assert "| rocket | 0.710 | 2.00 | 2.00 | yes | 1,234 | 2,347 |" in cost
    assert cost.count("on Pareto front") == 1
    assert cost.count("Memory has no front: it is that of the whole process") == 1


def test_what_was_skipped_did_not_fail(of_methods: str) -> None:
    assert "12 of 15 fits are available, 1 failed, and 2 skipped." in of_methods
    assert f"Skipped: forest on {DATASETS[2]}: it reads one channel." in of_methods


def test_on_one_data_set_no_method_is_above_an_equal_one() -> None:
    rows = pd.DataFrame({"method": list("abc"), "score": [0.1 + 0.2, 0.3, 0.2]})
    rows = rows.assign(dataset="own", seed=0)
    assert verdict(Findings("", rows, rows)) == (
        "On own, a and b share the highest mean score, 0.300. One data set does not say which is "
        "better on others."
    )


def test_one_data_set_has_means_costs_and_paired_differences_but_no_test(tmp_path: Path) -> None:
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
    assert "On own-1, ridge has the highest mean score, 0.800, and tree the next, 0.700." in said
    assert "- ridge is 0.100 ahead of tree: higher in 1 of 3 paired fits, equal in 2." in said
    assert "- ridge is 0.600 ahead of vote: higher in 3 of 3 paired fits, equal in 0." in said
    assert "Splits of one data set share series, and fits on one split share all of them: " in said
    assert "not independent of each other, and no test is made" in said
    assert "| ridge | 0.800 ± 0.100 | 3 | 2.00 | 1,234 | 2,345 |" in said
    assert said.index("| ridge |") < said.index("| tree |") < said.index("| vote |")
    assert "Mean score over seeds and splits" in said
    assert "Friedman" not in said
    assert "significant" not in said


def test_on_one_data_set_what_is_not_compared_is_named(tmp_path: Path) -> None:
    rows = results()
    rows = rows[(rows["stem"] == "linear") & (rows["encoding"] != "alibi")]
    rows = rows[rows["dataset"].isin(DATASETS[:3])]
    rows = rows[(rows["encoding"] == "none") | (rows["dataset"] == DATASETS[0])]
    said = write_report(folder_of(tmp_path, rows)).markdown.read_text()
    assert f"On {DATASETS[0]}, rope has the highest mean score" in said
    lacks = "paired differences on one data set; nothing is tested; left out, because"
    assert f"{lacks} some method has no score: {DATASETS[1]}, {DATASETS[2]}." in said
    assert "Not compared, because no fit is available: alibi." in said


def test_fits_of_others_that_are_not_paired_have_no_difference(tmp_path: Path) -> None:
    rows = [("own", "a", seed, 0.8) for seed in (0, 1)] + [
        ("own", "b", seed, 0.7) for seed in (2, 3)
    ]
    columns = ["dataset", "method", "seed", "score"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "results.csv", index=False)
    said = write_report(tmp_path / "results.csv").markdown.read_text()
    assert "- No fit of a is paired with one of b: no draw has both." in said
    assert "nan" not in said


def test_with_one_split_nothing_is_said_of_several() -> None:
    rows = pd.DataFrame({"method": list("aabb"), "score": [0.4, 0.5, 0.1, 0.2]})
    rows = rows.assign(dataset="own", seed=[0, 1] * 2, resample=0)
    *_, said = outcome(Findings("", rows, rows), None)
    assert said.startswith("All fits are on one split, and so share all series: these differences")
    assert "Splits of one data set" not in said


@pytest.mark.parametrize("recorded", [True, False])
def test_a_fit_that_is_one_for_all_seeds_is_counted_once(recorded: bool, tmp_path: Path) -> None:
    fits = [(m, seed, r) for m in ("ridge", "tree", "net") for seed in (0, 1) for r in range(3)]
    rows = pd.DataFrame(fits, columns=["method", "seed", "resample"]).assign(dataset="own-1")
    rows["accuracy"] = rows["method"].map({"ridge": 0.9, "tree": 0.8, "net": 0.7})
    # The network alone has a source of chance.
    drawn = rows["seed"].where(rows["method"] == "net", 0)
    rows["run_id"] = rows["method"] + drawn.map(str) + rows["resample"].map(str)
    if not recorded:
        rows["run_id"] = ""
    rows.to_csv(tmp_path / "results.csv", index=False)
    said = write_report(tmp_path / "results.csv").markdown.read_text()
    n = 3 if recorded else 6
    assert f"ridge is 0.100 ahead of tree: higher in {n} of {n} paired fits, equal in 0." in said
    assert "ridge is 0.200 ahead of net: higher in 6 of 6 paired fits, equal in 0." in said
    assert f"| ridge | 0.900 ± 0.000 | {n} |" in said
    assert "| net | 0.700 ± 0.000 | 6 |" in said


def test_copies_of_a_fit_for_other_seeds_are_in_no_spread() -> None:
    drawn = [(f"net{seed}", "net", seed, 0.5 + seed / 10) for seed in range(3)]
    fits = [*drawn, *(("ridge", "ridge", seed, 0.8) for seed in range(3))]
    rows = pd.DataFrame(fits, columns=["run_id", "method", "seed", "score"]).assign(dataset="A")
    found = Findings("", rows, rows)
    _, table = sections._datasets(found)
    assert table.rows == [["A", "–", "–", "0.600 ± 0.100", "0.800"]]
    assert sections._on_one_data_set(found).rows == [
        ["ridge", "0.800", "1"],
        ["net", "0.600 ± 0.100", "3"],
    ]


@pytest.mark.slow
def test_with_few_data_sets_it_says_that_none_could_differ(tmp_path: Path) -> None:
    rows = results()
    rows = rows[rows["dataset"].isin(DATASETS[:4]) & (rows["stem"] == "linear")]
    said = write_report(folder_of(tmp_path, rows)).markdown.read_text()
    assert "No pair differs after correction (3 compared)." in said
    assert "None could: with 4 data sets the smallest possible p is 0.125" in said
    assert "Nothing can be said about gains and series length" in said


@pytest.mark.slow
def test_a_table_of_others_is_reported_without_a_word_on_how_it_came_about(tmp_path: Path) -> None:
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
    assert "Score higher than ROCKET \\<b\\>" in gains.markdown.read_text()
    with pytest.raises(ValueError, match="unknown method 'ROKET'"):
        write_report(tmp_path / "scores.csv", baseline="ROKET")


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer", reason='needs the extra "cli"')
    from tsformer.cli import main

    rows = results()
    folder = folder_of(tmp_path, rows[rows["stem"] == "conv"])
    others = tmp_path / "others.csv"
    PUBLISHED.to_csv(others, index=False)
    flags = ["--out", str(tmp_path / "page"), "--rope", "0.02", "--published", str(others)]
    with pytest.raises(SystemExit) as end:
        main(["report", str(folder), *flags])
    assert end.value.code == 0
    assert f"page      {tmp_path}/page/report.html" in capsys.readouterr().out
    said = (tmp_path / "page" / "report.md").read_text()
    assert f"tsformer report '{folder}' {' '.join(flags)}\n" in said
    assert "Beside them: 2 published methods." in said
    assert "HC2 (published): HC2/results.csv." in said
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path / "nowhere")])
    assert end.value.code == 2
    assert "there is no " in capsys.readouterr().err


def test_the_line_that_runs_a_study() -> None:
    line = compare_command({**DESIGN, "seeds": [7], "resamples": 3, "parameters": {}})
    assert line.endswith(
        "--encodings none,rope,alibi --seeds 7, --vary stem=linear,conv --resamples 3"
    )


@pytest.mark.parametrize(
    "said", [{"splits": {"own-1": "cross-validated"}}, {"leave_out": {"rope": ["CBF"]}}]
)
def test_what_no_flag_has_is_in_the_file_of_the_study(said: dict[str, object]) -> None:
    assert compare_command({**DESIGN, **said}) == "tsformer compare --study study.json"


def test_pairs_that_only_the_friedman_test_holds_back_are_not_denied() -> None:
    """The table has a corrected p below .05: the words must not say that there is none."""
    scores = pd.DataFrame({"a": [0.5, 0.6], "b": [0.5, 0.6], "c": [0.4, 0.5]})
    pairs = pd.DataFrame({"p_holm": [0.004, 1.0, 1.0], "p_same": [0.0, 0.0, 0.0]})
    found = Statistics(
        scores, scores, pd.Series([1.0, 2.0, 3.0], ["a", "b", "c"]), 0.21, pairs, 0.01, []
    )
    said = outcome(Findings("", scores, scores, found), None)
    assert any("Friedman's test" in line and "1 would differ" in line for line in said)
    assert not any("differs after correction" in line for line in said)


PUBLISHED = pd.DataFrame(
    [
        (name, method, "default split", 0.75 + 0.01 * place, f"{method}/results.csv")
        for method, names in {"HC2": DATASETS, "MR-Hydra": DATASETS[:6]}.items()
        for place, name in enumerate(names)
    ],
    columns=["dataset", "method", "protocol", "accuracy", "source"],
)


@pytest.fixture(scope="module")
def beside_published(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("published")
    rows = results()
    rows = rows[(rows["stem"] == "linear") & (rows["encoding"] != "alibi")]
    rows.drop(columns="stem").to_csv(folder / "results.csv", index=False)
    PUBLISHED.to_csv(folder / "others.csv", index=False)
    files = write_report(folder, folder / "report", published=folder / "others.csv")
    return files.markdown.read_text(encoding="utf-8")


def test_published_methods_are_marked_wherever_they_are_named(beside_published: str) -> None:
    for name in ("HC2", "MR-Hydra"):
        named = re.findall(rf"{name}(.{{0,12}})", beside_published)
        bare = [after for after in named if not after.startswith((" (published)", "/results.csv"))]
        assert len(named) > 3
        assert not bare


def test_what_published_methods_lack_is_said(beside_published: str) -> None:
    assert "2 methods, 10 data sets, 2 seeds. Beside them: 2 published methods." in beside_published
    assert "They have no seeds, no seconds and no probabilities." in beside_published
    assert "A published score is a single figure." in beside_published
    assert "data set that was compared is missing: MR-Hydra (published)." in beside_published
    cost = beside_published.split("## Cost\n")[-1]
    row = r"^\| HC2 \(published\) \| 0\.795 \| 1\.\d\d \| – \| – \| – \| – \|$"
    assert re.search(row, cost, flags=re.M), "neither cost is known, and it is on no front"
    assert "Published methods are not drawn: nothing is known of their cost here." in (
        beside_published
    )
    assert "MR-Hydra (published): MR-Hydra/results.csv." in beside_published
    assert "may be one of implementation, version, tuning" in beside_published


def test_measured_methods_are_set_beside_each_published_one(beside_published: str) -> None:
    beside = beside_published.split("Published results\n")[-1]
    (row,) = re.findall(r"^\| MR-Hydra \(published\) \| 6 \| 0\.775 \|.*$", beside, flags=re.M)
    assert re.search(r"\| -0\.07\d \(0/0/6\) \|", row), "none minus it"
    assert re.search(r"\| \+0\.02\d \(6/0/0\) \|", row), "rope minus it"
    datasets = beside.split("### Data sets")[-1].split("## Data sets")[-1]
    (row,) = re.findall(r"^\| ArrowHead .*$", datasets, flags=re.M)
    assert "| 0.840 |" in row
    assert row.endswith("| – |"), "MR-Hydra has no score there"


def test_with_resamples_the_report_says_why_nothing_published_is_there(tmp_path: Path) -> None:
    rows = results()
    rows = rows[(rows["stem"] == "linear") & (rows["dataset"] == "CBF")].drop(columns="stem")
    rows = pd.concat([rows.assign(resample=number) for number in (0, 1)])
    rows.to_csv(tmp_path / "results.csv", index=False)
    PUBLISHED.to_csv(tmp_path / "others.csv", index=False)
    said = write_report(tmp_path, published=tmp_path / "others.csv").markdown.read_text()
    (line,) = [line for line in said.splitlines() if "published" in line.lower()]
    assert line.startswith("- The published results are left out: they are of the default split")
    assert "Gains are relative" not in said, "of one data set there are none"


SIZES = {"20%": 8, "100%": 40}


@pytest.fixture(scope="module")
def with_sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two train sizes, of which one method lacks a seed, beside published results."""
    folder = tmp_path_factory.mktemp("sizes")
    rows = results()
    rows = rows[(rows["stem"] == "linear") & (rows["encoding"] != "alibi")].drop(columns="stem")
    rows = rows[rows["dataset"].isin(DATASETS[3:8])]  # fewer pictures
    rows = pd.concat(
        [
            rows.assign(train_size=size, n_train=n, accuracy=rows["accuracy"] - 1 / n)
            for size, n in SIZES.items()
        ]
    )
    rows[(rows["encoding"] == "none") | (rows["seed"] == 0)].to_csv(
        folder / "results.csv", index=False
    )
    design = {
        **DESIGN,
        "datasets": DATASETS[3:8],
        "encodings": ["none", "rope"],
        "vary": {},
        "train_sizes": list(SIZES),
    }
    (folder / "study.json").write_text(json.dumps(design))
    PUBLISHED.to_csv(folder / "others.csv", index=False)
    write_report(folder, folder / "report", published=folder / "others.csv")
    return folder


@pytest.mark.slow
def test_each_train_size_is_a_variant_and_has_its_curves(with_sizes: Path) -> None:
    said = (with_sizes / "report" / "report.md").read_text(encoding="utf-8")
    assert "2 variants (train\\_size=20%; train\\_size=100%)" in said
    assert "30 of 40 fits are available: this study is not finished." in said
    assert "--train-sizes 20%,100%" in said
    assert "A train size is a stratified subset of the train split." in said
    part, whole = said.split("### Data sets")[1:]
    assert re.search(r"^\| GunPoint \| 150 \| 8 \|", part, flags=re.M), "trained on 8 series"
    assert re.search(r"^\| GunPoint \| 150 \| 40 \|", whole, flags=re.M)
    for name in ("learning_curves", "learning_curves_mean"):
        assert f"({name}.png)" in said
        assert (with_sizes / "report" / f"{name}.png").stat().st_size > 5_000


@pytest.mark.slow
def test_published_results_are_beside_the_whole_train_split_only(with_sizes: Path) -> None:
    said = (with_sizes / "report" / "report.md").read_text(encoding="utf-8")
    assert "set beside fits of train size 100% only" in said
    part, whole = said.split("## Results, ")[1:]
    assert part.startswith("train\\_size=20%")
    assert "published" not in part.lower()
    assert "HC2 (published)" in whole
    study = read_study(with_sizes, published=with_sizes / "others.csv")
    first, second = analyse(study)
    assert first.published is first.beside is None
    assert second.not_ranked == ["MR-Hydra (published)"]


@pytest.mark.slow
def test_a_point_of_a_curve_is_over_the_draws_of_every_method(
    with_sizes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    plot = sections.plot_learning_curves
    monkeypatch.setattr(
        sections,
        "plot_learning_curves",
        lambda rows, **options: drawn.append(rows) or plot(rows, **options),
    )
    sections.learning_curves(read_study(with_sizes))
    assert len(drawn) == 2
    assert all(set(rows["seed"]) == {0} for rows in drawn)
    assert all(len(rows) == 5 * 2 * len(SIZES) for rows in drawn)


@pytest.mark.slow
def test_a_method_that_was_left_out_takes_no_panel_from_the_others(
    with_sizes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.read_csv(with_sizes / "results.csv")
    rows[(rows["encoding"] == "none") | (rows["dataset"] != DATASETS[3])].to_csv(
        tmp_path / "results.csv", index=False
    )
    design = json.loads((with_sizes / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps(design))
    drawn = []
    monkeypatch.setattr(
        sections, "plot_learning_curves", lambda rows, **_: drawn.append(rows) or Figure()
    )
    sections.learning_curves(read_study(tmp_path))
    alone = drawn[-1][drawn[-1]["dataset"] == DATASETS[3]]
    assert set(alone["method"]) == {"none"}
    assert set(alone["train_size"]) == set(SIZES)
