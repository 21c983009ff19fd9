"""The ridge against scikit-learn's, and its leave-one-out scores against refits."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.preprocessing import LabelBinarizer

from tsformer.estimators.targets import Classes
from tsformer.features import ridge
from tsformer.features.ridge import RidgeClassifier


def problem(n: int, n_features: int, n_classes: int = 3):
    """Noisy features of classes, and weights between 1 and 3."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    features = rng.normal(size=(n, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    return features, y, rng.uniform(1, 3, size=n)


def one_hot(y: np.ndarray) -> np.ndarray:
    return LabelBinarizer(neg_label=-1).fit_transform(y)


def fitted(features, y, weights=None, groups=None) -> RidgeClassifier:
    return RidgeClassifier().fit(
        torch.from_numpy(features).float(),
        torch.from_numpy(y),
        kind=Classes(np.arange(int(y.max()) + 1)),
        weights=None if weights is None else torch.from_numpy(weights),
        groups=None if groups is None else torch.from_numpy(groups),
    )


def left_out(features, y, weights, alpha, groups) -> np.ndarray:
    """The scores of each series by a ridge fitted to all other groups."""
    scores = np.empty((len(y), y.max() + 1))
    for group in np.unique(groups):
        own = groups == group
        each = Ridge(alpha=alpha).fit(features[~own], one_hot(y)[~own], weights[~own])
        scores[own] = each.predict(features[own])
    return scores


def smoothed(y: np.ndarray, n: int) -> np.ndarray:
    own = np.arange(y.max() + 1) == y[:, None]
    return np.where(own, 1 - 1 / (n + 2), 1 / (n + 2) / y.max())


def cross_entropy(scores, y, weights, scale, n=None) -> float:
    logits = scores * scale
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    wanted = smoothed(y, n or len(y))
    return float(-(weights * (wanted * logs).sum(axis=1)).sum() / weights.sum())


# More features than series, whose kernel is decomposed, and fewer, whose covariance is.
shapes = pytest.mark.parametrize("shape", [(20, 30), (20, 6)])
weighting = pytest.mark.parametrize("weighted", [False, True])


@shapes
@weighting
def test_ridge_coefficients_equal_scikit_learn(shape, weighted):
    features, y, weights = problem(*shape)
    own = fitted(features, y, weights if weighted else None)
    weights = weights / weights.mean() if weighted else None
    other = Ridge(alpha=float(own.alpha)).fit(features, one_hot(y), weights)
    np.testing.assert_allclose(own.coef.numpy(), other.coef_.T, atol=1e-5)
    scores = own(torch.from_numpy(features).float()).numpy() / float(own.scale)
    np.testing.assert_allclose(scores, other.predict(features), atol=1e-4)
    loaded = RidgeClassifier()
    loaded.load_state_dict(own.state_dict())
    assert torch.equal(loaded(torch.ones(1, shape[1])), own(torch.ones(1, shape[1])))


@shapes
@weighting
@pytest.mark.parametrize("n_groups", [None, 2, 7])
def test_ridge_choice_equals_refits(shape, weighted, n_groups, monkeypatch):
    monkeypatch.setattr(ridge, "_GRID", torch.logspace(-3, 1, 3, dtype=torch.float64))
    features, y, weights = problem(*shape)
    # Not in order, and of unequal size.
    groups = None if n_groups is None else np.arange(len(y)) ** 2 % 11 % n_groups
    own = fitted(features, y, weights if weighted else None, groups)
    groups = np.arange(len(y)) if groups is None else groups
    weights = weights / weights.mean() if weighted else np.ones(len(y))
    root = np.sqrt(weights)[:, None]
    centred = (features - weights @ features / len(y)) * root
    unit = (centred**2).sum() / len(y)
    scales = np.logspace(-1, 2, 300)
    best, of_alpha = [], {}
    for alpha in np.logspace(-3, 1, 3) * unit:
        scores = left_out(features, y, weights, alpha, groups)
        losses = [cross_entropy(scores, y, weights, scale) for scale in scales]
        best.append((min(losses), scales[np.argmin(losses)], alpha))
        of_alpha[alpha] = scores
    loss, scale, alpha = min(best)
    assert float(own.alpha) == pytest.approx(alpha, rel=1e-5)
    assert float(own.loss) == pytest.approx(loss, rel=1e-3)
    assert float(own.scale) == pytest.approx(scale, rel=0.03)
    aims = smoothed(y, len(y))
    shares = np.tile(weights @ aims / weights.sum(), (len(y), 1))
    least, most = (cross_entropy(np.log(each), y, weights, 1) for each in (aims, shares))
    assert own.unexplained == pytest.approx((loss - least) / (most - least), abs=1e-3)
    proba, targets = own.left_out
    expected = torch.from_numpy(of_alpha[alpha] * float(own.scale)).softmax(dim=1)
    torch.testing.assert_close(proba, expected, atol=1e-4, rtol=0)
    np.testing.assert_array_equal(targets, y)


