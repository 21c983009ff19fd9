"""The size of series: against plain formulas, with gaps, constants, and what training had not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import Padded

RNG = np.random.default_rng(0)
#: Series [L, C] of several lengths, whose sizes span six decades.
SERIES = [
    10.0 ** RNG.uniform(-3, 3) * (RNG.standard_normal((n, 2)) + RNG.normal(size=2))
    for n in (9, 14, 20, 11, 17)
]


def padded(X: list[np.ndarray]) -> Padded:
    return to_padded([x.T for x in X])


def expected(X: list[np.ndarray]) -> np.ndarray:
    logs = np.log([np.nanstd(x, axis=0) for x in X])
    levels = np.arcsinh([np.nanmean(x, axis=0) for x in X] / np.exp(logs.mean(axis=0)))
    both = np.concatenate([logs, levels], axis=1)
    return (both - both.mean(axis=0)) / both.std(axis=0)


def sizes(scaler: Scaler, X: list[np.ndarray]) -> np.ndarray:
    """Return what the model reads of the sizes at the first step, having checked the others."""
    panel = scaler.transform(padded(X)).with_mask()
    first = scaler.n_inputs - scaler.n_flags - 4
    found = panel.values[..., first : first + 4]
    masks = torch.ones_like(found[..., 0], dtype=torch.bool) if panel.mask is None else panel.mask
    for row, mask in zip(found, masks, strict=True):
        assert (row[mask] == row[0]).all(), "the same at all steps"
        assert not row[~mask].any()
    return found[:, 0].numpy()


def test_sizes_and_levels_are_standardised_on_a_scale_of_decades():
    scaler = Scaler("series+size", views="values+difference").fit(padded(SERIES))
    assert scaler.n_inputs == 8
    np.testing.assert_allclose(sizes(scaler, SERIES), expected(SERIES), rtol=1e-5, atol=1e-6)
    plain = Scaler("series", views="values+difference").fit(padded(SERIES))
    assert torch.equal(
        scaler.transform(padded(SERIES)).values[..., :4], plain.transform(padded(SERIES)).values
    ), "the others are those of series that are standardised by themselves"


def test_any_unit_gives_the_same_and_gaps_do_not_count():
    plain = sizes(Scaler("series+size").fit(padded(SERIES)), SERIES)
    for unit in (1e-6, 1e9):
        X = [unit * x for x in SERIES]
        found = sizes(Scaler("series+size").fit(padded(X)), X)
        np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-5)
    X = [x.copy() for x in SERIES]
    X[0][3:6, 1] = np.nan
    scaler = Scaler("series+size").fit(padded(X))
    assert (scaler.n_inputs, scaler.n_flags) == (7, 1)
    np.testing.assert_allclose(sizes(scaler, X), expected(X), rtol=1e-5, atol=1e-6)
    flags = scaler.transform(padded(X)).values[..., -1]
    assert (flags != 0).sum() == 3


def test_constants_have_the_least_size_in_training():
    X = [*SERIES, np.full((10, 2), 3.0)]
    scaler = Scaler("series+size").fit(padded(X))
    found = sizes(scaler, X)[:, :2]
    np.testing.assert_allclose(found[-1], found[:-1].min(axis=0), rtol=1e-6)
    assert np.isfinite(found).all()
    missing = [*SERIES, np.full((10, 2), np.nan)]
    missing[-1][:, 0] = 1.0
    assert np.isfinite(sizes(Scaler("series+size").fit(padded(missing)), missing)).all()
    X = [np.sin(np.arange(12.0) + k)[:, None].repeat(2, axis=1) for k in (0.0, 0.0, 0.0)]
    for same in (X, [np.zeros((5, 2))] * 3):
        found = sizes(Scaler("series+size").fit(padded(same)), same)
        np.testing.assert_allclose(found, 0, atol=1e-12)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_sizes_that_training_had_not_are_five_deviations_at_most(factor):
    scaler = Scaler("series+size").fit(padded(SERIES))
    found = sizes(scaler, [factor * x for x in SERIES])
    assert np.abs(found).max() == 5 if factor > 1 else np.abs(found).max() <= 5
    assert np.isfinite(found).all()
