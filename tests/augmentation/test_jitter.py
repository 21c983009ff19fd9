"""`jitter`: noise of the right size, on valid steps only."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import KINDS, batch

from tsformer.augmentation import Batch, Jitter
from tsformer.training.seeds import seeded

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "codes"])
def test_formula(kind):
    given = batch(kind)
    x = given.values
    with seeded(4, CPU):
        out = Jitter(p=0.5, sigma=0.3)(given).values
    with seeded(4, CPU):
        chosen, noise = torch.rand(len(x), 1, 1) < 0.5, torch.randn(x.shape)
    assert 0 < chosen.sum() < len(x)
    for i, series in enumerate(x):
        for step, values in enumerate(series):
            valid = given.mask is None or given.mask[i, step]
            expected = values + 0.3 * noise[i, step] if chosen[i] and valid else values
            torch.testing.assert_close(out[i, step], expected)


def test_the_noise_is_normal_and_of_deviation_sigma():
    given = Batch(torch.zeros(50, 400, 5))
    with seeded(0, CPU):
        noise = Jitter(p=1.0, sigma=0.25)(given).values
    assert abs(noise.std() - 0.25) < 0.005
    assert abs(noise.mean()) < 0.005
    assert abs((noise.abs() < 0.25).float().mean() - 0.6827) < 0.01


def test_flags_of_missing_values_get_no_noise():
    given = replace(batch("padded"), n_flags=1)
    with seeded(4, CPU):
        flagged = Jitter(p=1.0, sigma=0.3)(given).values
    with seeded(4, CPU):
        plain = Jitter(p=1.0, sigma=0.3)(replace(given, n_flags=0)).values
    assert torch.equal(flagged[..., -1:], given.values[..., -1:])
    assert torch.equal(flagged[..., :-1], plain[..., :-1])
    assert not torch.equal(plain[..., -1:], given.values[..., -1:])


def test_sigma_zero_is_the_identity():
    given = batch("times")
    assert torch.equal(Jitter(p=1.0, sigma=0.0)(given).values, given.values)


def test_as_many_series_as_p_says_get_noise():
    given = Batch(torch.zeros(2000, 4, 1))
    with seeded(0, CPU):
        changed = Jitter(p=0.3)(given).values.any(dim=1)
    assert 0.26 < changed.float().mean() < 0.34


def test_codes_are_refused():
    with pytest.raises(ValueError, match="jitter cannot augment series of codes"):
        Jitter()(batch("codes"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": -1}, "p of jitter must be a float >= 0 and <= 1; got -1"),
        ({"sigma": -0.1}, r"sigma of jitter must be a float >= 0; got -0\.1"),
        ({"sigma": float("inf")}, "sigma of jitter must be a float .* got inf"),
        ({"sigma": True}, "sigma of jitter must be a float .* got True"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Jitter(**options)
