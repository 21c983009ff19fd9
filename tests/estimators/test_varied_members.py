"""members="varied": each member has a recipe of its own, and is a classifier of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer import TSEnsembleClassifier, TSTransformerClassifier, load
from tsformer.training import Callback

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


class FailsAfter(Callback):
    """Counts the epochs of all members, and raises at the end of the given one; never for 0."""

    def __init__(self, last_epoch: int):
        self.last_epoch = last_epoch
        self.n_epochs = 0

    def on_epoch_end(self, state):
        self.n_epochs += 1
        if self.n_epochs == self.last_epoch:
            raise OSError("no power")


def of_members(**parameters) -> TSTransformerClassifier:
    return TSTransformerClassifier(**parameters, n_estimators=3, members="varied", random_state=0)


def as_part_of_an_ensemble(**parameters) -> TSEnsembleClassifier:
    return TSEnsembleClassifier(
        "good",
        transformer_params=parameters,
        convolution_params={"n_features": 168},
        random_state=0,
    )


@pytest.mark.filterwarnings("ignore:members are trained one after another")
@pytest.mark.filterwarnings("ignore:resume=True found no checkpoint")  # members not begun
@pytest.mark.parametrize(
    ("make", "n_members"), [(of_members, 3), (as_part_of_an_ensemble, 2)], ids=["members", "part"]
)
def test_what_was_interrupted_goes_on_in_the_member_that_it_stopped_in(make, n_members, tmp_path):
    """All parts of the default are used: mixing, warping, pooled windows, the norm of the head."""
    series = np.random.default_rng(1).normal(size=(20, 1, 64)).cumsum(axis=2)
    labels = np.arange(20) % 2
    options = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 4, "batch_size": 5}
    options |= {
        "augmentation": "warp+cutmix",
        "augmentation_params": {"warp": {"p": 0.5}},
        "stem_params": {"n_tokens": 16},
    }
    whole = make(**options, callbacks=[FailsAfter(0)]).fit(series, labels)

    kept = {"checkpoint_dir": tmp_path, "checkpoint_minutes": 0}
    with pytest.raises(OSError, match="no power"):
        make(**options, **kept, callbacks=[FailsAfter(6)]).fit(series, labels)
    counter = FailsAfter(0)
    resumed = make(**options, **kept, resume=True, callbacks=[counter]).fit(series, labels)
    assert counter.n_epochs == 4 * n_members - 6 + 1, "only the epoch of the failure is repeated"
    np.testing.assert_array_equal(resumed.predict_proba(series), whole.predict_proba(series))
