"""Which series go through the model together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tsformer.data import load_dataset
from tsformer.data.batching import in_order, shuffled


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unequal(n: int) -> Tensor:
    return torch.randint(5, 200, (n,), generator=generator(9))


@pytest.mark.parametrize("lengths", [torch.full((103,), 7), unequal(103)], ids=["equal", "unequal"])
def test_an_epoch_is_a_permutation(lengths):
    random = generator()
    first, second = (list(shuffled(lengths, 10, random)) for _ in range(2))
    for epoch in (first, second):
        assert sorted(torch.cat(epoch).tolist()) == list(range(103))
        assert sorted(map(len, epoch)) == [9] * 7 + [10] * 4
    assert not torch.equal(torch.cat(first), torch.cat(second))
    assert not torch.equal(torch.cat(first).sort().values, torch.cat(first))


@pytest.mark.parametrize("lengths", [torch.full((103,), 7), unequal(103)], ids=["equal", "unequal"])
def test_the_generator_is_the_only_source_of_randomness(lengths):
    before = torch.random.get_rng_state()
    epochs = [torch.cat(list(shuffled(lengths, 10, generator(seed)))) for seed in (0, 0, 1)]
    assert torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], epochs[2])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_like_lengths_go_together():
    lengths = unequal(800)
    spreads = [int(lengths[b].max() - lengths[b].min()) for b in shuffled(lengths, 10, generator())]
    at_random = [int(lengths[b].max() - lengths[b].min()) for b in torch.arange(800).split(10)]
    assert sum(spreads) < sum(at_random) / 4
    means = torch.tensor([lengths[b].float().mean() for b in shuffled(lengths, 10, generator())])
    assert (means.diff() > 0).float().mean() < 0.7, "batches come sorted by length"


@pytest.mark.archive
@pytest.mark.parametrize("name", ["PLAID", "GestureMidAirD1"])
def test_padding_stays_under_fifteen_percent(name):
    X, _ = load_dataset(name, "train")
    lengths = torch.tensor([series.shape[-1] for series in X])
    there = padded = 0
    random = generator()
    for _ in range(5):
        for batch in shuffled(lengths, 16, random):
            there += int(lengths[batch].sum())
            padded += len(batch) * int(lengths[batch].max())
    assert 1 - there / padded < 0.15
    assert 1 - int(lengths.sum()) / (len(lengths) * int(lengths.max())) > 0.4, "nothing to save"


def test_batches_are_mixed_anew_each_epoch():
    """Sorted once and for all, the same series would share a batch for ever."""
    lengths, random = unequal(800), generator()
    company = [
        {frozenset(batch.tolist()) for batch in shuffled(lengths, 10, random)} for _ in range(2)
    ]
    assert not company[0] & company[1]


@pytest.mark.parametrize("max_steps", [1, 100, 450, 10**6])
def test_in_order_respects_the_budget(max_steps):
    lengths = unequal(60)
    batches = list(in_order(lengths, max_steps))
    assert sorted(torch.cat(batches).tolist()) == list(range(60))
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        longest = int(lengths[batch].max())
        assert len(batch) * longest <= max_steps or len(batch) == 1
        if following is not None:
            assert (len(batch) + 1) * int(lengths[following[0]]) > max_steps, "one more would fit"
            assert longest <= int(lengths[following].min())


def test_in_order_leaves_equal_lengths_in_place():
    assert torch.equal(torch.cat(list(in_order(torch.full((50,), 7), 100))), torch.arange(50))
