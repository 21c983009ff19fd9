"""Series from files of every format, from folders and by name; damage; and written files."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.data import write_ts
from tsformer.data.sources import (
    Source,
    convert_to_folder,
    is_series_folder,
    read_source,
    write_series,
)
from tsformer.data.table import TableSchema

LONG = TableSchema(case="case", time="time", label="label")
WIDE = TableSchema(case="id", label="y")
Y = TableSchema(label="y")
X = np.random.default_rng(0).normal(size=(6, 2, 6)).astype(np.float32)


@pytest.mark.parametrize("ending", ["csv.gz", "parquet", "ts"])
def test_a_problem_of_the_archive_there_and_back(ending):
    pytest.importorskip("sktime", reason='the problems come with the extra "data"')
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    problem = read_source("JapaneseVowels", split="test")
    names = None if ending == "ts" else [f"s{i}" for i in range(12)]
    problem = Source(problem.X[:12], problem.y[:12], names)
    write_series(Path(f"new/x.{ending}"), problem, comment="why")
    again = read_source(f"new/x.{ending}", None if ending == "ts" else LONG)
    assert again.y.tolist() == problem.y.tolist()
    assert again.cases == names
    for ours, theirs in zip(again.X, problem.X, strict=True):
        np.testing.assert_array_equal(ours if ending == "ts" else ours.to_numpy().T, theirs)


def test_what_a_model_was_trained_on_holds_unless_said_otherwise():
    def predicted(text, trained, schema=None):
        Path("x.csv").write_text(text)
        return read_source("x.csv", schema, trained=trained, labelled=False)

    trained = TableSchema(case="id", time="t", value=("a",), label="y")
    assert predicted("id,t,a\n1,0,5\n", trained).cases == ["1"]
    renamed = "patient,t,a\n1,0,5\n"
    assert predicted(renamed, trained, TableSchema(case="patient")).cases == ["1"]
    with pytest.raises(ValueError):
        predicted(renamed, trained)
    for names in (("400", "400.5", "401"), ("0", "1", "2")):
        X = predicted(f"{','.join(names)}\n5,6,7\n1,2,3\n", TableSchema(label="y", value=names)).X
        np.testing.assert_array_equal(X, [[[5, 6, 7]], [[1, 2, 3]]])
    text, trained = "0.5,0.25\n1,3\n", TableSchema(label="y", value=("0", "1"), drop=("Age",))
    with pytest.raises(ValueError):
        predicted(text, trained)
    assert predicted(text, trained, TableSchema(header=False)).X.shape == (2, 1, 2)


def test_numbers_and_none_in_place_of_labels():
    Path("x.ts").write_text("@targetLabel true\n@data\n1,2:0.5\n3,4:-1e2\n")
    with pytest.raises(ValueError):
        read_source("x.ts")
    source = read_source("x.ts", labelled=None)
    assert source.y.tolist() == [0.5, -100]
    with pytest.raises(ValueError):
        write_series(Path("y.ts"), source)
    write_ts("x.ts", np.zeros((2, 1, 3)))
    assert read_source("x.ts", labelled=None).y is None
    with pytest.raises(ValueError):
        read_source("x.ts")


def test_what_cannot_be_read():
    for source, message in (
        ("x.xlsx", "save as CSV"),
        ("NATOPS", "`case=`, `time=`, `label=`"),
    ):
        with pytest.raises(ValueError, match=message):
            read_source(source, LONG)


def test_what_cannot_be_written():
    for value in (np.inf, np.nan):
        with pytest.raises(ValueError):
            write_series(Path("no.csv"), Source(np.full((2, 1, 3), value), None))
    assert not Path("no.csv").exists()
    series = Source([np.zeros((1, 3))], np.array(["a"]))
    Path("x.ts").write_text("mine")
    for name, error in (("x.xlsx", ValueError), ("x.ts", FileExistsError)):
        with pytest.raises(error):
            write_series(Path(name), series)
    assert Path("x.ts").read_text() == "mine"


def frame() -> pd.DataFrame:
    steps = {f"s{i}": [i, i + 0.5] for i in range(12)}
    table = pd.DataFrame({"id": ["a", "b"], "y": ["007", "1"], **steps})
    table.loc[0, "s3"] = np.nan
    return table


@pytest.mark.parametrize("name", ["x.zip", "x.CSV.bz2", "x.csv.xz", "x.tsv.gz", "x.parquet"])
def test_a_wide_table_in_every_format(name):
    table = frame()
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        table.to_parquet(name)
    else:
        table.to_csv(name, index=False, sep="\t" if "tsv" in name else ",")
    source = read_source(name, WIDE)
    np.testing.assert_array_equal(source.X[:, 0], table.iloc[:, 2:])
    assert (source.y.tolist(), source.cases) == (["007", "1"], ["a", "b"])


def test_a_compressed_ts_file_is_read():
    write_ts("x.ts", X, [*"ababab"])
    with zipfile.ZipFile("x.ts.zip", "w") as archive:
        archive.write("x.ts")
    Path("y.ts.gz").write_bytes(gzip.compress(Path("x.ts").read_bytes()))
    for name in ("x.ts.zip", "y.ts.gz"):
        np.testing.assert_array_equal(read_source(name).X, X)


def test_what_is_wrong_with_a_compressed_file():
    frame().to_csv("x.csv.gz", index=False)
    whole = Path("x.csv.gz").read_bytes()
    Path("cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    Path("cut.zip").write_bytes(b"PK\x03\x04")
    with zipfile.ZipFile("two.zip", "w") as archive:
        archive.writestr("a.csv", "1")
        archive.writestr("b.csv", "2")
    for name in ("cut.csv.gz", "cut.zip", "two.zip", "x.gz"):
        with pytest.raises(ValueError):
            read_source(name, WIDE)


@pytest.fixture
def folder(tmp_path):
    """A folder of two files with series of unequal lengths."""
    write_ts("one.ts", [X[0], X[1, :, :4], X[2]], ["a", "b", "a"])
    write_ts("two.ts", list(X[3:6, :, :5]), ["b", "b", "a"])
    assert convert_to_folder(["one.ts", "two.ts"], tmp_path / "series") == (6, True)
    return tmp_path / "series"


def test_a_folder_is_read_where_it_is(folder):
    source = read_source(str(folder))
    assert source.X.lengths.tolist() == [6, 4, 6, 5, 5, 5]
    assert source.y.tolist() == ["a", "b", "a", "b", "b", "a"]
    np.testing.assert_array_equal(source.X.read(np.array([1])).values[0, :4], X[1, :, :4].T)
    array = np.load(folder / "series.npy", mmap_mode="r")
    assert (array.shape, array.dtype) == ((6, 2, 6), np.float32)
    (folder / "labels.npy").unlink()
    with pytest.raises(ValueError):
        read_source(str(folder))


def test_a_folder_of_tables_and_one_of_a_split(tmp_path, monkeypatch):
    for name in ("Tiny", "tables"):
        Path(name).mkdir()
    Path("tables/x.csv").write_text("id,t,v\na,0,1\na,1,2\nb,0,3\n")
    source = read_source("tables/", TableSchema(case="id", time="t"), labelled=False)
    assert [len(series) for series in source.X] == [2, 1]
    monkeypatch.setenv("TSFORMER_DATA", ".")
    write_ts("Tiny/Tiny_TRAIN.ts", X[:4], [*"abab"])
    write_ts("Tiny/Tiny_TEST.ts", X[4:5], ["b"])
    assert convert_to_folder(["Tiny"], tmp_path / "series", split="test") == (1, True)


def test_what_cannot_be_a_folder(folder, tmp_path):
    with pytest.raises(FileExistsError):
        convert_to_folder(["one.ts"], folder)
    write_ts("narrow.ts", X[:2, :1])
    write_ts("bare.ts", X[:2])
    write_ts("large.ts", X.astype(np.float64) * 1e39)
    for name, values in {"one.csv": "a,b", "other.csv": "b,a"}.items():
        Path(name).write_text(f"id,t,{values}\n1,0,2,3\n")
    new, schema = tmp_path / "new", TableSchema(case="id", time="t")
    for files, *options in (
        (["one.ts", "narrow.ts"],),
        (["one.csv", "other.csv"], schema),
        (["bare.ts", "one.csv", "other.csv"], schema),
        (["one.ts", "bare.ts"],),
        (["large.ts"],),
    ):
        with pytest.raises(ValueError):
            convert_to_folder(files, new, *options)
    assert not is_series_folder(new)


def test_times_that_a_folder_does_not_have():
    write_ts("x.ts", [pd.DataFrame(X[0].T, index=np.arange(6) / 2)])
    with pytest.warns(UserWarning, match="times"):
        convert_to_folder(["x.ts"], Path("series"))


@pytest.mark.parametrize("labels", [np.array([{}, None]), np.zeros(6), np.array(["a"] * 5)])
def test_labels_that_are_none(folder, labels):
    np.save(folder / "labels.npy", labels)
    with pytest.raises(ValueError) as caught:
        read_source(str(folder))
    assert "pickle" not in str(caught.value), "nobody is advised to run the content of a file"
