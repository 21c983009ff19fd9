"""Parquet files with a list of values in each row: what is read, and what is refused, by name."""

import os
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tsformer.data import parquet
from tsformer.data.containers import to_padded, to_source
from tsformer.data.parquet import ParquetSeries, holds_lists, unpacked
from tsformer.data.sources import convert_to_folder, read_folder, read_source, write_series
from tsformer.data.table import TableSchema

pa = pytest.importorskip("pyarrow", reason='needs the extra "parquet"')
pq = pytest.importorskip("pyarrow.parquet")

X = np.random.default_rng(0).normal(size=(9, 2, 6)).astype(np.float32)
Y = np.array(["a", "b", "c"] * 3)
FLAT, NESTED = pa.list_(pa.float32()), pa.list_(pa.list_(pa.float32()))


@pytest.fixture(autouse=True)
def unpacked_here(tmp_path, monkeypatch):
    """Unpack where a test can see it, and a few rows at a time."""
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr(parquet, "_temporary", lambda: tmp_path / "unpacked")
    monkeypatch.setattr(parquet, "_VALUES", 30)


def write(name: str, columns: dict[str, object], **options: object) -> Path:
    Path(name).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), name, **options)
    return Path(name)


def flat(values: np.ndarray, kind=FLAT):
    return pa.array([None if row is None else list(row) for row in values], kind)


def nested(values: np.ndarray, kind=NESTED):
    return pa.array([[list(channel) for channel in row] for row in values], kind)


def read(path: object) -> np.ndarray:
    return to_padded(path).values.transpose(0, 2, 1)


@pytest.mark.parametrize(
    "columns",
    [
        {"x": nested(X)},
        {"x": nested(X, pa.list_(pa.list_(pa.float32(), 6), 2))},
        {"up": flat(X[:, 0], pa.list_(pa.float32(), 6)), "left": flat(X[:, 1])},
        {"label": Y, "x": nested(X), "n": np.arange(9)},
        {"x.y": nested(X), "x": np.arange(9)},
    ],
    ids=["nested", "fixed size", "two kinds of lists", "others", "a point"],
)
@pytest.mark.parametrize("row_group_size", [2, 9])
def test_layouts(columns, row_group_size):
    path = write("x.parquet", columns, row_group_size=row_group_size)
    np.testing.assert_array_equal(read(path), X)
    assert ParquetSeries(path).dtype == np.float32


def test_columns_with_a_channel_each_name_the_channels():
    path = write("x.parquet", {"up": flat(X[:, 0]), "left": flat(X[:, 1])})
    assert to_source(path).channels == ("up", "left")
    assert read_source(path, TableSchema(), labelled=False).X.channels == ("up", "left")
    for columns in ({"x": flat(X[:, 0])}, {"x": nested(X), "y": flat(X[:, 0])}):
        assert to_source(write("y.parquet", columns)).channels is None


def test_files_of_a_folder_are_taken_by_name():
    write("series/b.parquet", {"x": nested(X[4:])})
    write("series/a.pq", {"x": nested(X[:4])})
    write("series/c.parquet", {"x": nested(X[:0])})
    write("series/_left.parquet", {"x": nested(X)})
    Path("series/_SUCCESS").touch()
    np.testing.assert_array_equal(read("series"), X)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (pa.float16(), np.float32),
        (pa.int16(), np.float32),
        (pa.int32(), np.float64),
        (pa.float64(), np.float64),
    ],
)
def test_no_digit_of_a_number_is_lost(kind, stored):
    big = 2**24 + 1 if stored == np.float64 else 2
    values = [[big, 1024, None], [-5, 1000, 3]]
    values = [[None if v is None else kind.to_pandas_dtype()(v) for v in row] for row in values]
    path = write("x.parquet", {"x": pa.array(values, pa.list_(kind))})
    assert ParquetSeries(path).dtype == stored
    expected = [[np.nan if v is None else float(v) for v in row] for row in values]
    np.testing.assert_array_equal(read(path)[:, 0], expected)


