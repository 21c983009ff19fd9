"""tsformer compare: flags and files that say what is fitted, and what it says of fits that fail."""

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tsformer.data import load_dataset
from tsformer.studies import Progress
from tsformer.studies.design.study import Trial
from tsformer.tracking import prepare_store

Run = Callable[..., tuple[str, str]]


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_a_study_of_a_file_with_fits_that_fail(run, uri, experiment, tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(
        'datasets = ["ItalyPowerDemand"]\nencodings = ["none"]\nseeds = [4]\nresamples = 2\n'
        "[parameters]\nd_model = 8\nn_layers = 1\nmax_epochs = 1\n[vary]\nn_heads = [2, 3]\n"
    )
    flags = ("--study", "small.toml", "--tracking-uri", uri, "--experiment", experiment)
    out, err = run("compare", *flags, "--out", "out", exits=2)
    for said in (
        "failed: ItalyPowerDemand  none  n_heads=3  4  ValueError: n_heads",
        "failed: ItalyPowerDemand  none  n_heads=3  4  resample=1  ValueError: n_heads",
        "none, n_heads=2",
        "table   out/results.csv",
        "report  out/report/report.html",
        "runs    ",
    ):
        assert said in out
    assert "ItalyPowerDemand  none  4  n_heads=2  resample 1  accuracy 0." in err
    rows = pd.read_csv("out/results.csv", float_precision="round_trip")
    assert rows["n_heads"].tolist() == [2, 2]
    assert pd.read_csv("out/failures.csv")["n_heads"].tolist() == [3, 3]
    assert "2 failed (failures.csv)" in Path("out/summary.md").read_text()

    monkeypatch.setattr("tsformer.studies.run.finalize.report_of", lambda *args: None)
    out, err = run("compare", *flags, "--out", "out", "--name", "Is it small?", "--json", exits=2)
    found = json.loads(out)
    for name in ("accuracy", "run_id"):
        assert [fit[name] for fit in found["results"]] == rows[name].tolist()
    assert [fit["n_heads"] for fit in found["failures"]] == [3, 3]
    assert (found["unrecorded"], found["table"]) == ([], "out/results.csv")
    assert "failed: ItalyPowerDemand" in err
    (study,) = prepare_store(uri, experiment).runs(tags={"tsformer.kind": "study"})
    assert study.info.run_name == "Is it small?", "the same run under another name"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--study small.toml --seeds 3", "remove --seeds"),
        ("--study small.toml", "small.toml"),
        ("--seeds 3", "--datasets"),
        ("--datasets A --vary stem", "--vary"),
        ("--datasets A --vary stem=conv --vary stem=linear", "'stem' twice"),
        ("--datasets A --methods sklearn.svm.SVC", "--allow-import"),
        ("--datasets A --methods majority,majority", "'majority' twice"),
        ("--datasets A --methods ,", "--methods ','"),
        ("--datasets A --train-sizes= ", "--train-sizes ''"),
        ("--data a.csv --folds 0", "--folds"),
        ("--data a.csv --folds 2 --datasets A", "remove --datasets"),
        ("--data a.csv --resamples 3", "remove --resamples"),
        ("--data A", "--datasets A"),
        ("--datasets A --budget 9", "--budget"),
        ("--datasets A --folds 3", "--folds"),
    ],
)
def test_mistakes_are_one_line(flags, says, run):
    out, err = run("compare", *flags.split(), exits=2)
    assert says in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.fixture
def own_table(tmp_path):
    """Write own.csv: two series of each of twelve patients, in two easy classes."""
    state = pd.Series([*"aabb"] * 6)
    values = np.random.default_rng(0).normal(size=(24, 12)) + 5 * (state == "a").to_numpy()[:, None]
    patient = [f"p{i // 2}" for i in range(24)]
    table = pd.DataFrame(values).add_prefix("t").assign(state=state, patient=patient)
    table.to_csv(tmp_path / "own.csv", index=False)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--encodings none --jobs 0", "jobs"),
        ("--encodings all --budget soon", "'soon'"),
        ("--encodings all --budget 9 --seeds 2", "seed"),
        ("--encodings all --budget 9 --train-sizes 50%", "train_sizes"),
        ("--encodings all --budget 9 --vary dropout=0.1", "vary"),
        ("--methods sklearn.cluster.KMeans --allow-import", "clusterer"),
    ],
)
@pytest.mark.usefixtures("own_table")
def test_a_refused_comparison_leaves_nothing(flags, says, run, tmp_path):
    own = ("--data", "own.csv", "--label", "state", "--group", "patient")
    _, err = run("compare", *own, *flags.split(), exits=2)
    assert says in err
    assert [each.name for each in tmp_path.iterdir()] == ["own.csv"]


