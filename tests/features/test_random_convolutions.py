"""The features of both transforms together, and their scales."""

from __future__ import annotations

import pytest
import torch

from tsformer.features import RandomConvolutions, kernels
from tsformer.features.random_convolutions import SparseScaler, StandardScaler


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(x, mask=None, n_features=336, n_groups=4) -> RandomConvolutions:
    convolutions = RandomConvolutions(n_features, n_groups).draw(x, mask, seeded())
    convolutions.fit_scales(convolutions.unscaled(x, mask))
    return convolutions


def test_half_of_the_features_are_of_differences():
    x = torch.randn(6, 40, 2, generator=seeded(1)).cumsum(dim=1)
    convolutions = made(x)
    features, shifted = convolutions(x), convolutions(x + 5.0)
    # Away from the padding only values change with their level, so only unpadded ones stay.
    of_values = slice(0, 168)
    of_differences = slice(168, 336)
    assert torch.allclose(features[:, of_differences], shifted[:, of_differences], atol=1e-3)
    assert not torch.allclose(features[:, of_values], shifted[:, of_values], atol=1e-3)
    assert features.shape == (6, 336 + 2 * 2 * 3 * 2 * 8)


def test_training_features_are_scaled():
    x = torch.randn(30, 40, 1, generator=seeded(1))
    dense = made(x)(x)[:, :336]
    assert dense.mean(dim=0).abs().max() < 1e-5
    deviations = dense.std(dim=0, correction=0)
    assert torch.all(deviations.isclose(torch.ones(()), atol=1e-3) | (deviations < 1e-5))


def test_either_is_optional_and_the_state_is_all_there_is():
    x = torch.randn(6, 40, 2, generator=seeded(1))
    state = torch.get_rng_state()
    for options, n in (({"n_features": 0}, 192), ({"n_groups": 0}, 336), ({}, 528)):
        fitted = made(x, **options)
        assert fitted(x).shape == (6, n)
        loaded = RandomConvolutions(**{"n_features": 336, "n_groups": 4} | options)
        loaded.load_state_dict(fitted.state_dict())
        assert torch.equal(loaded(x), fitted(x))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("length", "steps"), [(700, 64), (30, 1), (30, 60), (30, 10_000)])
@pytest.mark.parametrize("masked", [False, True])
def test_blocks_of_series_give_the_same_features(masked, length, steps, monkeypatch):
    x = torch.randn(3, length, 2, generator=seeded(1))
    mask = torch.arange(length) < torch.tensor([[length], [length // 2], [5]]) if masked else None
    x = x if mask is None else x.where(mask[..., None], 0.0)
    wanted = made(x, mask)
    monkeypatch.setitem(kernels.STEPS, "cpu", steps)
    found = made(x, mask)
    torch.testing.assert_close(found.state_dict(), wanted.state_dict(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found(x, mask), wanted(x, mask), rtol=1e-3, atol=1e-3)


def test_memory_does_not_grow_with_the_responses(monkeypatch):
    """Only the longest tensor counts: none holds the responses of a kernel to a long series."""
    sizes = []
    bmm = torch.bmm

    def watched(*args):
        sizes.append(bmm(*args).numel())
        return bmm(*args)

    monkeypatch.setattr(torch, "bmm", watched)
    convolutions = made(torch.randn(2, 9000, 1, generator=seeded(1)))
    sizes.clear()
    convolutions(torch.randn(2, 9000, 1, generator=seeded(2)))
    assert max(sizes) <= 84 * 1024


def test_a_constant_feature_is_0():
    x = torch.full((30, 1), 0.1)
    assert StandardScaler().fit(x)(x).abs().max() < 1e-6


def test_counts_are_scaled_as_defined():
    x = torch.tensor([[4.0, 0.0], [9.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    root = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    zeros = torch.tensor([0.5, 0.75])
    wanted = (root - root.mean(dim=0)) / (root.std(dim=0, correction=0) + zeros**4 + 1e-8)
    torch.testing.assert_close(SparseScaler().fit(x)(x), wanted.where(root > 0, 0.0))


def test_a_count_that_training_did_not_have_stays_small():
    scaler = SparseScaler().fit(torch.zeros(10, 1))
    assert scaler(torch.full((1, 1), 4.0)).item() == 2
