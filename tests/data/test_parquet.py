"""Parquet files with a list of values in each row."""

from pathlib import Path

import numpy as np
import pytest

from tsformer.data.containers import to_padded
from tsformer.data.sources import read_source
from tsformer.data.table import TableSchema

pa = pytest.importorskip("pyarrow", reason='needs the extra "parquet"')
pq = pytest.importorskip("pyarrow.parquet")

X = np.random.default_rng(0).normal(size=(9, 2, 6)).astype(np.float32)
Y = np.array(["a", "b", "c"] * 3)
FLAT, NESTED = pa.list_(pa.float32()), pa.list_(pa.list_(pa.float32()))


def write(name: str, columns: dict[str, object]) -> Path:
    Path(name).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), name)
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
    ],
    ids=["nested", "fixed size", "two kinds of lists", "others"],
)
def test_layouts(columns):
    path = write("x.parquet", columns)
    np.testing.assert_array_equal(read(path), X)
    assert to_padded(path).channels == (("up", "left") if "up" in columns else None)
    names = tuple(sorted({*columns} - {"label", "n"}))
    source = read_source(path, TableSchema(value=names), labelled=False)
    expected = X[:, ::-1] if names == ("left", "up") else X
    np.testing.assert_array_equal(to_padded(source.X).values, expected.transpose(0, 2, 1))


def test_files_of_a_folder_are_taken_by_name():
    write("series/b.parquet", {"x": nested(X[4:])})
    write("series/a.pq", {"x": nested(X[:4])})
    write("series/_left.parquet", {"x": nested(X)})
    Path("series/_SUCCESS").touch()
    np.testing.assert_array_equal(read("series"), X)


def test_numbers_are_exact_and_null_is_missing():
    lists = pa.array([[2**24 + 1, None, 3], [-5, 1]], pa.list_(pa.int32()))
    path = write("x.parquet", {"x": lists})
    np.testing.assert_array_equal(read(path)[:, 0], [[2**24 + 1, np.nan, 3], [-5, 1, np.nan]])


def test_files_that_cannot_be_read():
    for columns, message in (
        ({"case": [1, 1], "v": [0.5, 1.5]}, "from_long"),
        ({"x": flat([X[0, 0], X[1, 0], None])}, "series 2"),
    ):
        with pytest.raises(ValueError, match=message):
            read(write("x.parquet", columns))
    path = write("x.parquet", {"x": nested(X)})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"x\.parquet"):
        read(path)
    Path("empty").mkdir()
    for path in ("empty", "nowhere.npy"):
        with pytest.raises(FileNotFoundError):
            read(path)


def test_a_source_has_labels_names_and_groups():
    write("series/a.parquet", {"x": nested(X[:4]), "y": Y[:4], "id": np.arange(4)})
    write("series/b.parquet", {"x": nested(X[4:]), "y": Y[4:], "id": np.arange(4, 9)})
    schema = TableSchema(label="y", case="id")
    for path in ("series", "series/a.parquet"):
        source = read_source(path, schema)
        n = len(source.X)
        assert source.y.tolist() == Y[:n].tolist()
        assert source.cases == [str(i) for i in range(n)]
        assert source.schema == TableSchema(label="y", case="id", value=("x",))
        np.testing.assert_array_equal(to_padded(source.X).values, X[:n].transpose(0, 2, 1))
    assert read_source("series", labelled=False).y is None
    write("series/b.parquet", {"z": nested(X[4:6]), "y": ["a ", " b"], "id": [7, 8]})
    with pytest.raises(ValueError, match=r"b\.parquet.* x"):
        read_source("series", schema)
