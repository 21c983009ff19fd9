"""Series in `.npy` files: read by seeking, equal to `numpy.load`; damaged files are refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tsformer.data.containers import to_source
from tsformer.data.npy import FileRows

X = np.random.default_rng(0).normal(size=(11, 2, 5))


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def saved(array: np.ndarray) -> FileRows:
    np.save("X.npy", array)
    return to_source("X.npy").rows


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("dtype", "shape"), [("f4", (11, 2, 5)), (">f8", (11, 2, 5)), ("i2", (11, 10)), ("?", (11, 10))]
)
def test_rows(dtype, shape, order, monkeypatch):
    array = np.asarray(X.reshape(shape).astype(dtype), order=order)
    rows = saved(array)
    monkeypatch.chdir("/")  # the file is found from another folder
    for each in (rows, pickle.loads(pickle.dumps(rows))):
        for index in ([3, 4, 5, 6], [0], [1, 2, 5, 9, 10]):
            read = each.read(np.array(index))
            assert read.dtype.kind == array.dtype.kind
            np.testing.assert_array_equal(read.reshape(len(index), *shape[1:]), array[index])


def test_series_of_unequal_length():
    lengths = np.array([3, 1, 4])
    np.arange(16.0).tofile("x")
    rows = FileRows(Path("x"), np.dtype(float), lengths, 2)
    read = rows.read(np.array([0, 2]))
    np.testing.assert_array_equal(read[0], [[0, 1, 2, np.nan], [3, 4, 5, np.nan]])
    np.testing.assert_array_equal(read[1], [[8, 9, 10, 11], [12, 13, 14, 15]])


@pytest.mark.parametrize(
    ("shape", "message"),
    [((9, -1, 3), r"its shape is \(9, -1, 3\)"), ((9, 2**62, 4), "it is cut off")],
)
def test_headers_of_impossible_shapes(shape, message):
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    with Path("X.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match=rf"X\.npy does not hold an array of numbers: {message}"):
        to_source("X.npy")


def test_a_header_of_another_version():
    with Path("X.npy").open("wb") as file:
        np.lib.format.write_array(file, X, version=(2, 0))
    np.testing.assert_array_equal(to_source("X.npy").rows.read(np.arange(11)), X)


def test_a_file_that_is_cut_off():
    rows, whole = saved(X), Path("X.npy").read_bytes()
    Path("X.npy").write_bytes(whole[:-3])
    with pytest.raises(OSError, match=r"X\.npy was changed or replaced"):
        rows.read(np.array([8]))
    with pytest.raises(ValueError, match=r"numbers: it is cut off: it has 1,005 of 1,008 bytes"):
        to_source("X.npy")
    Path("X.npy").write_bytes(whole[:20])
    with pytest.raises(ValueError, match=r"X\.npy does not hold an array of numbers"):
        to_source("X.npy")


def _replace(path: str, array: np.ndarray) -> None:
    np.save("other.npy", array)
    Path("other.npy").replace(path)


def _keep_time(path: str, array: np.ndarray) -> None:
    before = Path(path).stat()
    np.save(path, array)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = Path(path).stat()
    assert (after.st_size, after.st_ino) == (before.st_size, before.st_ino)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: np.save(path, X[::-1]),
        lambda path: np.save(path, X[:9]),
        lambda path: np.save(path, X.astype("f4")),
        lambda path: _replace(path, X[::-1]),
        lambda path: _keep_time(path, X.reshape(11, 10)),  # another header
    ],
    ids=["values", "fewer", "dtype", "another file", "the time is kept"],
)
def test_a_file_that_changes_after_it_was_opened(change):
    rows = saved(X)
    other = pickle.loads(pickle.dumps(rows))
    change("X.npy")
    for each in (rows, other):
        with pytest.raises(OSError, match=r"X\.npy was changed or replaced after it was opened"):
            each.read(np.array([0, 1]))
