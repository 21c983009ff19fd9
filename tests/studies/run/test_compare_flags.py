"""tsformer compare: flags and files that say what is fitted, and what it says of fits that fail."""

import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from tsformer.tracking import prepare_store


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_a_study_of_a_file_with_fits_that_fail(run, uri, experiment, tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(
        'datasets = ["ItalyPowerDemand"]\nencodings = ["none"]\nseeds = [4]\nresamples = 2\n'
        "[parameters]\nd_model = 8\nn_layers = 1\nmax_epochs = 1\n[vary]\nn_heads = [2, 3]\n"
    )
    flags = ("--study", "small.toml", "--tracking-uri", uri, "--experiment", experiment)
    out, err = run("compare", *flags, "--out", "out", exits=2)
    assert "failed: ItalyPowerDemand  none  n_heads=3  4  resample=1  ValueError: n_heads" in out
    assert "report  out/report/report.html" in out
    assert "ItalyPowerDemand  none  4  n_heads=2  resample 1  accuracy 0." in err
    rows = pd.read_csv("out/results.csv", float_precision="round_trip")
    assert rows["n_heads"].tolist() == [2, 2]
    assert pd.read_csv("out/failures.csv")["n_heads"].tolist() == [3, 3]

    monkeypatch.setattr("tsformer.studies.run.finalize.report_of", lambda *args: None)
    out, err = run("compare", *flags, "--out", "out", "--name", "Is it small?", "--json", exits=2)
    outcome = json.loads(out)
    for name in ("accuracy", "run_id"):
        assert [fit[name] for fit in outcome["results"]] == rows[name].tolist()
    assert [fit["n_heads"] for fit in outcome["failures"]] == [3, 3]
    assert (outcome["unrecorded"], outcome["table"]) == ([], "out/results.csv")
    assert "failed: ItalyPowerDemand" in err
    (study,) = (store := prepare_store(uri, experiment)).runs(tags={"tsformer.kind": "study"})
    assert study.info.run_name == "Is it small?", "the same run under another name"
    logged = store.client().download_artifacts(study.info.run_id, "report.html", str(tmp_path))
    assert Path(logged).read_bytes() == Path("out/report/report.html").read_bytes()


@pytest.fixture
def own_table(tmp_path):
    """Write own.csv: two series of each of twelve patients, in two easy classes."""
    state = pd.Series([*"aabb"] * 6)
    values = np.random.default_rng(0).normal(size=(24, 12)) + 5 * (state == "a").to_numpy()[:, None]
    patient = [f"p{i // 2}" for i in range(24)]
    table = pd.DataFrame(values).add_prefix("t").assign(state=state, patient=patient)
    table.to_csv(tmp_path / "own.csv", index=False)


OWN = "--data own.csv --label state --group patient"


@pytest.mark.usefixtures("own_table")
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--study small.toml --seeds 3", "remove --seeds"),
        ("--study small.toml", "small.toml"),
        ("--datasets A --vary stem=conv --vary stem=linear", "'stem' twice"),
        ("--datasets A --methods sklearn.svm.SVC", "--allow-import"),
        ("--datasets A --train-sizes= ", "train-sizes"),
        ("--data a.csv --folds 2 --datasets A", "remove --datasets"),
        ("--data a.csv --resamples 3", "--resamples"),
        ("--data A", "--datasets A"),
        ("--datasets A --budget 9", "--budget"),
        ("--datasets A --folds 3", "--folds"),
        ("--data own.csv --label state --budget soon", "'soon'"),
        (f"{OWN} --encodings all --budget 9 --seeds 2", "seed"),
        (f"{OWN} --encodings all --budget 9 --train-sizes 50%", "train_sizes"),
        (f"{OWN} --methods sklearn.cluster.KMeans --allow-import", "KMeans"),
    ],
)
def test_mistakes_are_one_line(flags, says, run, tmp_path):
    out, err = run("compare", *flags.split(), exits=2)
    assert says in err
    assert err.count("\n") == 1
    assert out == "" or flags.startswith(OWN), "a table that can be read is described first"
    assert not (tmp_path / "results").exists()


def test_an_interrupted_study_says_how_to_go_on(run, monkeypatch):
    flags = ("compare", "--datasets", "ItalyPowerDemand")
    monkeypatch.setattr("sys.argv", ["tsformer", *flags])
    monkeypatch.setattr("tsformer.studies.compare", Mock(side_effect=KeyboardInterrupt))
    _, err = run(*flags, exits=130)
    assert f"tsformer {' '.join(flags)}\n" in err


@pytest.mark.slow
@pytest.mark.usefixtures("own_table", "no_figures")
def test_encodings_are_ranked_within_a_budget(run, uri, experiment):
    flags = f"{OWN} --folds 2 --encodings none,rope --set d_model=8 --set n_heads=2 --max-epochs 1"
    store = ("--tracking-uri", uri, "--experiment", experiment)
    _, err = run("compare", *flags.split(), *store, "--budget", "1ms")
    assert err.count("accuracy") == 1
    out, err = run("compare", *flags.split(), *store, "--budget", "2min", "--json")
    assert err.count("accuracy") == 3, "and the first is not repeated"
    assert [row["folds"] for row in json.loads(out)["ranking"]] == [2, 2]
