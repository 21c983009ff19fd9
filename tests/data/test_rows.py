"""Rows of arrays, in memory and in files."""

from __future__ import annotations

import mmap

import numpy as np

from tsformer.data.rows import ArrayRows


def test_changes_of_an_array_that_copies_on_write_are_kept(tmp_path):
    """Released pages would come back as they are in the file."""
    np.save(tmp_path / "x.npy", np.zeros((10, 1, 1000)))
    array = np.load(tmp_path / "x.npy", mmap_mode="c")
    array[0] = 1.0
    rows = ArrayRows(array)
    for _ in range(2):
        assert rows.read(np.array([0, 5])).sum() == 1000


def test_pages_of_a_mapped_file_can_be_released(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 1, 1000)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for array in (mapped, mapped[1:], np.asarray(mapped)):
        assert isinstance(ArrayRows(array)._mapped, mmap.mmap)
