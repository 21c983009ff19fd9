"""Series in files and in arrays read by slices: the same model as from memory, bit for bit."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_estimators import classifier

from tsformer import TSTransformerClassifier
from tsformer.data import preprocessor, series
from tsformer.estimators import series_estimator, settings
from tsformer.training import inference

N, CHANNELS, LENGTH = 48, 2, 20
FITTED: dict[str, TSTransformerClassifier] = {}


class Sliced:
    """An array as h5py and zarr have it: read by slices and ascending indices, never as a whole."""

    def __init__(self, array: np.ndarray, most: int = 20):
        self._array = array
        self._most = most
        self.shape, self.dtype = array.shape, array.dtype

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, which: slice | np.ndarray) -> np.ndarray:
        if not isinstance(which, slice):
            assert np.all(np.diff(which) > 0), "indices must be in ascending order"
        rows = self._array[which]
        assert len(rows) <= self._most, f"{len(rows)} series were read at once"
        return rows.copy()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("the whole array was asked for")


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray]:
    """Series with gaps, a late start and unequal lengths, in three classes of unequal size."""
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "c", "a"])[np.arange(N) % 4]
    X = rng.normal(5, 3, (N, CHANNELS, LENGTH)).astype(np.float32)
    X[y == "b"] += np.sin(np.arange(LENGTH)).astype(np.float32)
    X[3, :, 12:] = X[10, :, 7:] = X[40, :, 15:] = np.nan
    X[5, 1, 3:6] = X[41, 1, 8] = X[7, :, :2] = np.nan
    return X, y


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read at most eight series at a time, and keep nothing that was preprocessed."""
    monkeypatch.setattr(series, "_VALUES", 5 * CHANNELS * LENGTH)
    monkeypatch.setattr(preprocessor, "_KEPT", 0)
    monkeypatch.setattr(inference, "_TOKENS", {"cpu": 8 * LENGTH})
    monkeypatch.setattr(settings, "AUGMENTATION_TRIAL", (8, 1000, 8))
    monkeypatch.setattr(settings, "_FEWEST_FOR_AUGMENTATION", 5)


def kept_in(how: str, X: np.ndarray, folder: Path) -> Any:
    path = folder / "series.npy"
    np.save(path, X)
    return {"path": path, "sliced": Sliced(X, 8), "float64": X.astype(np.float64)}[how]


def fitted(X: Any, y: Any, **options: Any) -> TSTransformerClassifier:
    defaults = {"batch_size": 8, "early_stopping": True, "class_weight": "balanced"}
    defaults |= {"scaling": "auto"}
    return classifier(**defaults | options).fit(X, y)


def assert_same(clf: Any, expected: Any, X: Any, X_expected: Any) -> None:
    tensors, wanted = clf.model_.state_dict(), expected.model_.state_dict()
    assert [name for name in tensors if not torch.equal(tensors[name], wanted[name])] == []
    rows, wanted_rows = ([{**row, "seconds": 0} for row in c.history_] for c in (clf, expected))
    assert rows == wanted_rows
    np.testing.assert_array_equal(clf.predict_proba(X), expected.predict_proba(X_expected))


@pytest.mark.parametrize("how", ["path", "sliced", "float64"])
@pytest.mark.usefixtures("in_parts")
def test_the_same_model_wherever_series_are(how, problem, tmp_path):
    X, y = problem
    stored = kept_in(how, X, tmp_path)
    if "memory" not in FITTED:
        FITTED["memory"] = fitted(X, y)
    assert_same(FITTED["memory"], fitted(stored, y), X, stored)


@pytest.mark.usefixtures("in_parts")
def test_probabilities_are_written_to_an_array_of_the_callers(problem, tmp_path, monkeypatch):
    X, y = problem
    clf = fitted(X, y, n_estimators=2)
    whole, labels = clf.predict_proba(X), clf.predict(X)
    monkeypatch.setattr(series_estimator, "_CHUNK", 16)
    out = np.lib.format.open_memmap(tmp_path / "proba.npy", "w+", np.float32, (N, 3))
    assert clf.predict_proba(Sliced(X), out=out) is out
    np.testing.assert_allclose(np.load(tmp_path / "proba.npy"), whole, rtol=1e-5)
    np.testing.assert_array_equal(clf.predict(X), labels)
    assert clf.score(Sliced(X), y) == clf.score(X, y)
    for wrong in (np.empty((N, 2)), np.empty((N, 3), dtype=int), [1]):
        with pytest.raises((ValueError, TypeError)):
            clf.predict_proba(X, out=wrong)


@pytest.mark.usefixtures("in_parts")
def test_no_thread_is_left_behind(problem, monkeypatch):
    X, y = problem
    clf, seen = fitted(X, y, max_epochs=1), []

    def fails(self, *args):
        seen.append([t for t in threading.enumerate() if "tsformer-reader" in t.name])
        raise KeyboardInterrupt

    monkeypatch.setattr(type(clf.model_), "forward", fails)
    with pytest.raises(KeyboardInterrupt):
        clf.predict(X)
    assert seen[0], "nothing was read ahead"
    assert not any("tsformer-reader" in t.name for t in threading.enumerate())
