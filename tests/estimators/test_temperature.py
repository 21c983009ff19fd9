"""Temperatures divide logits: by default, as asked, and as fitted to held-out series."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import log_loss
from small_estimators import classifier

from tsformer import TSTransformerClassifier
from tsformer.estimators.settings import MIXED_TEMPERATURE
from tsformer.export import graph

# Of so few noisy series, each part that calibration looks at would choose a scaling of its own.
OPTIONS = {"scaling": "channel", "max_epochs": 3}
NOISE = np.random.default_rng(0)
X = NOISE.normal(size=(40, 1, 20))
# One label in five is wrong, so that certainty is not the best answer.
Y = np.where(NOISE.random(40) < 0.2, "b", np.where(X[:, 0, :10].mean(axis=1) > 0, "a", "b"))

make = partial(classifier, **OPTIONS)


def sharpened(proba: np.ndarray, temperature: float) -> np.ndarray:
    raised = proba ** (1 / temperature)
    return raised / raised.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def plain() -> TSTransformerClassifier:
    return make(temperature=1).fit(X, Y)


def test_temperature_divides_logits(plain):
    clf = make(temperature=0.5).fit(X, Y)
    expected = sharpened(plain.predict_proba(X), 0.5)
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-7)
    doubled = 2 * plain.decision_function(X)
    np.testing.assert_allclose(clf.decision_function(X), doubled, rtol=1e-6)
    np.testing.assert_array_equal(clf.transform(X), plain.transform(X))


def test_temperature_auto():
    assert make(augmentation="warp").fit(X, Y).temperatures_ == [1.0]
    assert make(stem="linear").fit(X, Y).temperatures_ == [1.0]
    mixed = make(augmentation="warp+cutmix", n_estimators=2).fit(X, Y)
    assert mixed.temperatures_ == [MIXED_TEMPERATURE] * 2


def test_calibrate_folds_get_weights_and_seed():
    weights = np.random.default_rng(1).uniform(0.05, 2.0, 40)
    indices = [np.arange(0, 40, 2), np.arange(1, 40, 2)]
    clf = make(temperature=1, random_state=3, n_estimators=2).fit(X, Y)
    before = {name: tensor.clone() for name, tensor in clf.model_.state_dict().items()}
    clf.calibrate(X, Y, cv=[tuple(indices), tuple(indices[::-1])], sample_weight=weights)
    for name, tensor in clf.model_.state_dict().items():
        assert torch.equal(tensor, before[name])
    scores = np.empty((2, 40, 2))
    for train, test in (indices, indices[::-1]):
        copied = clone(clf).fit(X[train], Y[train], sample_weight=weights[train])
        scores[:, test] = copied.predict_proba_members(X[test])
    factors = np.geomspace(0.05, 20, 300)
    losses = [
        log_loss(Y, sharpened(scores, t).mean(axis=0), sample_weight=weights) for t in factors
    ]
    assert clf.temperatures_[0] == pytest.approx(factors[int(np.argmin(losses))], rel=2.5e-2)


def test_calibrate_warns_all_right_or_wrong(plain):
    clf, right = copy.deepcopy(plain), plain.predict(X)
    for y, factor in ((right, 0.05), (np.where(right == "a", "b", "a"), 20)):
        clf.temperatures_ = [1.0]
        with pytest.warns(UserWarning):
            clf.calibrate(X, y)
        assert clf.temperatures_[0] == pytest.approx(factor, rel=1e-2)


def test_calibrate_ctrl_c_leaves_temperatures(monkeypatch):
    clf, fit = make(n_estimators=2).fit(X, Y), TSTransformerClassifier.fit

    def interrupted(self, *args, **kwargs):
        fit(self, *args, **kwargs).histories_[0].interrupted = True  # as after Ctrl-C

    monkeypatch.setattr(TSTransformerClassifier, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.calibrate(X, Y, cv=2)
    assert clf.temperatures_ == [MIXED_TEMPERATURE] * 2


def test_temperatures_exported_refitted():
    clf = make().fit(X[:20], Y[:20]).calibrate(X[20:], Y[20:])
    exported = graph.graph_of(clf)(torch.from_numpy(X).float())
    np.testing.assert_allclose(exported.numpy(), clf.predict_proba(X), atol=1e-5)
    assert clf.fit(X, Y).temperatures_ == [MIXED_TEMPERATURE]


def test_calibrate_refuses(plain):
    for arguments in (
        {"sample_weight": np.zeros(40)},
        {"cv": [(np.arange(20), np.arange(20, 30))]},  # series in no fold
        {"cv": [(np.flatnonzero(Y == "a"), np.flatnonzero(Y == "b"))]},  # a class in no training
    ):
        with pytest.raises(ValueError):
            plain.calibrate(X, Y, **arguments)
        assert plain.temperatures_ == [1.0]
