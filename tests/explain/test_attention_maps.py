"""`attention` and attention rollout, against plain loops."""

from functools import partial

import numpy as np
import pytest
from marks import exhaustive_except

from tsformer.encodings import names


@pytest.mark.parametrize("stride", [1, 4])
def test_rollout_is_the_product_over_blocks_and_a_gap_shares_with_its_sides(stride, plain, fit):
    X = plain.X.copy()
    gaps = [(4, 8), (0, 4), (20, 24), (24, 24), (16, 20)]
    for case, (begin, end) in enumerate(gaps):
        X[case, :, begin:end] = np.nan
    stems = {1: {"stem": "linear"}, 4: {"stem": "patch", "stem_params": {"stride": 4}}}
    clf = fit(plain, **stems[stride])
    by_channel = clf.explain(X, "attention_rollout")
    by_step = by_channel.sum(axis=1)
    np.testing.assert_allclose(by_channel[3], np.stack([by_step[3] / 2] * 2))
    np.testing.assert_allclose(by_step.sum(axis=1), 1, atol=1e-6)
    weights = clf.attention(X).weights.astype(float).mean(axis=2)
    N = 24 // stride
    for case in range(5):
        begin, end = (step // stride for step in gaps[case])
        flow = np.eye(N)
        for layer in weights[case]:
            flow = (layer + np.eye(N)) / 2 @ flow
        valid = weights[case].any(axis=(0, 2))
        shares = flow[valid].mean(axis=0)
        expected = np.where((np.arange(N) < begin) | (np.arange(N) >= end), shares, 0.0)
        sides = [token for token in (begin - 1, end) if 0 <= token < N]
        for side in sides:
            expected[side] += shares[begin:end].sum() / len(sides)
        by_token = by_step[case].reshape(N, stride).sum(axis=1)
        np.testing.assert_allclose(by_token, expected, atol=1e-6)


@pytest.mark.parametrize("encoding", exhaustive_except(names()))
def test_any_encoding_has_weights(encoding, everything, fit):
    maps = fit(everything, encoding=encoding).attention(everything.X, **everything.options)
    assert maps.weights.shape == (12, 2, 2, 24, 24)
    for weights, valid in zip(maps.weights, maps.mask, strict=True):
        np.testing.assert_allclose(weights[:, :, valid].sum(axis=-1), 1, atol=1e-5)
        assert not weights[:, :, ~valid].any()
        assert not weights[..., ~valid].any()


@pytest.mark.parametrize(
    ("stem", "params", "expected"),
    [
        ("conv", {"strides": (1, 1)}, [0, 0.5, 2, 2.5, 4, 7]),
        ("conv", {"strides": (2, 1)}, [0, 2, 4]),
        ("patch", {"stride": 2}, [0.25, 2.25, 5.5]),
        ("linear", {}, [0, 0.5, 2, 2.5, 4, 7]),
    ],
)
def test_tokens_have_the_times_of_their_steps(stem, params, expected, fit, everything):
    data = everything
    clf = fit(data, stem=stem, stem_params=params)
    assert clf.preprocessor_.time_step != 1
    X, times = [np.ones((2, 6))], [3 + np.array([0, 0.5, 2, 2.5, 4, 7])]
    np.testing.assert_allclose(clf.attention(X, times).times[0], expected, atol=1e-5)


def test_attention_of_member(plain, fit):
    clf = fit(plain, n_estimators=2)
    second = clf.estimators_[1].attention(plain.X).weights
    np.testing.assert_array_equal(clf.attention(plain.X, member=1).weights, second)
    with pytest.raises(ValueError, match="member"):
        clf.attention(plain.X, member=2)
    without = fit(plain, n_layers=0)
    for ask in (without.attention, partial(without.explain, method="attention_rollout")):
        with pytest.raises(ValueError, match="n_layers=0"):
            ask(plain.X)