def test_times_of_ones_own_data_are_kept_if_fits_read_them(run, monkeypatch):
    def stop(study, own, **_):
        raise ValueError(f"times {load_dataset(own.name, 'train')[0][0].index.tolist()}")

    monkeypatch.setattr("tsformer.cli.studies.run", stop)
    columns = {"id": np.repeat(range(8), 3), "t": np.tile([1, 2, 5], 8), "v": range(24)}
    pd.DataFrame(columns | {"state": np.repeat(list("abababab"), 3)}).to_csv("long.csv")
    own = ("--data", "long.csv", "--case", "id", "--time", "t", "--value", "v", "--label", "state")
    _, err = run("compare", *own, "--folds", 2, "--set", "timestamps=index", exits=2)
    assert "times [1.0, 2.0, 5.0]" in err


@pytest.mark.slow
@pytest.mark.usefixtures("own_table", "no_figures", "no_workers")
def test_methods_are_compared_on_ones_own_data_without_a_group_in_both_parts(
    run, uri, experiment, tmp_path
):
    (tmp_path / "mine.py").write_text("from sklearn.svm import SVC\nclass Mine(SVC): pass\n")
    out, _ = run(
        "compare", "--data", "own.csv", "--label", "state", "--group", "patient", "--folds", 3,
        "--methods", "majority,mine.Mine", "--allow-import",
        "--tracking-uri", uri, "--experiment", experiment,
    )  # fmt: skip
    assert "24 series of 12 groups in 3 folds, in data/own-" in out
    rows = pd.read_csv(tmp_path / "results/compare/results.csv")
    assert rows["method"].value_counts().to_dict() == {"majority": 3, "Mine": 3}
    assert sorted(set(rows["resample"])) == [0, 1, 2]
    assert (rows.loc[rows["method"] == "Mine", "accuracy"] > 0.9).all()
    report = (tmp_path / "results/compare/report/report.md").read_text("utf-8")
    assert f"- {rows['dataset'][0]}: cross-validated in 3 stratified folds, each" in report
    assert "all series of one 'patient', of 12, are in one fold.\n" in report


@pytest.mark.slow
@pytest.mark.usefixtures("own_table", "no_figures")
def test_encodings_are_ranked_within_a_budget(run, uri, experiment, tmp_path):
    flags = (
        "--data", "own.csv", "--label", "state", "--group", "patient", "--folds", 2, "--encodings",
        "none,rope", "--set", "d_model=8", "--set", "n_heads=2", "--max-epochs", 1,
        "--budget", "2min", "--tracking-uri", uri, "--experiment", experiment,
    )  # fmt: skip
    out, _ = run("compare", *flags, "--budget", "1ms")
    assert "`none` is the only encoding that was fitted over 1 fold" in out.replace(
        "none", "`none`"
    )
    out, err = run("compare", *flags)
    assert "over 2 folds, too few for an interval." in out
    assert err.count("accuracy") == 3
    out, _ = run("compare", *flags, "--json")
    assert [row["folds"] for row in json.loads(out)["ranking"]] == [2, 2]


def test_the_bar_says_what_is_done_running_failed_and_left(monkeypatch):
    from rich.console import Console

    from tsformer.cli import printing

    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=150, color_system=None)
    monkeypatch.setattr("tsformer.cli.printing.Console", lambda **options: console)
    trial = Trial("GunPoint", "lspe", 4, "stem=conv")
    clock = SimpleNamespace(now=0.0)
    bar = partial(printing.Bar, get_time=lambda: clock.now)
    monkeypatch.setattr(printing, "Bar", bar)
    with printing.study_bar() as show:
        for done in (2, 3, 4):  # 60 seconds a fit, of which one was there before
            show(Progress("fit-end", 8, done, 1, 0, running=2, trial=trial, accuracy=0.5))
            clock.now += 60
        show(Progress("fit-end", 8, 5, 1, 1, running=2, trial=trial, error="no such luck"))
    shown = screen.getvalue()
    assert "GunPoint  lspe  4  stem=conv  accuracy 0.500\n" in shown
    assert "GunPoint  lspe  4  stem=conv  no such luck\n" in shown
    assert "5/8 fits, 2 running, 1 failed" in shown
    assert "0:03:00" in shown, "three fits are left"
