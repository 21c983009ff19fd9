"""The same series from files of every format, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
import pytest

from tsformer.data import load_dataset
from tsformer.data.sources import read_source, write_series
from tsformer.data.table import TableSchema

WIDE = TableSchema(case="id", label="y")
Y = TableSchema(label="y")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def frame() -> pd.DataFrame:
    steps = {f"s{i}": [i, i + 0.5] for i in range(12)}
    table = pd.DataFrame({"id": ["a", "b"], "y": ["007", "1"], **steps})
    table.loc[0, "s3"] = np.nan
    return table


TEXTS = ["x.csv.gz", "x.csv.zip", "x.zip", "x.CSV.bz2", "x.csv.xz", "x.tsv.gz"]


@pytest.mark.parametrize(
    "name", [*TEXTS, "x.jsonl", "x.ndjson", "x.jsonl.gz", "x.feather", "x.parquet"]
)
def test_a_wide_table_in_every_format(name):
    table = frame()
    if "json" in name:
        compression = "gzip" if name.endswith("gz") else None
        table.to_json(name, orient="records", lines=True, compression=compression)
    elif name.endswith(("feather", "parquet")):
        pytest.importorskip("pyarrow")
        getattr(table, f"to_{name[2:]}")(name)
    else:
        table.to_csv(name, index=False, sep="\t" if "tsv" in name else ",")
    found = read_source(name, WIDE)
    np.testing.assert_array_equal(found.X[:, 0], table.iloc[:, 2:])
    assert (found.y.tolist(), found.cases) == (["007", "1"], ["a", "b"])


def test_a_compressed_table_is_written_and_a_ts_file_read_in_an_archive():
    series = read_source("BasicMotions")
    write_series(Path("x.csv.gz"), series)
    schema = TableSchema(case="case", time="time", label="label")
    assert len(read_source("x.csv.gz", schema).X) == 40
    write_series(Path("BasicMotions_TRAIN.ts"), series)
    with zipfile.ZipFile("x.zip", "w") as archive:
        archive.write("BasicMotions_TRAIN.ts")
    np.testing.assert_array_equal(read_source("x.zip").X, series.X)
    Path("y.ts.gz").write_bytes(gzip.compress(Path("BasicMotions_TRAIN.ts").read_bytes()))
    np.testing.assert_array_equal(read_source("y.ts.gz").X, series.X)


def test_what_is_wrong_with_a_compressed_file():
    frame().to_csv("x.csv.gz", index=False)
    whole = Path("x.csv.gz").read_bytes()
    Path("cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    Path("plain.csv.gz").write_text("a,y\n1,2\n")
    Path("cut.zip").write_bytes(b"PK\x03\x04")
    with zipfile.ZipFile("two.zip", "w") as archive:
        archive.writestr("a.csv", "1")
        archive.writestr("b.csv", "2")
    for name, message in {
        "cut.csv.gz": r"^cut\.csv\.gz cannot be unpacked: .* damaged or cut off",
        "plain.csv.gz": r"^plain\.csv\.gz cannot be unpacked: Not a gzipped file",
        "cut.zip": r"^cut\.zip cannot be unpacked: ",
        "two.zip": r"^two\.zip has 2 files: a\.csv, b\.csv; unpack it and name one",
        "x.gz": r"^x\.gz ends in '\.gz'",
    }.items():
        with pytest.raises(ValueError, match=message):
            read_source(name, WIDE)
    with pytest.raises(FileNotFoundError):
        read_source("none.csv.gz", WIDE)


# --- JSON lines --------------------------------------------------------------------------------


def test_lists_in_lines_of_json_are_series():
    Path("x.jsonl").write_text('{"x": [1, null, 3], "y": 1}\n\n{"x": [4, 5], "y": null}\n')
    found = read_source("x.jsonl", Y, partly=True)
    np.testing.assert_array_equal(found.X[0], [[1, np.nan, 3]])
    np.testing.assert_array_equal(found.X[1], [[4, 5]])
    assert found.y.tolist() == ["1", None], "a whole number stays whole beside a missing one"
    Path("x.jsonl").write_text('{"a": [[1, null], [3, 4]], "b": [5, 6], "y": "u"}\n')
    np.testing.assert_array_equal(read_source("x.jsonl", Y).X[0], [[1, np.nan], [3, 4], [5, 6]])


def test_a_long_table_in_lines_of_json():
    lines = ['{"id": 7, "t": 1, "v": null, "y": "a"}', '{"id": 7, "t": 0, "v": 2.5, "y": "a"}']
    Path("x.jsonl").write_text("\n".join(lines))
    found = read_source("x.jsonl", TableSchema(case="id", time="t", label="y"))
    np.testing.assert_array_equal(found.X[0]["v"], [2.5, np.nan])
    assert found.cases == ["7"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[1]\n", r"line 1: expected an object; got \[1\]"),
        ('{"x": [1], "y": 1}\n{"x": 1\n', "line 2: "),
        ('{"x": 1, "x": 2}\n', "line 1: an object has 2 entries called 'x'"),
        ("[" * 100_000, "line 1: "),
        ('{"x": [1, "a"], "y": 1}\n', "row 1: a list has text"),
        ('{"x": [[1, 2], [1]], "y": 1}\n', r"row 1: .* equal length; got lengths \[2, 1\]"),
        ('{"x": [], "y": 1}\n', r"row 1: \[\] in column 'x' is not a list"),
        ('{"x": [null], "y": 1}\n', "row 1 has no value at all"),
        ('{"x": [1], "y": 1}\n\n{"x": 3, "y": 2}\n', "row 3: 3 in column 'x' is not a list"),
        ('{"x": [1], "y": 1}\n{"x": [[1], [2]], "y": 2}\n', "row 2 has 2 channels, and the first"),
    ],
)
def test_what_is_wrong_with_lines_of_json(text, message):
    Path("x.jsonl").write_text(text)
    with pytest.raises(ValueError, match=rf"^x\.jsonl.*{message}"):
        read_source("x.jsonl", Y)


# --- ARFF --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BasicMotions", "GunPoint", "ArrowHead"])
def test_arff_of_the_archives(name):
    shipped = Path(pytest.importorskip("aeon").__file__).parent / "datasets" / "data"
    found = read_source(str(shipped / name / f"{name}_TRAIN.arff"))
    X, y = load_dataset(name, "train", folder=shipped)
    np.testing.assert_array_equal(found.X, X)
    assert found.y.tolist() == y.tolist()


HEAD = "@relation x\n@attribute 'a b' numeric\n@attribute b REAL\n@attribute c {'u, v',ä,1.0}\n"
NESTED = "@relation x\n@attribute r relational\n@attribute a numeric\n@end r\n@attribute c {a,b}\n"


def test_arff_with_quotes_comments_and_gaps():
    text = f"% about\n{HEAD}@DATA\n1,?,'u, v'\n% more\n\n?,2,ä\n3,4,1.0\n"
    Path("x.arff").write_bytes(("\ufeff" + text.replace("\n", "\r\n")).encode())
    found = read_source("x.arff")
    np.testing.assert_array_equal(found.X[:, 0], [[1, np.nan], [np.nan, 2], [3, 4]])
    assert found.y.tolist() == ["u, v", "ä", "1.0"]
    assert found.schema == TableSchema(value=("a b", "b"), label="c")
    Path("x.arff").write_text(f'{NESTED}@data\n"1,?\\n3,4",a\n"5\\n6",?\n')
    found = read_source("x.arff", partly=True)
    np.testing.assert_array_equal(found.X[0], [[1, np.nan], [3, 4]])
    np.testing.assert_array_equal(found.X[1], [[5], [6]])
    assert found.y.tolist() == ["a", None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows after @data"),
        (f"{HEAD}@data\n", "has no rows after @data"),
        (f"{HEAD}@data\n1,2,3,ä\n", "line 6: 4 values, expected 3"),
        (f"{HEAD}@data\n{{0 1, 2 ä}}\n", "line 6: sparse rows are not supported"),
        (f"{HEAD}@data\n1,2,?\n", "row 6: no label"),
        (f"{HEAD}@data\n1,w,ä\n", "row 6: 'w' in column 'b' is not a number"),
        (f"{HEAD}@data\n1,2,b\n", "line 6: 'b' is not a value that @attribute c declares"),
        (f"{NESTED}@data\n'1,2',A\n", "line 7: 'A' is not a value"),
        ("hello\n", "line 1: expected @attribute or @data; got 'hello'"),
        (f"{NESTED}@data\n'1,2\\n3',a\n", r"row 7: .* got lengths \[2, 1\]"),
        (f"{NESTED}@data\n'1,w\\n3,4',a\n", "line 7: could not convert"),
    ],
)
def test_what_is_wrong_with_arff(text, message):
    Path("x.arff").write_text(text)
    with pytest.raises(ValueError, match=rf"^x\.arff.*{message}"):
        read_source("x.arff")


# --- NumPy, Parquet, Feather -------------------------------------------------------------------


def test_arrays_of_a_file():
    X = np.arange(6.0).reshape(2, 1, 3)
    np.savez("x.npz", X=X, y=[1, 2])
    found = read_source("x.npz")
    np.testing.assert_array_equal(found.X, X)
    assert found.y.tolist() == ["1", "2"]
    assert read_source("x.npz", labelled=False).y is None
    np.savez("x.npz", data=X, target=["a", "b"], who=["p", "q"])
    schema = TableSchema(value=("data",), label="target", case="who", group="who")
    found = read_source("x.npz", schema)
    assert (found.y.tolist(), found.cases, found.groups.tolist()) == ([*"ab"], [*"pq"], [*"pq"])
    assert read_source("x.npz", trained=found.schema, labelled=False).X.shape == X.shape
    np.savez("x.npz", X)
    assert read_source("x.npz", labelled=False).X.shape == X.shape


def test_what_is_wrong_with_arrays_of_a_file():
    X = np.zeros((2, 3))
    np.savez("names.npz", data=X, target=[1, 2])
    np.savez("objects.npz", X=X, y=np.array([None, "b"]))
    np.savez("few.npz", X=X, y=[1])
    np.savez("gap.npz", X=X, y=[1, np.nan])
    np.savez("none.npz", X=X)
    Path("cut.npz").write_bytes(Path("names.npz").read_bytes()[:99])
    for name, message in {
        "names": "it has no X, the series, but data, target; say --value NAME",
        "objects": "an array holds Python objects; save numbers and text",
        "few": r"y has shape \(1,\), expected \(2,\)",
        "gap": "y is missing for series 1; leave it out",
        "none": "it has no y, the labels, but X; say --label NAME",
        "cut": "cannot be read",
    }.items():
        with pytest.raises(ValueError, match=rf"^{name}\.npz.*{message}") as caught:
            read_source(f"{name}.npz")
        assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("values", [[1, 2], [[1, 2], [3, 4]]])
def test_a_column_twice_is_named(ending, values):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pa.table([pa.array(values), pa.array(values), pa.array([*"ab"])], names=["a", "a", "y"])
    write = {"parquet": parquet.write_table, "feather": feather.write_feather}[ending]
    write(table, f"x.{ending}")
    with pytest.raises(ValueError, match=rf"x\.{ending} has 2 columns called 'a'; rename all but"):
        read_source(f"x.{ending}", Y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.jsonl", "x.arff"])
def test_many_columns_are_read_in_linear_time(name):
    seconds = []
    for n_steps in (2_000, 20_000):
        names, values = [f"t{i}" for i in range(n_steps)], [i / 8 for i in range(n_steps)]
        if name == "x.jsonl":
            rows = [dict(zip(names, values, strict=True)) | {"c": label} for label in "abab"]
            Path(name).write_text("\n".join(map(json.dumps, rows)))
        else:
            head = [f"@attribute {each} numeric" for each in names]
            rows = [",".join(map(str, [*values, label])) for label in "abab"]
            text = ["@relation x", *head, "@attribute c {a,b}", "@data", *rows]
            Path(name).write_text("\n".join(text))
        start = process_time()
        found = read_source(name, TableSchema(label="c"))
        seconds.append(process_time() - start)
        assert found.X[:, 0].tolist() == [values] * 4
    assert seconds[1] < 30 * seconds[0]
