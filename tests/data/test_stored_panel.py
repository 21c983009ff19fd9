"""A stored panel gives what a panel in memory gives, in this process and in others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from tsformer.data import preprocessor
from tsformer.data.containers import to_source
from tsformer.data.preprocessor import Scaler
from tsformer.data.stored_panel import StoredPanel

X = np.random.default_rng(0).normal(size=(30, 2, 14))
X[3, :, 9:] = X[7, 1, 2:5] = X[11, :, :2] = np.nan


@pytest.fixture(params=[None, "times"])
def panels(request, tmp_path, monkeypatch):
    """The same series in memory, and in a file."""
    np.save(tmp_path / "X.npy", X)
    steps = None if request.param is None else np.cumsum(0.1 + np.abs(X[:, 0]) ** 0, axis=1)
    source = to_source(tmp_path / "X.npy", steps)
    scaler = Scaler(views="values+difference").fit(source)
    kept = scaler.panel(source)
    monkeypatch.setattr(preprocessor, "_KEPT", 0)
    stored = scaler.panel(source)
    assert isinstance(stored, StoredPanel)
    return kept, stored


def assert_same(ours, theirs) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)


@pytest.mark.parametrize("index", [[4], [8, 2, 29, 5], [7, 3], list(range(30))[::-1]])
def test_batches(panels, index):
    kept, stored = panels
    batch = torch.tensor(index)
    assert_same(kept.take(batch), stored.take(batch))
    assert_same(kept.take(batch), pickle.loads(pickle.dumps(stored)).take(batch))


def test_parts_and_the_whole(panels):
    kept, stored = panels
    assert (len(stored), stored.n_bytes) == (len(kept), kept.n_bytes)
    for whole in (stored.kept(), stored.part(torch.arange(30)), stored.to(torch.device("meta"))):
        for name in ("values", "mask", "times"):
            one, other = getattr(kept, name), getattr(whole, name)
            assert (one is None) == (other is None)
            assert one is None or one.shape == other.shape
            assert one is None or other.is_meta or torch.equal(one, other)


def test_batches_that_are_read_ahead_come_in_order(panels):
    kept, stored = panels
    batches = list(torch.randperm(30).split(4))
    with stored.ahead(iter(batches)) as coming:
        taken = [(index, stored.take(index)) for index in coming]
    assert all(torch.equal(one, other) for (one, _), other in zip(taken, batches, strict=True))
    for index, batch in taken:
        assert_same(kept.take(index), batch)
