"""Which series go through the model together."""

from __future__ import annotations

import pytest
import torch

from tsformer.data.panel import in_order, shuffled


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_an_epoch_is_a_permutation_drawn_from_its_generator_alone():
    random = generator()
    first, second = (list(shuffled(103, 10, random)) for _ in range(2))
    for epoch in (first, second):
        assert sorted(torch.cat(epoch).tolist()) == list(range(103))
        assert sorted(map(len, epoch)) == [9] * 7 + [10] * 4
    assert not torch.equal(torch.cat(first), torch.cat(second))
    assert not torch.equal(torch.cat(first).sort().values, torch.cat(first))
    before = torch.random.get_rng_state()
    epochs = [torch.cat(list(shuffled(103, 10, generator(seed)))) for seed in (0, 0, 1)]
    assert torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], epochs[2])
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
