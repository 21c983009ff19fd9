"""Folders of series: what is written is read, file by file, and what is damaged is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tsformer.data.folder import FolderRows, is_series_folder, read_labels, write_folder
from tsformer.data.sources import convert_to_folder, read_folder, read_source
from tsformer.data.tsfile import write_ts

X = np.random.default_rng(0).normal(size=(9, 2, 6)).astype(np.float32)
Y = np.array(["a", "b", "c"] * 3)


@pytest.fixture
def folder(tmp_path):
    longer = np.concatenate([X[4:], X[4:, :, :3]], axis=2)
    assert write_folder(tmp_path / "series", [(X[:4], Y[:4]), (longer, Y[4:])]) == 9
    return tmp_path / "series"


def test_what_is_written_is_read(folder):
    rows = FolderRows(folder)
    assert (len(rows), rows.n_channels, rows.n_steps) == (9, 2, 9)
    np.testing.assert_array_equal(rows.read(np.array([0, 3])), X[[0, 3]])
    read = rows.read(np.array([1, 3, 4, 8]))
    np.testing.assert_array_equal(read[..., :6], X[[1, 3, 4, 8]])
    assert np.isnan(read[:2, :, 6:]).all()
    np.testing.assert_array_equal(read[2:, :, 6:], X[[4, 8], :, :3])
    assert read_labels(folder).tolist() == Y.tolist()


def test_a_folder_is_a_source(folder):
    source = read_source(str(folder))
    assert source.X.lengths.tolist() == [6] * 4 + [9] * 5
    assert source.y.tolist() == Y.tolist()
    without = read_folder(str(folder))
    assert (len(without.X), without.y) == (9, None)
    (folder / "labels.npy").unlink()
    with pytest.raises(ValueError, match=r"have no labels: it has no labels\.npy"):
        read_source(str(folder))


def test_files_of_unequal_series_become_one_folder(tmp_path):
    ragged = [X[0], X[1, :, :4], X[2]]
    write_ts(tmp_path / "one.ts", ragged, ["a", "b", "a"])
    write_ts(tmp_path / "two.ts", list(X[3:6, :, :5]), ["b", "b", "a"])
    files = [str(tmp_path / name) for name in ("one.ts", "two.ts")]
    assert convert_to_folder(files, tmp_path / "series") == (6, True)
    source = read_source(str(tmp_path / "series"))
    assert source.X.lengths.tolist() == [6, 4, 6, 5, 5, 5]
    assert source.y.tolist() == ["a", "b", "a", "b", "b", "a"]
    np.testing.assert_array_equal(source.X.read(np.array([1])).values[0, :4], X[1, :, :4].T)


def test_what_cannot_be_a_folder(tmp_path):
    with pytest.raises(ValueError, match="part 0 have 2, those of part 1 have 1"):
        write_folder(tmp_path / "channels", [(X, None), (X[:, :1], None)])
    assert not is_series_folder(tmp_path / "channels"), "what was cut off is no such folder"
    with pytest.raises(FileExistsError, match="exists"):
        write_folder(tmp_path / "channels", [(X, None)])
    with pytest.raises(ValueError, match="some of the parts have labels"):
        write_folder(tmp_path / "labels", [(X, None), (X, Y)])
    with pytest.raises(ValueError, match="part 0 has values that do not fit into float32"):
        write_folder(tmp_path / "large", [(X.astype(np.float64) * 1e39, None)])


def changed(folder, **fields):
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(index | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"channels": 3}, r"holds float32 of shape \(4, 2, 6\), but the index"),
        ({"format": 2}, "it has format 2"),
        ({"files": []}, "0 files"),
        (
            {"files": [{"file": "../x.npy", "series": 4, "steps": 6}]},
            "is not a file in this folder",
        ),
        ({"files": [{"file": "x.npy"}]}, "is damaged: 'series'"),
        ({"channels": float("inf")}, "is damaged: inf is no positive whole number"),
        ({"channels": float("nan")}, "is damaged: nan is no"),
        ({"channels": True}, "is damaged: True is no"),
        ({"files": [{"file": "x.npy", "series": -4, "steps": 6}]}, "is damaged: -4 is no"),
        ({"files": [{"file": "x.npy", "series": 4, "steps": 6.5}]}, r"is damaged: 6\.5 is no"),
        ({"files": {"file": "x.npy"}}, "is damaged"),
    ],
)
def test_a_damaged_index_is_refused(folder, fields, message):
    changed(folder, **fields)
    with pytest.raises(ValueError, match=message):
        FolderRows(folder)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"channels": ' + "[" * 900 + "]" * 900 + "}", "[]", "1" * 5000, ""]
)
def test_an_index_that_is_something_else(folder, text):
    (folder / "index.json").write_text(text)
    with pytest.raises(ValueError, match=r"index\.json is no index of series, or is damaged"):
        FolderRows(folder)


@pytest.mark.parametrize(
    "labels", [Y.astype(object), np.array([{}, None], dtype=object), np.zeros(9), np.array("a")]
)
def test_labels_that_are_no_text(folder, labels):
    np.save(folder / "labels.npy", labels)
    with pytest.raises(ValueError, match=r"labels\.npy") as caught:
        read_source(str(folder))
    assert "pickle" not in str(caught.value)
    (folder / "labels.npy").write_text("no array")
    with pytest.raises(ValueError, match=r"labels\.npy does not hold labels") as caught:
        read_labels(folder)
    assert "pickle" not in str(caught.value)


def test_what_is_missing_is_named(folder):
    np.save(folder / "labels.npy", Y[:5])
    with pytest.raises(ValueError, match="must have a text for each of the 9 series"):
        read_labels(folder)
    (folder / "series-00001.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"series-00001\.npy"):
        FolderRows(folder)
    (folder / "index.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no index\.json"):
        FolderRows(folder)
