"""Series by name, from a .ts file and from a table; and written to any of the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.data import from_long, load_dataset, read_ts, write_ts
from tsformer.data.sources import Source, is_file, read_source, write_series
from tsformer.data.table import TableSchema

LONG = TableSchema(case="case", time="time", label="label")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("source", "expected"),
    [("NATOPS", False), ("x.csv", True), ("a/x.TS", True), ("x.xlsx", True), ("../NATOPS", False)],
)
def test_files_have_an_ending(source, expected):
    assert is_file(source) is expected


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "ts"])
@pytest.mark.parametrize("name", ["BasicMotions", "JapaneseVowels"])
def test_a_problem_of_the_archive_there_and_back(name, ending):
    pytest.importorskip("sktime", reason='the problems come with the extra "data"')
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    problem = read_source(name, split="test")
    problem = Source(problem.X[:12], problem.y[:12])
    write_series(Path(f"new/x.{ending}"), problem, comment="why")
    again = read_source(f"new/x.{ending}", None if ending == "ts" else LONG)
    assert again.y.tolist() == problem.y.tolist()
    assert again.cases == (None if ending == "ts" else [str(i) for i in range(12)])
    for ours, theirs in zip(again.X, problem.X, strict=True):
        np.testing.assert_array_equal(ours if ending == "ts" else ours.to_numpy().T, theirs)


def test_a_data_set_by_name_has_splits():
    pytest.importorskip("sktime", reason='the problems come with the extra "data"')
    for split in ("train", "test"):
        found = read_source("ItalyPowerDemand", split=split)
        np.testing.assert_array_equal(found.X, load_dataset("ItalyPowerDemand", split)[0])
        assert found.schema is None


def test_columns_keep_their_names_from_table_to_table():
    text = "who,when,up,left,kind\nb,2024-01-01,1,2,x y\nb,2024-01-02,,4,x y\na,2024-01-01,5,6,07\n"
    Path("x.csv").write_text(text)
    schema = TableSchema(case="who", time="when", label="kind")
    found = read_source("x.csv", schema)
    write_series(Path("y.csv"), found)
    pd.testing.assert_frame_equal(pd.read_csv("y.csv"), pd.read_csv("x.csv"))
    with pytest.warns(UserWarning, match="'x y' is written as 'x_y'"):
        write_series(Path("y.ts"), found)
    X, y = read_ts("y.ts")
    assert y.tolist() == ["x_y", "07"]
    np.testing.assert_array_equal(X[0], [[1, 2], [np.nan, 4]])
    assert X[0].index.equals(found.X[0].index), "no time is lost"
    expected, _ = from_long(
        pd.read_csv("x.csv"), case="who", time="when", value=["up", "left"], label="kind"
    )
    np.testing.assert_array_equal(found.X[1], expected[1])


def test_names_that_a_model_was_trained_on_may_be_numbers():
    for names in (["400", "400.5", "401"], ["9", "8", "7"], ["0", "1", "2"]):
        trained = TableSchema(label="y", value=tuple(names))
        Path("x.csv").write_text(f"{','.join(names)}\n5,6,7\n1,2,3\n")
        X = read_source("x.csv", trained=trained, labelled=False).X
        np.testing.assert_array_equal(X, [[[5, 6, 7]], [[1, 2, 3]]])


def test_what_a_model_was_trained_on_holds_unless_said_otherwise():
    trained = TableSchema(case="id", time="t", value=("a",), label="y")
    Path("x.csv").write_text("id,t,a\n1,0,5\n")
    assert read_source("x.csv", trained=trained, labelled=False).cases == ["1"]
    Path("x.csv").write_text("patient,t,a\n1,0,5\n")
    with pytest.raises(ValueError, match="lacks the column that the model was trained on: 'id'"):
        read_source("x.csv", trained=trained, labelled=False)
    renamed = TableSchema(case="patient")
    assert read_source("x.csv", renamed, trained=trained, labelled=False).cases == ["1"]
    with pytest.raises(ValueError, match="lacks the column: 'y'"):
        read_source("x.csv", renamed, trained=trained)


def test_a_file_without_names_is_not_read_as_the_table_that_a_model_had():
    trained = TableSchema(label="y", value=("0", "1"))
    Path("x.csv").write_text("0.5,0.25\n1,3\n")
    with pytest.raises(ValueError, match=r"lacks the columns that the model .* add --no-header"):
        read_source("x.csv", trained=trained, labelled=False)
    meant = read_source("x.csv", TableSchema(header=False), trained=trained, labelled=False)
    assert meant.X.tolist() == [[[0.5, 0.25]], [[1, 3]]]
    without = TableSchema(label="2", value=("0", "1"), header=False)
    assert read_source("x.csv", trained=without, labelled=False).X.shape == (2, 1, 2)


def test_numbers_in_place_of_classes():
    Path("x.ts").write_text("@targetLabel true\n@data\n1,2:0.5\n3,4:-1e2\n")
    with pytest.raises(ValueError, match=r"x\.ts has numbers in place of classes .*Regressor"):
        read_source("x.ts")
    found = read_source("x.ts", labelled=None)
    assert found.y.tolist() == [0.5, -100]
    with pytest.raises(ValueError, match="would have classes in place of numbers"):
        write_series(Path("y.ts"), found)


def test_labels_of_a_ts_file():
    write_ts("x.ts", np.zeros((2, 1, 3)))
    assert read_source("x.ts", labelled=None).y is None
    with pytest.raises(ValueError, match=r"x\.ts has no labels"):
        read_source("x.ts")
    write_ts("x.ts", np.zeros((2, 1, 3)), "ab")
    assert read_source("x.ts", labelled=None).y.tolist() == ["a", "b"]
    assert read_source("x.ts", labelled=False).y is None


@pytest.mark.parametrize(
    ("source", "schema", "message"),
    [
        ("x.xlsx", LONG, r"x\.xlsx ends in '\.xlsx'; files of series end in one of \.ts, \.csv"),
        ("NATOPS", LONG, "no table, .*: leave out --case, --time, --label"),
        ("x.ts", TableSchema(time_format="%d"), "no table, .*: leave out --time-format"),
    ],
)
def test_what_cannot_be_read(source, schema, message):
    with pytest.raises(ValueError, match=message):
        read_source(source, schema)


def test_what_cannot_be_written():
    series = Source([np.zeros((1, 3))], np.array(["a"]))
    with pytest.raises(ValueError, match=r"x\.xlsx ends in"):
        write_series(Path("x.xlsx"), series)
    Path("x.ts").write_text("mine")
    with pytest.raises(FileExistsError, match=r"x\.ts exists; choose another name, or remove it"):
        write_series(Path("x.ts"), series)
    assert Path("x.ts").read_text() == "mine"
