"""`explain`: every method against plain loops, and where the answer is known."""

import copy
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from tsformer import load
from tsformer.explain import METHODS

pytest.importorskip("captum", reason='needs the extra "explain"')

COMPLETE = ("integrated_gradients", "shapley_sampling")
FEW = {"shapley_sampling": {"n_samples": 1, "window": 6}}


def logits(clf, X, times=None) -> np.ndarray:
    """Return the logit of each class, the mean over members: (n, K)."""
    members = clf.estimators_ if clf.n_estimators > 1 else [clf]
    return np.mean([member.logits(X, times) for member in members], axis=0)


def replaced(data, values):
    """Return X with these values wherever it has any."""
    X = [x.copy() for x in data.X]
    for i, x in enumerate(X):
        there = np.broadcast_to(np.asarray(values, dtype=float), data.observed.shape)
        x[:] = np.where(np.isnan(x), np.nan, there[i, :, : x.shape[1]])
    return X


STEMS = [("plain", "conv"), ("everything", "linear"), ("everything", "patch")]
RECIPES = [
    *({"encoding": name} for name in ("rope", "tape+erpe")),
    {"scaling": None, "pooling": "attention"},
    {"head_norm": None, "norm_first": False, "views": "difference"},
    {"n_estimators": 2, "temperature": 2.5},
    {"stem_params": {"strides": (2, 2), "downsampling": "stride"}},
]


@pytest.mark.parametrize(
    ("method", "kind", "options"),
    [
        *((method, kind, {"stem": stem}) for method in COMPLETE for kind, stem in STEMS),
        *((COMPLETE[0], "everything", options) for options in RECIPES),
    ],
)
def test_values_add_up_to_the_change_of_the_logit(method, kind, options, fit, request):
    series = request.getfixturevalue(kind)
    clf, baseline, values = fit(series, **options), np.full(series.observed.shape, 2.5), 2.5
    if "stem" in options:  # by default, compared with the means of training
        baseline, values = "mean", clf.preprocessor_.mean.numpy()[None, :, None]
    call = series.options | {"baseline": baseline, "method_params": FEW.get(method)}
    of_c = clf.explain(series.X, method, "c", **call).sum(axis=(1, 2))
    before = logits(clf, replaced(series, values), series.times)
    change = (logits(clf, series.X, series.times) - before)[:, 2]
    tolerance = 0.01 if method == "integrated_gradients" else 1e-5
    assert np.abs(of_c - change).max() <= tolerance * max(1, np.abs(change).max())
    assert np.abs(change).max() > 0.05, "there is something to explain"


def test_without_scaling_a_series_is_compared_with_its_own_means(everything, fit):
    data, clf = everything, fit(everything, scaling=None)
    means = np.stack([pd.DataFrame(x.T).mean() for x in data.X])[:, :, None] + 0 * data.observed
    of_means = clf.explain(data.X, baseline=means, **data.options)
    np.testing.assert_allclose(clf.explain(data.X, **data.options), of_means, atol=1e-6)


@pytest.mark.parametrize("scaling", ["series", "series+size"])
def test_the_moments_of_a_series_are_held_fixed(scaling, plain, fit):
    clf = fit(plain, scaling=scaling)
    relevance = clf.explain(plain.X, target="b")
    X = plain.X
    scaled = (X - X.mean(axis=2, keepdims=True)) / X.std(axis=2, keepdims=True)
    size = clf.preprocessor_.size_of(torch.from_numpy(X.swapaxes(1, 2)))
    unscaled = copy.copy(clf)
    unscaled.preprocessor_ = clf.preprocessor_.without_scaling()
    unscaled.preprocessor_.forward = partial(unscaled.preprocessor_.forward, size=size)
    change = (logits(unscaled, scaled) - logits(unscaled, np.zeros_like(X)))[:, 1]
    np.testing.assert_allclose(logits(unscaled, scaled), logits(clf, X), atol=1e-6)
    np.testing.assert_allclose(relevance.sum(axis=(1, 2)), change, atol=0.01)


