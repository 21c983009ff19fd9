"""Series in arrays and `.npy` files: rows, damage, batches and their order."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_source
from tsformer.data.panel import StoredPanel, in_order, shuffled
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import FileRows

X = np.random.default_rng(0).normal(size=(11, 2, 5))


def saved(array: np.ndarray) -> FileRows:
    np.save("X.npy", array)
    return to_source("X.npy").rows


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("dtype", "shape"), [(">f8", (11, 2, 5)), ("i2", (11, 10)), ("?", (11, 10))]
)
def test_rows(dtype, shape, order, monkeypatch):
    array = np.asarray(X.reshape(shape).astype(dtype), order=order)
    rows = saved(array)
    monkeypatch.chdir("/")  # the file is found from another folder
    for copy in (rows, pickle.loads(pickle.dumps(rows))):
        for index in ([3, 4, 5, 6], [0], [1, 2, 5, 9, 10]):
            read = copy.read(np.array(index))
            assert read.dtype.kind == array.dtype.kind
            np.testing.assert_array_equal(read.reshape(len(index), *shape[1:]), array[index])


def test_a_file_that_is_cut_off():
    rows, whole = saved(X), Path("X.npy").read_bytes()
    Path("X.npy").write_bytes(whole[:-3])
    with pytest.raises(OSError):
        rows.read(np.array([8]))
    for length in (-3, 20):
        Path("X.npy").write_bytes(whole[:length])
        with pytest.raises(ValueError):
            to_source("X.npy")


def test_a_mapped_file_is_read_without_its_mapping_unless_that_has_changes():
    np.save("X.npy", X)
    assert isinstance(to_source(np.load("X.npy", mmap_mode="r")).rows, FileRows)
    slices = to_source(np.load("X.npy", mmap_mode="r")[1:])
    np.testing.assert_array_equal(slices.padded().values, X[1:].transpose(0, 2, 1))
    changed = np.load("X.npy", mmap_mode="c")
    changed[0] = 1.0
    assert (to_source(changed).padded().values[0] == 1).all()
    np.save("X.npy", X[::-1])
    with pytest.raises(OSError):
        slices.padded()


def other_file(path: str) -> None:
    np.save("other.npy", X[::-1])
    Path("other.npy").replace(path)


@pytest.mark.parametrize("change", [lambda path: np.save(path, X[::-1]), other_file])
def test_a_file_that_changes_after_it_was_opened(change):
    rows = saved(X)
    restored = pickle.loads(pickle.dumps(rows))
    change("X.npy")
    for copy in (rows, restored):
        with pytest.raises(OSError, match=r"X\.npy was changed"):
            copy.read(np.array([0, 1]))


SERIES = np.random.default_rng(0).normal(size=(30, 2, 14))
SERIES[3, :, 9:] = SERIES[7, 1, 2:5] = SERIES[11, :, :2] = np.nan


@pytest.fixture(params=[None, "times"])
def panels(request):
    """The same series in memory, and in a file."""
    np.save("X.npy", SERIES)
    steps = None if request.param is None else np.cumsum(0.1 + np.abs(SERIES[:, 0]) ** 0, axis=1)
    source = to_source("X.npy", steps)
    scaler = Scaler(views="values+difference").fit(source)
    stored = scaler.panel(source, kept=False)
    assert isinstance(stored, StoredPanel)
    return scaler.panel(source), stored


def assert_same(ours, theirs) -> None:
    for tensor, expected in zip(ours, theirs, strict=True):
        assert (tensor is None) == (expected is None)
        assert tensor is None or torch.equal(tensor, expected)


def test_parts_and_the_whole(panels):
    kept, stored = panels
    assert (len(stored), stored.n_bytes) == (len(kept), kept.n_bytes)
    for whole in (stored.kept(), stored.part(torch.arange(30))):
        names = ("values", "mask", "times")
        assert_same(*([getattr(panel, name) for name in names] for panel in (kept, whole)))
        assert (whole.symbolic, whole.n_flags) == (kept.symbolic, kept.n_flags) == (False, 2)
    assert stored.to(torch.device("meta")).values.shape == kept.values.shape
    np.save("X.npy", SERIES)
    source = to_source("X.npy", np.arange(14) * np.arange(1.0, 31)[:, None])
    subset = source.part(np.array([11, 3, 5])).part(np.array([2, 0]))
    in_memory = subset.padded()
    np.testing.assert_array_equal(in_memory.values, source.padded().values[[5, 11]])
    np.testing.assert_array_equal(subset.intervals(), in_memory.intervals())
    for ours, theirs in zip(subset.gaps, in_memory.gaps, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_batches_that_are_read_ahead_come_in_order(panels):
    kept, stored = panels
    batches = list(torch.randperm(30).split(4))
    with stored.ahead(iter(batches)) as coming:
        taken = [(index, stored.take(index)) for index in coming]
    assert_same((index for index, _ in taken), batches)
    restored = pickle.loads(pickle.dumps(stored))
    for index, batch in taken:
        assert_same(kept.take(index), batch)
        assert_same(kept.take(index), restored.take(index))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_an_epoch_is_a_permutation_drawn_from_its_generator_alone():
    before, random = torch.random.get_rng_state(), generator()
    first, second = (list(shuffled(103, 10, random)) for _ in range(2))
    for epoch in (first, second):
        assert sorted(torch.cat(epoch).tolist()) == list(range(103))
        assert sorted(map(len, epoch)) == [9] * 7 + [10] * 4
    assert torch.equal(torch.cat(first), torch.cat(list(shuffled(103, 10, generator()))))
    assert not torch.equal(torch.cat(first), torch.cat(second))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("max_steps", [1, 100, 450, 10**6])
def test_in_order_respects_the_budget(max_steps):
    lengths = torch.randint(5, 200, (60,), generator=generator(9))
    batches = list(in_order(lengths, max_steps))
    assert sorted(torch.cat(batches).tolist()) == list(range(60))
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        longest = int(lengths[batch].max())
        assert len(batch) * longest <= max_steps or len(batch) == 1
        if following is not None:
            assert (len(batch) + 1) * int(lengths[following[0]]) > max_steps, "one more would fit"
            assert longest <= int(lengths[following].min())
    # Equal lengths stay in place.
    assert torch.equal(torch.cat(list(in_order(torch.full((50,), 7), 100))), torch.arange(50))
