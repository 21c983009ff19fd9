"""Tables of one's own from the shell: fit, predict, evaluate, compare, convert, datasets."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer import load, load_dataset
from tsformer.data import from_long, to_long

for library in ("typer", "rich", "sktime"):
    pytest.importorskip(library, reason='needs the extra "all"')

SMALL = ["--no-track", "--max-epochs", "2", "--seed", "1"]
for setting in ("d_model=8", "n_heads=2", "n_layers=1", "verbose=0"):
    SMALL += ["--set", setting]
COLUMNS = ["--case", "id", "--time", "t", "--value", "c,a", "--label", "y"]


def motions(split: str, n: int) -> pd.DataFrame:
    """A long table of real series: named, with dates, gaps and labels that look like numbers."""
    X, y = load_dataset("BasicMotions", split)
    every = slice(None, None, 40 // n)
    names = [f"{i:03d}" for i in range(40)][every]
    labels = {"Standing": "007", "Running": "None", "Walking": "walking slowly", "Badminton": "7"}
    table = to_long(
        X[every, :3, :30], [labels[label] for label in y[every]], cases=names,
        case="id", time="t", value=["a", "b", "c"], label="y",
    )  # fmt: skip
    table["t"] = pd.Timestamp("2024-03-30") + pd.to_timedelta(table["t"], unit="h")
    table.loc[table.index % 17 == 3, "a"] = float("nan")
    return table.sample(frac=0.9, random_state=0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    motions("train", 20).to_csv("long.csv", index=False)
    motions("test", 10).to_csv("test.csv", index=False)
    motions("test", 10).drop(columns="y").to_csv("new.csv", index=False)
    return tmp_path


def read(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def test_a_model_of_a_long_table_reads_others_without_options(folder, run):
    out, _ = run("fit", "long.csv", *COLUMNS, *SMALL)
    assert "long.csv: 20 series, 24 to 29 steps, channels c, a, 4 classes" in out
    assert "saved in model; next: tsformer predict model new.csv" in out
    classifier = load("model")
    assert classifier.classes_.tolist() == ["007", "7", "None", "walking slowly"]

    table = pd.read_csv("new.csv", dtype={"id": str}, parse_dates=["t"])
    X = from_long(table, case="id", time="t", value=["c", "a"])
    expected = dict(zip(table["id"].unique(), classifier.predict(X), strict=True))
    for file in ("new.csv", "test.csv"):  # which has labels, and a column of no use
        out, err = run("predict", "model", file)
        assert err == ""
        rows = read(out)
        assert list(rows) == ["id", "label"]
        assert dict(rows.itertuples(index=False)) == expected
    out, _ = run("predict", "model", "new.csv", "--proba", "--novelty", "--out", "p.csv")
    assert out == "10 predictions written to p.csv\n"
    rows = read(Path("p.csv").read_text())
    shares = ["p(007)", "p(7)", "p(None)", "p(walking slowly)"]
    assert list(rows) == ["id", "label", *shares, "novelty"]
    assert rows["id"].tolist() == list(expected)
    written = rows.filter(like="p(").astype(float)
    np.testing.assert_allclose(written, classifier.predict_proba(X), atol=1e-5)
    scores = rows["novelty"].astype(float)
    np.testing.assert_allclose(scores, classifier.novelty_score(X), atol=1e-5)

    out, err = run("evaluate", "model", "test.csv", "--no-track")
    assert (out.partition("\n")[0], err) == ("lspe on the 10 series of test.csv", "")
    truth = motions("test", 10).drop_duplicates("id").set_index("id")["y"]
    accuracy = sum(expected[name] == truth[name] for name in expected) / 10
    (line,) = [line for line in out.splitlines() if line.strip().startswith("accuracy")]
    assert float(line.split()[1]) == accuracy
    motions("test", 10).replace({"y": {"007": "0007"}}).to_csv("test.csv", index=False)
    _, err = run("evaluate", "model", "test.csv", "--no-track")
    assert "1 labels are unknown to the model and count as errors: '0007'" in err


def test_a_table_without_the_columns_of_the_model(folder, run):
    pd.read_csv("long.csv").assign(y="walk").to_csv("same.csv", index=False)
    _, err = run("fit", "same.csv", *COLUMNS, *SMALL, exits=2)
    assert "every series of same.csv has the label 'walk'" in err
    assert list(Path("model").glob("*")) == []
    _, err = run("fit", "long.csv", "--case", "id", "--time", "tt", "--label", "y", exits=2)
    assert "column: 'tt' (did you mean 't'?)" in err
    run("fit", "long.csv", *COLUMNS, *SMALL)
    pd.read_csv("new.csv").rename(columns={"id": "Id", "c": "x"}).to_csv("other.csv", index=False)
    _, err = run("predict", "model", "other.csv", exits=2)
    assert err == (
        "tsformer: other.csv lacks the columns that the model was trained on: 'id' (did you mean "
        "'Id'?), 'c'. It has 'Id', 't', 'a', 'b', 'x'\n"
    )
    pd.read_csv("new.csv").rename(columns={"id": "Id"}).to_csv("other.csv", index=False)
    out, _ = run("predict", "model", "other.csv", "--case", "Id")
    assert list(read(out)) == ["Id", "label"]
    _, err = run("evaluate", "model", "new.csv", "--no-track", exits=2)
    assert "new.csv lacks the column that the model was trained on: 'y'" in err


def test_how_text_is_written_is_kept_and_can_be_changed(folder, run):
    table = motions("train", 10)
    table["t"] = table["t"].dt.strftime("%d.%m.%Y %H:%M")
    table.to_csv("de.csv", sep=";", decimal=",", index=False, encoding="utf-8-sig")
    form = ["--sep", ";", "--decimal", ",", "--time-format", "%d.%m.%Y %H:%M"]
    # With the times, which only dates that were understood can be.
    run("fit", "de.csv", *COLUMNS, *form, *SMALL, "--set", "timestamps=index")
    assert load("model").table_schema_.sep == ";"
    out, _ = run("predict", "model", "de.csv")
    table.to_csv("en.csv", index=False)
    assert run("predict", "model", "en.csv", "--sep", ",", "--decimal", ".")[0] == out
    _, err = run("predict", "model", "en.csv", exits=2)
    assert "If that is its separator, add --sep ','" in err


def test_a_wide_table(folder, run):
    X, y = load_dataset("ItalyPowerDemand", "train")
    wide = pd.DataFrame(X[:, 0], columns=[f"h{i}" for i in range(24)]).assign(season=y)
    wide.iloc[:40].to_csv("wide.csv", index=False)
    wide.iloc[40:].drop(columns="season").to_csv("new.csv", index=False)
    out, err = run("fit", "wide.csv", "--label", "season", *SMALL)
    assert "wide.csv: 40 series, 24 steps, 2 classes" in out
    assert err == ""
    rows = read(run("predict", "model", "new.csv")[0])
    assert rows["series"].tolist() == [str(i) for i in range(27)]
    assert rows["label"].tolist() == load("model").predict(X[40:]).tolist()
    _, err = run("fit", "long.csv", "--label", "y", *SMALL, exits=2)
    assert "name its columns with --case and --time" in err.partition("\n")[0]


def test_a_file_without_the_names_of_columns(folder, run):
    X, y = load_dataset("ItalyPowerDemand", "train")
    np.savetxt("x.tsv", np.c_[y.astype(float), X[:, 0]], delimiter="\t", fmt="%g")
    out, err = run("fit", "x.tsv", "--label", "0", *SMALL)
    assert "x.tsv: 67 series, 24 steps, 2 classes" in out
    assert "x.tsv has no line with the names of its columns" in err
    out, err = run("predict", "model", "x.tsv")
    assert (len(read(out)), err) == (67, ""), "the model knows that there are no names"
    np.savetxt("new.tsv", X[:, 0], delimiter="\t", fmt="%g")
    _, err = run("predict", "model", "new.tsv", exits=2)
    assert "new.tsv has 24 columns, and the model was trained on 25: column 0, the label" in err
    assert run("fit", "x.tsv", "--label", "0", "--no-header", *SMALL)[1] == ""
    np.savetxt("x.tsv", np.c_[y.astype(float), np.arange(67) / 8, X[:, 0]], delimiter="\t")
    _, err = run("fit", "x.tsv", "--label", "1", "--no-header", *SMALL, exits=2)
    assert "each of the 67 series of x.tsv has a label of its own" in err
    _, err = run("fit", "x.tsv", "--no-header", *SMALL, exits=2)
    assert "name the column of x.tsv that has the labels, with --label" in err


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Files by several names, and folders as they are told from others."""
    monkeypatch.chdir(tmp_path)
    scores = "dataset,method,seed,score\nA,x,0,1\nA,y,0,0\nB,x,0,1\nB,y,0,0\n"
    for path, text in {
        "new.csv": "id,t,a,y\n1,0,1,x\n",
        "scores.csv": scores,
        "pairs.csv": scores,
        "model/estimator.json": "{}",
        "series/series.npy": "",
        "series/labels.npy": "",
        "data/Own/Own_TEST.ts": "",
        "mine/report.md": "mine",
        "mine/summary.md": "mine",
        "mine/pairs.png": "mine",
        "sub/x": "",
    }.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    os.link("new.csv", "hard.csv")
    Path("soft.csv").symlink_to("new.csv")
    Path("link").symlink_to("model")
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "predict model new.csv --out new.csv",
        "predict model new.csv --out hard.csv",
        "predict model new.csv --out soft.csv",
        "predict model new.csv --out model/x.csv",
        "predict model new.csv --out link/x.csv",
        "predict model new.csv --out series/labels.npy",
        "predict model series/ --out series/x.csv",
        "explain model new.csv --out hard.csv",
        "explain model Own --out data/Own/Own_TEST.ts",
        "fit new.csv --label y --out model/x",
        "fit new.csv --label y --init-from model --out link",
        "fit new.csv --label y --checkpoint model",
        "pretrain new.csv --label y --out series",
        "convert new.csv model/x.ts --case id --time t",
        "convert series/ --out series/again",
        "convert new.csv hard.csv --case id --time t",
        "compare --data new.csv --label y --out model",
        "compare --datasets BasicMotions --encodings none --out mine",
        "demo --out model/x",
        "plot-encoding fixed --out model/fixed",
        "report scores.csv --out model",
        "report scores.csv --out mine",
        "statistics scores.csv --out model",
        "statistics pairs.csv --out .",
        "statistics scores.csv --out mine",
    ],
)  # fmt: skip
def test_nothing_that_is_read_and_no_folder_of_others_is_overwritten(command, models, run):
    before = content(models)
    _, err = run(*command.split(), exits=2)
    after = content(models)
    assert re.search(r"cannot be written|overwritten|choose another|No such option", err), err
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if path not in before and "mlflow" not in path]