def test_gradient_x_input_equals_slopes(fit, everything):
    data = everything
    clf = fit(data, encoding="rope")
    relevance = clf.explain(data.X, "gradient_x_input", "a", baseline="zero", **data.options)
    of_each = clf.explain(data.X, "gradient_x_input", data.y, baseline="zero", **data.options)
    np.testing.assert_array_equal(of_each[::3], relevance[::3], "the series of the class a")
    step = 0.02
    for i, channel, at in [(0, 0, 0), (0, 0, 6), (3, 1, 4), (7, 0, 5), (9, 1, 8), (2, 0, 3)]:
        if not data.observed[i, channel, at]:
            continue
        ends = []
        for sign in (1, -1):
            moved = [x.copy() for x in data.X]
            moved[i][channel, at] += sign * step
            ends.append(logits(clf, moved, data.times)[i, 0])
        slope = (ends[0] - ends[1]) / (2 * step)
        value = data.X[i][channel, at]
        assert relevance[i, channel, at] == pytest.approx(slope * value, rel=0.02, abs=2e-3)


def test_shapley_values_are_shared_equally_within_a_window(plain, fit):
    params = {"window": 12, "n_samples": 2}
    relevance = fit(plain).explain(plain.X, "shapley_sampling", "b", method_params=params)
    windows = relevance.reshape(12, 2, 2, 12)
    assert np.ptp(windows, axis=3).max() < 1e-9
    assert np.abs(windows[:, :, 0, 0] - windows[:, :, 1, 0]).min() > 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_codes_can_be_explained(method, codes, fit):
    clf = fit(codes, stem="embedding", n_layers=1)
    relevance = clf.explain(codes.X, method, "b", baseline="zero")
    assert relevance.shape == (6, 1, 20)
    assert (relevance[~codes.observed] == 0).all()
    assert (relevance[codes.observed] != 0).all()
    if method in (*COMPLETE, "occlusion"):
        unknown = [np.where(np.isnan(x), np.nan, 777.0) for x in codes.X]
        with pytest.warns(UserWarning, match="codes"):
            before = logits(clf, unknown)
        change = (logits(clf, codes.X) - before)[:, 1]
        if method == "occlusion":  # of all steps at once
            params = {"window": 99, "stride": 99}
            relevance = clf.explain(codes.X, method, "b", baseline="zero", method_params=params)
            relevance = relevance.max(axis=2, keepdims=True, where=codes.observed, initial=-np.inf)
        np.testing.assert_allclose(relevance.sum(axis=(1, 2)), change, atol=0.01)


def test_by_default_codes_are_compared_with_their_mean(codes, fit):
    clf = fit(codes, stem="embedding", n_layers=1)
    blank = copy.deepcopy(clf)
    vectors = blank.model_.stem.embedding.weight.data
    vectors[:] = vectors[1:].mean(dim=0)
    change = (logits(clf, codes.X) - logits(blank, codes.X))[:, 1]
    assert np.abs(change).max() > 0.05
    relevance = clf.explain(codes.X, target="b").sum(axis=(1, 2))
    np.testing.assert_allclose(relevance, change, atol=0.01)


def test_explaining_changes_nothing(plain, fit, tmp_path):
    clf = fit(plain)

    def explained(random_state=0):
        params = FEW["shapley_sampling"] | {"random_state": random_state}
        return clf.explain(plain.X, "shapley_sampling", method_params=params)

    before, state = clf.predict_proba(plain.X), torch.get_rng_state()
    by_default = clf.explain(plain.X, "shapley_sampling", method_params=FEW["shapley_sampling"])
    np.testing.assert_array_equal(explained(), by_default)
    assert not np.array_equal(explained(None), explained(None))
    assert torch.equal(state, torch.get_rng_state())
    clf.attention(plain.X)
    np.testing.assert_array_equal(clf.predict_proba(plain.X), before)
    assert all(weight.requires_grad for weight in clf.model_.parameters())
    assert not clf.model_.training
    clf.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").explain(plain.X), clf.explain(plain.X))
    with pytest.warns(UserWarning, match="32 steps"):
        clf.explain(plain.X, method_params={"n_steps": 1, "tolerance": 1e-9})


def of(method: str, **params) -> dict:
    return {"method": method, "method_params": params}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "integrated_gradient"}, "'integrated_gradients'"),
        (of("occlusion", windows=3), "'window'"),
        ({"target": "d"}, "['d']"),
        ({"baseline": "men"}, "'mean'"),
        ({"baseline": np.zeros(3)}, "(3,)"),
        ({"baseline": np.nan}, "finite"),
        (of("integrated_gradients", tolerance=0), "tolerance"),
        (of("occlusion", window=np.inf), "window"),
        (of("shapley_sampling", random_state=-1), "random_state"),
        (of("occlusion", stride=5), "window, which is 2"),
    ],
    ids=str,
)
def test_explain_wrong_arguments_are_named(arguments, words, plain, fit):
    clf = fit(plain)
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        clf.explain(plain.X, **arguments)
