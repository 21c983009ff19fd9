"""Recordings from the shell: fit on windows, predict intervals, score steps; against Python."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer import load
from tsformer.data import windows
from tsformer.data.sources import read_source
from tsformer.data.table import TableSchema

SMALL = ["--no-track", "--max-epochs", "2", "--seed", "1"]
for setting in ("d_model=8", "n_heads=2", "n_layers=1", "verbose=0"):
    SMALL += ["--set", setting]
CUT = ["--window", "2s", "--stride", "1s", "--label", "activity", "--group", "person"]
SCHEMA = TableSchema(window="2s", stride="1s", label="activity", group="person")


def recorded(persons: str, seed: int, day: str = "2024-03-01") -> pd.DataFrame:
    """Return 30 s of each person at 10 Hz, with a pause, unlabelled time, and a gap in x."""
    rng = np.random.default_rng(seed)
    frames = []
    for person in persons:
        seconds = np.arange(300) / 10 + 60.0 * (np.arange(300) >= 200)
        label = np.repeat(["rest", "walk", "rest", None, "run", "walk"], 50)
        x = rng.normal(size=300) + 4 * (label == "walk") - 4 * (label == "run")
        x[7] = np.nan
        time = pd.Timestamp(day) + pd.to_timedelta(seconds, unit="s")
        frames.append(pd.DataFrame({"time": time, "x": x, "y": 1 - x, "activity": label}))
        frames[-1]["person"] = person
    return pd.concat(frames).sort_values("time", kind="stable")  # persons at the same time


def by_hand(table: pd.DataFrame, label: str | None, length: object = "2s", stride: object = "1s"):
    persons = dict(list(table.groupby("person")))
    X = {person: rows.set_index("time")[["x", "y"]] for person, rows in persons.items()}
    y = {person: rows["activity"].tolist() for person, rows in persons.items()}
    return windows(X, y if label else None, length, stride)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("ABC", 0).to_csv("recording.csv", index=False)
    recorded("D", 1, "2024-05-01").to_csv("test.csv", index=False)
    new = recorded("D", 1, "2024-05-01").drop(columns=["activity", "person"])
    new[["y", "time", "x"]].to_csv("new.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(("length", "stride"), [("2s", "1s"), (20, 5), ("2s", None)])
def test_a_table_is_cut_as_in_python(folder, length, stride):
    cut = {"window": str(length), "stride": stride and str(stride)}
    source = read_source("recording.csv", TableSchema(**cut, label="activity", group="person"))
    cut = by_hand(recorded("ABC", 0), "activity", length, stride or length)
    np.testing.assert_array_equal(source.X, cut.X)
    assert source.y.tolist() == cut.y.tolist()
    assert source.groups.tolist() == cut.groups.tolist()
    assert (source.schema.time, source.schema.value) == ("time", ("x", "y"))
    numbered = recorded("A", 0).drop(columns=["time", "person"])
    numbered.to_csv("steps.csv", index=False)
    source = read_source("steps.csv", TableSchema(window="20", label="activity"))
    starts = [0, 20, 60, 80, 100, 120, 140, 200, 220, 260, 280]
    assert source.windows.origins["start"].tolist() == starts


def test_files_of_a_folder_are_recordings(folder):
    Path("days").mkdir()
    for person in "AB":
        recorded(person, 3).to_csv(f"days/{person}.csv", index=False)
    two = recorded("AC", 4).sort_values("person", kind="stable")
    two.to_csv("days/two.csv", index=False)
    source = read_source("days/", SCHEMA)
    assert [*source.windows.recordings] == ["A.csv A", "B.csv B", "two.csv A", "two.csv C"]
    assert pd.Series(source.groups).value_counts().to_dict() == {"A": 42, "B": 21, "C": 21}
    two[two["person"] == "C"].to_csv("days/two.csv", index=False)
    alone = read_source("days/", TableSchema(window="2s", label="activity", drop=("person",)))
    assert [*alone.windows.recordings] == ["A.csv", "B.csv", "two.csv"]


def test_a_model_of_windows_predicts_intervals_without_options(folder, run):
    out, _ = run("fit", "recording.csv", *CUT, *SMALL)
    cut = by_hand(recorded("ABC", 0), "activity")
    assert out.startswith(f"recording.csv: {len(cut)} windows of 3 recordings, 20 steps")
    model = load("model")
    assert model.table_schema_.cut == ("2s", "1s")
    cut = by_hand(recorded("D", 1, "2024-05-01"), None)
    steps = cut.steps(model.predict_proba(cut.X), classes=model.classes_)
    columns = ["start", "end", "label"]
    for file, name, least in (("new.csv", "new", "0.1s"), ("test.csv", "D", "4s")):
        out, err = run("predict", "model", file, "--least-duration", least)
        rows = pd.read_csv(io.StringIO(out), parse_dates=["start", "end"])
        events = cut.events(steps, least)
        assert (set(rows["recording"]), err) == ({name}, "")
        pd.testing.assert_frame_equal(rows[columns], events[columns], check_dtype=False)
        np.testing.assert_allclose(rows["confidence"], events["confidence"], atol=1e-5)
    assert len(events) > 2
    run("predict", "model", "new.csv", "--out", "intervals.csv", "--stride", "1")
    labels = pd.read_csv("intervals.csv", parse_dates=["start", "end"])
    x = pd.read_csv("new.csv", index_col="time", parse_dates=True)
    assert len(windows({"new": x}, labels, "2s", "1s"))  # are read as labels

    out, _ = run("evaluate", "model", "test.csv", "--no-track")
    truth = cut.steps(model.predict_proba(cut.X), classes=model.classes_)
    truth["true"] = recorded("D", 1)["activity"].to_numpy()
    scores = ", ".join(f"{name} {score:.4f}" for name, score in cut.scores(truth).items())
    assert out.rstrip().endswith(f"recordings: {scores}")
    _, err = run("predict", "model", "new.csv", "--proba", exits=2)
    assert "intervals have a confidence" in err


PERSONS = "--label activity --value x,y --case person"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (f"{PERSONS} --window 10min", "length='10min', 6000 steps"),
        (f"{PERSONS} --stride 2s", "--stride needs --window"),
        ("--label activity --value x,y --case lost --window 2s", "row 6: no value in"),
        ("--label full --value x,y", "Cut the recording into series with --window and --stride\n"),
    ],
)
def test_an_error_is_one_line(options, problem, folder, run):
    table = recorded("AB", 0).assign(day=np.repeat([0, 1], 300))
    table["full"] = table["activity"].fillna("rest")
    table["lost"] = table["person"].where(table.index != 4)
    table.sort_values("person", kind="stable").to_csv("recording.csv", index=False)
    out, err = run("fit", "recording.csv", *options.split(), *SMALL, exits=2)
    assert problem in err
    assert (out, err.count("\n")) == ("", 1)
    assert not Path("model").exists()