@pytest.mark.parametrize("groups", [np.zeros(20, dtype=int), np.arange(20)[::-1].copy()])
def test_ridge_trivial_groups_are_none(groups):
    features, y, _ = problem(20, 6)
    assert fitted(features, y, groups=groups).loss == fitted(features, y).loss


@pytest.mark.parametrize(("n", "n_classes"), [(1, 1), (2, 2), (4, 2), (200, 100)], ids=str)
def test_few_series_or_many_classes(n, n_classes):
    features, y, _ = problem(n, 50, n_classes)
    own = fitted(features, y)
    proba = own(torch.from_numpy(features).float()).softmax(dim=1)
    assert proba.shape == (n, n_classes)
    assert proba.isfinite().all()
    assert math.isfinite(float(own.loss))
    constant = fitted(np.ones((10, 3)), np.array([0] * 7 + [1] * 3))
    assert constant(torch.ones(1, 3)).argmax() == 0
    assert not constant.coef.any()
    opposed = fitted(np.ones((10, 3)), np.arange(10) % 2)  # each left-out score is for the other
    assert float(opposed.scale) == pytest.approx(1e-3, rel=1e-5), "the least of its range"


@shapes
@weighting
@pytest.mark.parametrize("n_groups", [None, 2, 7])
def test_ridge_large_system_uses_penalty_of_sample(shape, weighted, n_groups, monkeypatch):
    features, y, weights = problem(*shape)
    weights = weights if weighted else None
    groups = None if n_groups is None else np.arange(len(y)) ** 2 % 11 % n_groups
    for name in ("_DECOMPOSED", "_SAMPLE", "_ROWS"):
        monkeypatch.setattr(ridge, name, 5)
    own = fitted(features, y, weights, groups)
    unit = _unit(features, np.ones(len(y)) if weights is None else weights)
    monkeypatch.undo()
    folds = None if groups is None else ridge.group_indices(torch.from_numpy(groups))
    rows, _ = ridge._sampled_rows(len(y), 5, folds)
    options = (None if column is None else column[rows] for column in (weights, groups))
    assert own.alpha == fitted(features[rows], y[rows], *options).alpha
    monkeypatch.setattr(ridge, "_GRID", own.alpha.double()[None] / unit)
    whole = fitted(features, y, weights, groups)
    torch.testing.assert_close(own.coef, whole.coef)
    torch.testing.assert_close(own.intercept, whole.intercept)
    targets = own.left_out[1]
    assert len(targets) >= 5
    assert (len(targets) == len(y)) == (n_groups == 2)
    nearest = torch.cdist(_scores(own), _scores(whole)).min(dim=1)
    assert nearest.values.max() < 1e-4
    assert whole.left_out[1][nearest.indices].equal(targets)


def test_ridge_many_scores_are_sampled(monkeypatch):
    features, y, weights = problem(20, 6)
    whole = fitted(features, y, weights)
    monkeypatch.setattr(ridge, "_GRID", whole.alpha.double()[None] / _unit(features, weights))
    monkeypatch.setattr(ridge, "_SCORES", 10 * 3)
    own, (some, _) = fitted(features, y, weights), ridge._sampled_rows(20, 10, None)
    of_groups, _ = ridge._sampled_rows(20, 10, list(torch.arange(20).split(2)))
    for drawn in (some, of_groups):
        assert len(drawn) == 10
        assert drawn.tolist() != list(range(10)), "series may be sorted"
    assert own.left_out[1].equal(whole.left_out[1][some])
    torch.testing.assert_close(_scores(own), _scores(whole)[some], rtol=1e-4, atol=1e-4)
    logits = own.left_out[0].log().numpy()
    assert float(own.loss) == pytest.approx(cross_entropy(logits, y[some], weights[some], 1, n=20))


def _scores(own) -> torch.Tensor:
    """The leave-one-out scores of each series, up to a constant."""
    logits = own.left_out[0].log() / float(own.scale)
    return logits - logits.mean(dim=1, keepdim=True)


def _unit(features, weights) -> float:
    """The mean eigenvalue of the kernel matrix."""
    w = weights / weights.mean()
    centred = (features - w @ features / len(w)) * np.sqrt(w)[:, None]
    return float((centred**2).sum() / len(w))