def test_convert_there_and_back_and_as_a_data_set_of_ones_own(folder, run, monkeypatch):
    monkeypatch.delenv("TSFORMER_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    out, err = run("convert", "long.csv", "data/Own/Own_TRAIN.ts", *COLUMNS)
    assert out == (
        "long.csv: 20 series, 24 to 29 steps, channels c, a, 4 classes; written to "
        "data/Own/Own_TRAIN.ts\n"
    )
    assert "'walking slowly' is written as 'walking_slowly'" in err
    run("convert", "test.csv", "data/Own/Own_TEST.ts", *COLUMNS)
    (line,) = [line for line in run("datasets")[0].splitlines() if line.startswith("Own ")]
    assert line.split() == ["Own", "20", "10", "2", "24-29", "4", "data"]
    X, y = load_dataset("Own", "test")
    assert (len(X), X[0].shape[1]) == (10, 2)
    assert sorted(set(y)) == ["007", "7", "None", "walking_slowly"]
    run("convert", "Own", "back.csv", "--split", "test")
    back = pd.read_csv("back.csv", dtype=str, keep_default_na=False)
    numbers = ["value_0", "value_1"]
    back[numbers] = back[numbers].apply(pd.to_numeric)
    back["time"] = pd.to_datetime(back["time"])
    again, labels = from_long(
        back, case="case", time="time", value=["value_0", "value_1"], label="label"
    )
    assert labels.tolist() == y.tolist()
    for ours, theirs in zip(again, X, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.index.equals(theirs.index), "times are kept"
    head = "@problemName R\n@timeStamps false\n@univariate true\n@equalLength true\n"
    Path("r.ts").write_text(f"{head}@targetLabel true\n@data\n1,2,3:0.5\n3,2,1:2.5\n")
    out, _ = run("convert", "r.ts", "r.csv")
    assert "r.ts: 2 series, 3 steps, targets from 0.5 to 2.5; written to r.csv" in out
    _, err = run("convert", "test.csv", "data/Own/Own_TEST.ts", *COLUMNS, exits=2)
    assert "data/Own/Own_TEST.ts exists; choose another name, or remove it first" in err


def test_convert_to_a_folder_that_is_fitted_where_it_is(folder, run):
    out, _ = run("convert", "long.csv", "test.csv", "--out", "series", *COLUMNS)
    assert out == "30 series with labels written to series\n"
    out, _ = run("fit", "series/", *SMALL)
    assert "lspe on series/: 30 series, 2 epochs" in out
    assert (
        "on the 30 test series of series/" in run("evaluate", "model", "series/", "--no-track")[0]
    )
    assert len(read(run("predict", "model", "series/")[0])) == 30
    out, _ = run("pretrain", "series/", *SMALL)
    assert "lspe on series/: 30 series" in out
    _, err = run("convert", "long.csv", "--out", "series", *COLUMNS, exits=2)
    assert "series exists; choose another name" in err
    _, err = run("convert", "long.csv", *COLUMNS, exits=2)
    assert "name one file to read and one to write, or a folder with --out; got 1 name" in err
    run("convert", "long.csv", "--out", "one", "--case", "id", "--time", "t", "--value", "a")
    _, err = run("predict", "model", "one/", exits=2)
    assert "X has 1 channels, but TSTransformerClassifier was fitted with 2" in err


def test_parquet_with_lists_is_fitted_predicted_and_converted(folder, run):
    pytest.importorskip("pyarrow", reason='needs the extra "parquet"')
    X, y = load_dataset("ItalyPowerDemand", "train")
    lists = pd.DataFrame({"x": list(X[:, 0]), "season": y})
    Path("lists").mkdir()
    lists.iloc[:40].to_parquet("lists/0.parquet")
    lists.iloc[40:].to_parquet("lists/1.parquet")
    out, _ = run("fit", "lists/0.parquet", "--label", "season", *SMALL)
    assert out.startswith("lists/0.parquet: 40 series, 24 steps, 2 classes\n")
    rows = read(run("predict", "model", "lists/1.parquet")[0])
    assert rows["label"].tolist() == load("model").predict(X[40:]).tolist()
    out, _ = run("fit", "lists/", "--label", "season", "--out", "of_both", *SMALL)
    assert "lspe on lists/: 67 series" in out
    assert len(read(run("predict", "of_both", "lists/")[0])) == 67
    out, _ = run("convert", "lists/", "--label", "season", "--out", "series")
    assert out == "67 series with labels written to series\n"