def test_the_columns_of_values_can_be_named():
    path = write("x.parquet", {"x": flat(X[:, 0]), "tags": pa.array([["t"]] * 9), "y": Y})
    rows = unpacked(ParquetSeries(path, ["x"]))
    np.testing.assert_array_equal(rows.read(np.arange(9))[:, 0], X[:, 0])
    write("y.parquet", {"up": flat(X[:, 0]), "left": flat(X[:, 1])})
    swapped = unpacked(ParquetSeries("y.parquet", ["left", "up"]))
    np.testing.assert_array_equal(swapped.read(np.arange(9)), X[:, ::-1])
    with pytest.raises(ValueError, match=r"column 'tags' of .*x\.parquet has list<.*string> in"):
        read(path)
    with pytest.raises(ValueError, match=r"unknown column of .*'z'"):
        ParquetSeries(path, ["z"])


def test_what_is_unpacked_is_removed_with_its_last_user(tmp_path):
    source = to_source(write("x.parquet", {"x": nested(X)}))
    part = source.part(np.arange(3))
    assert len(os.listdir(tmp_path / "unpacked")) == 1
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(again.padded().values, source.padded().values)
    del again
    del source
    assert part.padded().values.shape == (3, 6, 2), "a part still needs it"
    del part
    assert os.listdir(tmp_path / "unpacked") == []


def test_a_folder_without_series(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no series\.npy and no Parquet .*convert"):
        to_source(tmp_path / "unpacked")


def test_large_files_are_announced_and_need_room(monkeypatch, tmp_path):
    path = write("x.parquet", {"x": nested(X)})
    monkeypatch.setattr(parquet, "_MANY_BYTES", 4 * X.size)
    with pytest.warns(UserWarning, match=r"unpacks .* into 0\.0 GiB .*tsformer convert"):
        read(path)
    path = write("x.parquet", {"x": nested(X)})
    monkeypatch.setattr(parquet.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**8))
    with pytest.raises(OSError, match=r"GiB free: .* TMPDIR.*tsformer convert .*x\.parquet --out"):
        read(path)
    assert os.listdir(tmp_path / "unpacked") == []


def test_a_disk_is_preferred_to_memory(monkeypatch):
    monkeypatch.undo()
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(parquet.os, "access", lambda *_: True)
    assert parquet._temporary() == "/var/tmp"


TENSORS = pa.fixed_shape_tensor(pa.float32(), (2, 3))
#: Columns, and why they are no series.
WRONG = {
    "empty": ({"x": pa.array([[1, 2], []], FLAT)}, "row 1 of .* has an empty list in column 'x'"),
    "null": ({"x": flat([X[0, 0], X[1, 0], None])}, "row 2 of .* has no list in column 'x'"),
    "no channel": ({"x": pa.array([[[1]], [None]], NESTED)}, "row 1 .* has no list in column"),
    "unequal": (
        {"x": pa.array([[[1], [2, 3]]], NESTED)},
        "row 0 .* lists of unequal length in",
    ),
    "fewer": (
        {"x": pa.array([[[1], [3]], [[1]]], NESTED)},
        "row 1 .* has not the 2 lists of row 0",
    ),
    "columns": (
        {"a": flat(X[:2, 0]), "b": flat([X[0, 1], [3]])},
        "unequal length in the columns",
    ),
    "tensors": (
        {"x": pa.ExtensionArray.from_storage(TENSORS, flat(X[:, 0], pa.list_(pa.float32(), 6)))},
        "column 'x' .* has .*tensor.* in a row",
    ),
    "no rows": ({"x": nested(X[:0])}, "holds no series"),
    "long": ({"case": [1, 1], "v": [0.5, 1.5]}, "has case: int64, .* `tsformer convert FILE"),
}


@pytest.mark.parametrize("name", WRONG)
def test_columns_that_are_no_series(name, tmp_path):
    columns, message = WRONG[name]
    path = write("x.parquet", columns)
    with pytest.raises(ValueError, match=message) as error:
        read(path)
    assert "x.parquet" in str(error.value)
    assert error.traceback, "which keeps all objects that it is about"
    assert os.listdir(tmp_path / "unpacked") == [], "nothing is left"
    assert holds_lists(path) == (name != "long")


