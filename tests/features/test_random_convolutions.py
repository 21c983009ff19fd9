"""The features of both transforms together, and their scales."""

from __future__ import annotations

import pytest
import torch

from tsformer.features import RandomConvolutions, random_convolutions


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


@pytest.mark.parametrize("options", [{"n_features": 0}, {"n_groups": 0}])
def test_either_can_be_left_out(options):
    x = torch.randn(6, 40, 2, generator=seeded(1))
    n = made(x, **options)(x).shape[1]
    assert n == (336 if "n_groups" in options else 192)


@pytest.mark.parametrize("at_once", [1, 60, 10_000])
def test_features_do_not_depend_on_what_fits_into_the_cache(at_once, monkeypatch):
    x = torch.randn(7, 30, 1, generator=seeded(1))
    mask = torch.arange(30) < torch.tensor([[30], [5], [9], [30], [1], [20], [30]])
    x = x.where(mask[..., None], 0.0)
    convolutions = made(x, mask)
    wanted = convolutions(x, mask)
    monkeypatch.setattr(random_convolutions, "_STEPS_IN_CACHE", at_once)
    torch.testing.assert_close(convolutions(x, mask), wanted, atol=1e-4, rtol=0)


def test_the_state_is_all_there_is():
    x = torch.randn(6, 40, 2, generator=seeded(1))
    fitted, loaded = made(x), RandomConvolutions(336, 4)
    loaded.load_state_dict(fitted.state_dict())
    assert torch.equal(loaded(x), fitted(x))


def test_global_generators_are_not_touched():
    x = torch.randn(6, 40, 2, generator=seeded(1))
    state = torch.get_rng_state()
    made(x)
    assert torch.equal(torch.get_rng_state(), state)
