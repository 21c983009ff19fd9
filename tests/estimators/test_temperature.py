"""Temperatures divide logits: by default, as asked, and as fitted to held-out series."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import log_loss
from small_estimators import classifier

from tsformer import TSTransformerClassifier, load
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
    np.testing.assert_allclose(
        clf.decision_function(X), plain.decision_function(X) / 0.5, rtol=1e-6
    )
    np.testing.assert_array_equal(clf.predict(X), plain.predict(X))
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
    before = {name: each.clone() for name, each in clf.model_.state_dict().items()}
    clf.calibrate(X, Y, cv=[tuple(indices), tuple(indices[::-1])], sample_weight=weights)
    for name, each in clf.model_.state_dict().items():
        assert torch.equal(each, before[name])
    scores = np.empty((2, 40, 2))
    for train, test in (indices, indices[::-1]):
        copied = clone(clf).fit(X[train], Y[train], sample_weight=weights[train])
        scores[:, test] = copied.predict_proba_members(X[test])
    factors = np.geomspace(0.05, 20, 300)
    losses = [
        log_loss(Y, sharpened(scores, t).mean(axis=0), sample_weight=weights) for t in factors
    ]
    assert clf.temperatures_[0] == pytest.approx(factors[int(np.argmin(losses))], rel=2.5e-2)


def test_calibrate_leaves_out_weight_0(plain):
    weights = np.where(np.arange(40) < 30, 1.0, 0.0)
    found = copy.deepcopy(plain).calibrate(X, Y, sample_weight=weights)
    expected = copy.deepcopy(plain).calibrate(X[:30], Y[:30])
    assert found.temperatures_ == pytest.approx(expected.temperatures_)
    assert found.held_out_scores() == pytest.approx(expected.held_out_scores())


def test_calibrate_warns_all_right_or_wrong(plain):
    clf, right = copy.deepcopy(plain), plain.predict(X)
    with pytest.warns(UserWarning, match="40 series"):
        clf.calibrate(X, right)
    assert clf.temperatures_[0] == pytest.approx(0.05, rel=1e-2)
    clf.temperatures_ = [1e-3]  # so sure of each class that the log loss is 0 for many factors
    for one, y in ((copy.deepcopy(plain), np.where(right == "a", "b", "a")), (clf, right)):
        with pytest.warns(UserWarning, match="no optimal factor"):
            one.calibrate(X, y)


def test_calibrate_ctrl_c_leaves_temperatures(monkeypatch):
    clf, fit, fitted = make(n_estimators=2).fit(X, Y), TSTransformerClassifier.fit, []

    def interrupted(self, *args, **kwargs):
        fitted.append(fit(self, *args, **kwargs))
        self.histories_[0].interrupted = True  # as `fit` leaves it after Ctrl-C
        return self

    monkeypatch.setattr(TSTransformerClassifier, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.calibrate(X, Y, cv=2)
    assert len(fitted) == 1, "the copy that was interrupted is the last"
    assert clf.temperatures_ == [MIXED_TEMPERATURE] * 2


def test_temperatures_saved_exported_refitted(tmp_path):
    clf = make().fit(X[:20], Y[:20]).calibrate(X[20:], Y[20:])
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").temperatures_ == clf.temperatures_
    exported = graph.graph_of(clf)(torch.from_numpy(X).float())
    np.testing.assert_allclose(exported.numpy(), clf.predict_proba(X), atol=1e-5)
    assert clf.fit(X, Y).temperatures_ == [MIXED_TEMPERATURE]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_weight": np.zeros(40)}, "non-zero"),
        ({"cv": [(np.arange(20), np.arange(20, 30))]}, "30 series"),
        ({"cv": [(np.flatnonzero(Y == "a"), np.flatnonzero(Y == "b"))]}, "class 'b'"),
    ],
)
def test_calibrate_refuses(plain, arguments, message):
    with pytest.raises(ValueError, match=message):
        plain.calibrate(X, Y, **arguments)
    assert plain.temperatures_ == [1.0]
