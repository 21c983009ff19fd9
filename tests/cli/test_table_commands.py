"""Tables of one's own from the shell: fit, predict, evaluate, compare, convert, datasets."""

import io
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer import RandomConvolutionClassifier, load, load_dataset
from tsformer.data import from_long, to_long

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
    options = ("--encoding", "tape", "--checkpoint", "state", "--set", "stem_params.kernel_size=5")
    out, _ = run("fit", "long.csv", *COLUMNS, *SMALL, *options)
    assert "long.csv: 20 series, 24 to 29 steps, channels c, a, 4 classes" in out
    assert "saved in model" in out
    classifier = load("model")
    assert classifier.classes_.tolist() == ["007", "7", "None", "walking slowly"]
    assert (classifier.encoding, classifier.stem_params) == ("tape", {"kernel_size": 5})
    assert Path("state").is_dir()

    table = pd.read_csv("new.csv", dtype={"id": str}, parse_dates=["t"])
    X = from_long(table, case="id", time="t", value=["c", "a"])
    expected = dict(zip(table["id"].unique(), classifier.predict(X), strict=True))
    for file in ("new.csv", "test.csv"):  # which has labels, and a column of no use
        out, err = run("predict", "model", file)
        assert re.fullmatch("tsformer: warning: .* 30 rows are missing, .*\n", err)
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
    assert out.partition("\n")[0] == "tape on the 10 series of test.csv"
    truth = motions("test", 10).drop_duplicates("id").set_index("id")["y"]
    accuracy = sum(expected[name] == truth[name] for name in expected) / 10
    (line,) = [line for line in out.splitlines() if line.strip().startswith("accuracy")]
    assert float(line.split()[1]) == accuracy
    motions("test", 10).replace({"y": {"007": "0007"}}).to_csv("test.csv", index=False)
    _, err = run("evaluate", "model", "test.csv", "--no-track")
    assert "1 labels are unknown to the model and count as errors: '0007'" in err


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Files by several names, and folders as they are told from others."""
    monkeypatch.chdir(tmp_path)
    scores = "dataset,method,seed,score\nA,x,0,1\nA,y,0,0\nB,x,0,1\nB,y,0,0\n"
    for path, text in {
        "new.csv": "id,t,a,y\n1,0,1,x\n",
        "scores.csv": scores,
        "model/estimator.json": "{}",
        "series/series.npy": "",
        "series/labels.npy": "",
        "data/Own/Own_TEST.ts": "",
        "mine/report.md": "mine",
        "mine/summary.md": "mine",
    }.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    os.link("new.csv", "hard.csv")
    Path("link").symlink_to("model")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "predict model new.csv --out hard.csv",
        "predict model new.csv --out model/x.csv",
        "predict model new.csv --out series/labels.npy",
        "explain model new.csv --out hard.csv",
        "fit new.csv --label y --out model/x",
        "fit new.csv --label y --init-from model --out link",
        "pretrain new.csv --label y --out series",
        "convert new.csv hard.csv --case id --time t",
        "compare --datasets BasicMotions --encodings none --out mine",
        "demo --out model/x",
        "plot-encoding fixed --out model/fixed",
        "report scores.csv --out mine",
    ],
)  # fmt: skip
def test_nothing_that_is_read_and_no_folder_of_others_is_overwritten(command, models, run):
    def content():
        return {str(path): path.read_bytes() for path in models.rglob("*") if path.is_file()}

    before = content()
    _, err = run(*command.split(), exits=2)
    after = content()
    assert re.search(r"cannot be written|overwritten|choose another|No such option", err), err
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if path not in before and "mlflow" not in path]


def test_convert_there_and_back_and_as_a_data_set_of_ones_own(folder, run, monkeypatch):
    monkeypatch.delenv("TSFORMER_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    out, err = run("convert", "long.csv", "data/Own/Own_TRAIN.ts", *COLUMNS)
    assert out.startswith("long.csv: 20 series, 24 to 29 steps, channels c, a, 4 classes; written")
    assert "'walking slowly': 'walking_slowly'" in err
    run("convert", "test.csv", "data/Own/Own_TEST.ts", *COLUMNS)
    (line,) = [line for line in run("datasets")[0].splitlines() if line.startswith("Own ")]
    assert line.split() == ["Own", "20", "10", "2", "24-29", "4", "data"]
    X, y = load_dataset("Own", "test")
    assert (len(X), X[0].shape[1]) == (10, 2)
    assert sorted(set(y)) == ["007", "7", "None", "walking_slowly"]
    Path("s.csv").write_text("a\tb\ty\n1\t2\tu\n3\t4\tv\n")
    out, _ = run("convert", "s.csv", "s.ts", "--label", "y", "--sep", "tab")
    assert "s.csv: 2 series, 2 steps, 2 classes" in out
    _, err = run("convert", "test.csv", "data/Own/Own_TEST.ts", *COLUMNS, exits=2)
    assert "data/Own/Own_TEST.ts exists; choose another name, or remove it first" in err


def test_predicted_labels_and_names_are_no_formulas(run):
    labels = ["=HYPERLINK(1)", "-1", "+cmd|x", "@sum", "\t=1", "-1e-3", "a=1", "'b"]
    X = np.random.default_rng(0).normal(np.repeat(np.arange(8), 2)[:, None, None], size=(16, 1, 12))
    RandomConvolutionClassifier(168, n_groups=2).fit(X, np.repeat(labels, 2)).save("model")
    names = [f"=s{i}" if i % 2 else f"s{i}" for i in range(16)]
    table = pd.DataFrame(X[:, 0], index=pd.Index(names, name="id"))
    table.to_csv("new.csv")
    out, _ = run("predict", "model", "new.csv", "--case", "id")
    rows = pd.read_csv(io.StringIO(out), dtype=str)
    written = {label if label in {"-1", "-1e-3", "a=1", "'b"} else f"'{label}" for label in labels}
    predicted = [label.removeprefix("'") for label in load("model").predict(X)]
    assert set(rows["label"]) <= written
    assert [text.removeprefix("'") for text in rows["label"]] == predicted
    assert rows["id"].tolist() == [f"'{name}" if name[0] == "=" else name for name in names]