def test_files_that_differ():
    a, b = "series/a.parquet", "series/b.parquet"
    write(a, {"x": nested(X)})
    write(b, {"x": nested(X[:, :1])})
    with pytest.raises(ValueError, match=r"row 0 of .*b\.parquet has 1 .*'x', .* series 2"):
        read("series")
    write(a, {"x": flat(X[:, 0])})
    for columns, message in (
        ({"x": flat(X[:, 0], pa.list_(pa.float64()))}, r"b\.parquet has x: list of float64"),
        ({"z": flat(X[:, 0])}, r"b\.parquet has z: list of float32"),
    ):
        write(b, columns)
        with pytest.raises(ValueError, match=rf"a\.parquet has x: list of float32, .*{message}"):
            read("series")


def test_damaged_files():
    path = write("x.parquet", {"x": nested(np.tile(X, (200, 1, 1)))}, compression="none")
    whole = path.read_bytes()
    for damaged in (whole[:-100], b"", b"text", whole[:200] + b"\xff" * 4000 + whole[4200:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"x\.parquet cannot be read as Parquet"):
            read(path)
    with pytest.raises(FileNotFoundError, match=r"no such file: .*nothing\.parquet"):
        read("nothing.parquet")


def test_the_extra_is_named(monkeypatch):
    path = write("x.parquet", {"x": nested(X)})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "tsformer\[parquet\]"'):
        read(path)


def test_a_source_has_labels_names_and_groups():
    write("series/a.parquet", {"x": nested(X[:4]), "y": Y[:4], "id": np.arange(4)})
    write("series/b.parquet", {"x": nested(X[4:]), "y": Y[4:], "id": np.arange(4, 9)})
    schema = TableSchema(label="y", case="id")
    for path in ("series", "series/a.parquet"):
        found = read_source(path, schema)
        n = len(found.X)
        assert found.y.tolist() == Y[:n].tolist()
        assert found.cases == [str(i) for i in range(n)]
        assert found.schema == TableSchema(label="y", case="id", value=("x",))
        np.testing.assert_array_equal(found.X.padded().values, X[:n].transpose(0, 2, 1))
    assert read_folder("series").y is None
    assert read_source("series", labelled=None).y is None
    with pytest.raises(ValueError, match=r"labels, with --label"):
        read_source("series")
    with pytest.raises(ValueError, match=r"unknown column of .*a\.parquet 'Y': did you mean 'y'\?"):
        read_source("series", TableSchema(label="Y"))
    write("series/b.parquet", {"x": nested(X[4:6]), "y": ["a ", " b"]})
    assert read_source("series", TableSchema(label="y")).y[-2:].tolist() == ["a", "b"]
    for missing in (None, " "):
        write("series/b.parquet", {"x": nested(X[4:6]), "y": ["a", missing]})
        with pytest.raises(ValueError, match=r"row 1 of .*b\.parquet has no value in column 'y'"):
            read_source("series", TableSchema(label="y"))
    write("x.parquet", {"x": nested(X[:2]), "y": ["a\0", "a"]})
    with pytest.raises(ValueError, match="column 'y' has text with a NUL character"):
        read_source("x.parquet", TableSchema(label="y"))


def test_it_is_written_to_other_files():
    write("series/a.parquet", {"x": nested(X), "y": Y})
    assert convert_to_folder(["series"], Path("out"), TableSchema(label="y")) == (9, True)
    np.testing.assert_array_equal(read("out"), X)
    write("x.parquet", {"x": flat([[1, 2, 3], [4, 5]]), "y": ["a", "b"], "id": ["one", "two"]})
    found = read_source("x.parquet", TableSchema(label="y", case="id"))
    write_series(Path("x.csv"), found)
    again = read_source("x.csv", TableSchema(case="id", time="time", label="y"))
    assert [x.to_numpy()[:, 0].tolist() for x in again.X] == [[1, 2, 3], [4, 5]]
    assert (again.y.tolist(), again.cases) == (["a", "b"], ["one", "two"])
