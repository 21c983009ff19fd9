"""Arrays in `.npy` files: what is read by seeking is what `numpy.load` gives."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tsformer.data.containers import to_padded
from tsformer.data.npy import NpyFile, open_npy

X = np.random.default_rng(0).normal(size=(11, 2, 5))


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", "?"])
@pytest.mark.parametrize("shape", [(11, 2, 5), (11, 10)])
@pytest.mark.parametrize("which", [slice(3, 7), slice(None), slice(4, 4), [0], [1, 2, 5, 9, 10]])
def test_rows(dtype, shape, which, tmp_path):
    array = X.reshape(shape).astype(dtype)
    np.save(tmp_path / "X.npy", array)
    file = open_npy(tmp_path / "X.npy")
    assert isinstance(file, NpyFile)
    assert (file.shape, file.dtype, len(file)) == (shape, array.dtype, 11)
    which = which if isinstance(which, slice) else np.array(which)
    for each in (file, pickle.loads(pickle.dumps(file))):
        read = each[which]
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array[which])


def test_a_path_is_that_of_where_it_was_opened(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    monkeypatch.chdir(tmp_path)
    file = open_npy("X.npy")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(file[:2], X[:2])


def test_fortran_order_and_headers_of_another_version(tmp_path):
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    file = open_npy(tmp_path / "X.npy")
    np.testing.assert_array_equal(file[np.array([1, 4, 5])], X[[1, 4, 5]])
    np.testing.assert_array_equal(file[3:], X[3:])
    np.testing.assert_array_equal(to_padded(tmp_path / "X.npy").values, X.transpose(0, 2, 1))
    with (tmp_path / "X.npy").open("wb") as file:
        np.lib.format.write_array(file, X, version=(2, 0))
    np.testing.assert_array_equal(open_npy(tmp_path / "X.npy")[:], X)


@pytest.mark.parametrize(
    ("shape", "message"),
    [((9, -1, 3), r"its shape is \(9, -1, 3\)"), ((9, 2**62, 4), "it is cut off")],
)
def test_a_header_of_a_shape_that_cannot_be(shape, message, tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    with (tmp_path / "X.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match=rf"X\.npy does not hold an array of numbers: {message}"):
        open_npy(tmp_path / "X.npy")


def test_what_is_cut_off(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    file, whole = open_npy(path), path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(OSError, match=r"X\.npy was changed or replaced"):
        file[8:]
    with pytest.raises(ValueError, match=r"numbers: it is cut off: it has 1,005 of 1,008 bytes"):
        open_npy(path)
    path.write_bytes(whole[:20])
    with pytest.raises(ValueError, match=r"X\.npy does not hold an array of numbers"):
        open_npy(path)


def _replace(path: Path, array: np.ndarray) -> None:
    np.save(path.with_name("other.npy"), array)
    path.with_name("other.npy").replace(path)


def _keep_time(path: Path, array: np.ndarray) -> None:
    before = path.stat()
    np.save(path, array)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_ino) == (before.st_size, before.st_ino)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "change",
    [
        lambda path: np.save(path, X[::-1]),
        lambda path: np.save(path, X.transpose(0, 2, 1).copy()),
        lambda path: np.save(path, X[:9]),
        lambda path: np.save(path, X.astype("f4")),
        lambda path: _replace(path, X[::-1]),
        lambda path: _keep_time(path, X.reshape(11, 10)),  # another header
    ],
    ids=["values", "shape", "fewer", "dtype", "another file", "the time is kept"],
)
def test_what_changes_after_it_was_opened(change, order, tmp_path):
    np.save(tmp_path / "X.npy", np.asarray(X, order=order))
    file = open_npy(tmp_path / "X.npy")
    other = pickle.loads(pickle.dumps(file))
    file[:2]
    change(tmp_path / "X.npy")
    for each in (file, other):
        with pytest.raises(OSError, match=r"X\.npy was changed or replaced after it was opened"):
            each[:2]


def test_more_files_than_a_process_may_open(tmp_path):
    resource = pytest.importorskip("resource")
    np.save(tmp_path / "X.npy", X)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        files = [open_npy(tmp_path / "X.npy") for _ in range(300)]
        assert sum(len(file[:1]) for file in files) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
