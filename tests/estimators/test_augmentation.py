"""The estimators' augmentation: by name or as an instance, checked before training, saved."""

from __future__ import annotations

import numpy as np
import pytest
from small_estimators import classifier

from tsformer import load
from tsformer.augmentation import CutMix, Jitter, Sum, Warp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 20)).cumsum(axis=2)
Y = np.arange(12) % 2


def proba(**options):
    return classifier(**options).fit(X, Y).predict_proba(X)


def test_a_name_is_its_class_with_these_options():
    by_name = proba(augmentation="warp", augmentation_params={"sigma": 0.4})
    np.testing.assert_array_equal(by_name, proba(augmentation=Warp(sigma=0.4)))
    assert not np.array_equal(by_name, proba(augmentation=Warp(sigma=0.2)))
    assert not np.array_equal(by_name, proba(augmentation=None))


def test_the_default_augments_behind_the_conv_stem_only():
    np.testing.assert_array_equal(proba(), proba(augmentation="warp+cutmix"))
    linear = {"stem": "linear"}
    np.testing.assert_array_equal(proba(**linear), proba(augmentation=None, **linear))
    patient = proba(augmentation_params={"warp": {"p": 1.0}})
    np.testing.assert_array_equal(patient, proba(augmentation=Sum([Warp(p=1.0), CutMix()])))


def test_codes_are_refused():
    with pytest.raises(ValueError, match="cannot augment series of codes"):
        classifier(stem="embedding", augmentation="jitter").fit(np.ones((12, 1, 20)), Y)


def test_saved_by_name_and_options(tmp_path):
    clf = classifier(augmentation=Sum([Warp(p=0.1), Jitter(sigma=0.3)])).fit(X, Y)
    clf.save(tmp_path / "clf")
    again = load(tmp_path / "clf")
    assert again.augmentation == "warp+jitter"
    assert again.augmentation_params == {
        "warp": {"p": 0.1, "sigma": 0.2, "knots": 5},
        "jitter": {"p": Jitter().p, "sigma": 0.3},
    }
    np.testing.assert_array_equal(again.fit(X, Y).predict_proba(X), clf.predict_proba(X))
