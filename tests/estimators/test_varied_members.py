"""members="varied": each member has a recipe of its own, and is a classifier of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer import TSTransformerClassifier, load

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 1, 20)).cumsum(axis=2)
Y = np.arange(12) % 2
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "random_state": 0}
WARP = {"augmentation": "warp", "augmentation_params": {"sigma": 0.5}}


@pytest.fixture(scope="module")
def varied() -> TSTransformerClassifier:
    return TSTransformerClassifier(**SMALL, **WARP, n_estimators=5, members="varied").fit(X, Y)


def test_recipes_alternate(varied):
    recipes = [(m.encoding, m.augmentation, m.augmentation_params) for m in varied.estimators_]
    own = WARP["augmentation_params"]
    assert recipes == [
        ("lspe", "warp", own),
        ("lspe", None, None),
        ("tape", "warp", own),
        ("tape", None, None),
        ("lspe", "warp", own),
    ]
    assert [model.config.encoding for model in varied.models_] == [r[0] for r in recipes]
    assert varied.encoding == "lspe", "the parameters of the whole are what they were"


def test_each_member_can_be_trained_alone(varied):
    for member, proba in zip(varied.estimators_, varied.predict_proba_members(X), strict=True):
        np.testing.assert_array_equal(member.predict_proba(X), proba)
        alone = TSTransformerClassifier(**member.get_params())
        np.testing.assert_array_equal(alone.fit(X, Y).predict_proba(X), proba)


def test_the_first_is_the_model_of_a_single_estimator(varied):
    single = TSTransformerClassifier(**SMALL, **WARP).fit(X, Y)
    np.testing.assert_array_equal(single.predict_proba(X), varied.predict_proba_members(X)[0])


def test_they_are_saved_each_with_its_recipe(varied, tmp_path):
    varied.save(tmp_path / "varied")
    loaded = load(tmp_path / "varied")
    np.testing.assert_array_equal(loaded.predict_proba_members(X), varied.predict_proba_members(X))
    assert [m.get_params() for m in loaded.estimators_] == [
        m.get_params() | {"device": "auto"} for m in varied.estimators_
    ]


def test_they_go_on_learning(varied):
    clf = TSTransformerClassifier(
        **SMALL, **WARP, n_estimators=2, members="varied", warm_start=True
    ).fit(X, Y)
    clf.fit(X, Y)
    assert [len(history) for history in clf.histories_] == [4, 4]
    clf.set_params(members="alike", encoding="tape")
    with pytest.raises(ValueError, match="encoding changed from 'lspe' to 'tape'"):
        clf.fit(X, Y)


def test_an_unknown_kind():
    with pytest.raises(ValueError, match="unknown members 'vared': did you mean 'varied'"):
        TSTransformerClassifier(members="vared").fit(X, Y)
