"""Arrays in `.npy` files: what is read by seeking is what `numpy.load` gives."""

from __future__ import annotations

import pickle

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
    assert isinstance(open_npy(tmp_path / "X.npy"), np.memmap)
    np.testing.assert_array_equal(to_padded(tmp_path / "X.npy").values, X.transpose(0, 2, 1))
    with (tmp_path / "X.npy").open("wb") as file:
        np.lib.format.write_array(file, X, version=(2, 0))
    np.testing.assert_array_equal(open_npy(tmp_path / "X.npy")[:], X)


def test_what_is_cut_off(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    file, whole = open_npy(path), path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(OSError, match=r"X\.npy is shorter than it was"):
        file[8:]
    with pytest.raises(ValueError, match=r"numbers: it is cut off: it has 1,005 of 1,008 bytes"):
        open_npy(path)
    path.write_bytes(whole[:20])
    with pytest.raises(ValueError, match=r"X\.npy does not hold an array of numbers"):
        open_npy(path)


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
