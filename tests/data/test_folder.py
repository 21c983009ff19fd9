"""Folders of series: `convert` writes them, `fit` reads them, and damaged folders are refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tsformer.data import sources
from tsformer.data.containers import to_padded
from tsformer.data.sources import convert_to_folder, is_series_folder, read_folder, read_source
from tsformer.data.tsfile import write_ts

X = np.random.default_rng(0).normal(size=(6, 2, 6)).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of two files with series of unequal lengths."""
    monkeypatch.chdir(tmp_path)
    write_ts("one.ts", [X[0], X[1, :, :4], X[2]], ["a", "b", "a"])
    write_ts("two.ts", list(X[3:6, :, :5]), ["b", "b", "a"])
    assert convert_to_folder(["one.ts", "two.ts"], tmp_path / "series") == (6, True)
    return tmp_path / "series"


def test_a_folder_is_read_where_it_is(folder):
    source = read_source(str(folder))
    assert source.X.lengths.tolist() == [6, 4, 6, 5, 5, 5]
    assert source.y.tolist() == ["a", "b", "a", "b", "b", "a"]
    np.testing.assert_array_equal(source.X.read(np.array([1])).values[0, :4], X[1, :, :4].T)
    without = read_folder(str(folder))
    assert (len(without.X), without.y) == (6, None)
    array = np.load(folder / "series.npy", mmap_mode="r")
    assert (array.shape, array.dtype) == ((6, 2, 6), np.float32)
    np.testing.assert_array_equal(to_padded(folder).values, to_padded(array).values)


def test_what_cannot_be_a_folder(folder, tmp_path, monkeypatch):
    with pytest.raises(FileExistsError, match="series exists"):
        convert_to_folder(["one.ts"], folder)
    new = tmp_path / "new"
    write_ts("other.ts", X[:2, :1])
    with pytest.raises(ValueError, match=r"one\.ts has 2, other\.ts has 1"):
        convert_to_folder(["one.ts", "other.ts"], new)
    write_ts("other.ts", X[:2])
    with pytest.raises(ValueError, match=r"other\.ts has no labels"):
        convert_to_folder(["one.ts", "other.ts"], new)
    write_ts("other.ts", X.astype(np.float64) * 1e39)
    with pytest.raises(ValueError, match="do not fit into float32"):
        convert_to_folder(["other.ts"], new)
    assert not is_series_folder(new)
    monkeypatch.setattr(sources.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(OSError, match=r"padded to the longest of 6 steps, take 0\.0 GiB"):
        convert_to_folder(["one.ts"], new)


def test_times_that_a_folder_does_not_have(tmp_path):
    write_ts(tmp_path / "x.ts", [pd.DataFrame(X[0].T, index=np.arange(6) / 2)])
    with pytest.warns(UserWarning, match=r"the times in .*x\.ts are left out"):
        convert_to_folder([str(tmp_path / "x.ts")], tmp_path / "series")


@pytest.mark.parametrize(
    "labels",
    [np.array([{}, None]), np.zeros(6), np.array("a"), np.array(["a"] * 5), b"no array"],
    ids=["objects", "numbers", "scalar", "fewer", "text"],
)
def test_labels_that_are_none(folder, labels):
    path = folder / "labels.npy"
    if isinstance(labels, bytes):
        path.write_bytes(labels)
    else:
        np.save(path, labels)
    with pytest.raises(ValueError, match=r"labels\.npy (does not hold|must have a text)") as caught:
        read_source(str(folder))
    assert "pickle" not in str(caught.value), "nobody is advised to run the content of a file"


def test_missing_labels(folder):
    (folder / "labels.npy").unlink()
    with pytest.raises(ValueError, match=r"have no labels: it has no labels\.npy"):
        read_source(str(folder))
