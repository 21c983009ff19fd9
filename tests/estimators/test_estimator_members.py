"""Several members: each is a model alone, and what they predict is averaged."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from tsformer import TSEnsembleClassifier, TSTransformerClassifier, TSTransformerRegressor
from tsformer.training import Callback, History

SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1, "max_epochs": 3, "random_state": 0}


@pytest.fixture
def regression(italy):
    X, _ = italy
    return X[..., :18], X[:, 0, 18:].max(axis=1)


class Raises(Callback):
    """Raises in the second epoch of a member."""

    def __init__(self, member: int, error: type[BaseException]):
        self.member, self.error = member, error

    def on_train_begin(self, state):
        self.member -= 1

    def on_epoch_end(self, state):
        if self.member == -1 and state.epoch == 2:
            raise self.error("now")


@pytest.mark.slow
def test_each_member_is_the_model_of_its_seed(make, italy):
    X, y = italy
    clf = make(n_estimators=3).fit(X, y)
    by_member = clf.predict_proba_members(X)
    assert by_member.shape == (3, len(X), 2)
    np.testing.assert_array_equal(by_member[0], make().fit(X, y).predict_proba(X))
    for i, (member, proba) in enumerate(zip(clf.estimators_, by_member, strict=True)):
        assert member.n_estimators == 1
        np.testing.assert_array_equal(member.predict_proba(X), proba)
        np.testing.assert_array_equal(clone(member).fit(X, y).predict_proba(X), proba)
        assert member.model_ is clf.models_[i]
        assert member.history_ is clf.histories_[i]
    assert len({proba.tobytes() for proba in by_member}) == 3


def test_probabilities_are_averaged(make, motions):
    X, y = motions
    clf = make(n_estimators=3).fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba, clf.predict_proba_members(X).mean(axis=0))
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[proba.argmax(axis=1)])
    np.testing.assert_allclose(clf.decision_function(X), np.log(proba))
    parts = [member.transform(X) for member in clf.estimators_]
    np.testing.assert_array_equal(clf.transform(X), np.concatenate(parts, axis=1))
    assert len(clf.get_feature_names_out()) == 48


def test_predictions_are_averaged(regression):
    reg = TSTransformerRegressor(**SMALL, n_estimators=3).fit(*regression)
    X = regression[0]
    by_member = reg.predict_members(X)
    np.testing.assert_allclose(reg.predict(X), by_member.mean(axis=0))
    for member, predicted in zip(reg.estimators_, by_member, strict=True):
        np.testing.assert_array_equal(member.predict(X), predicted)
    assert by_member.std(axis=0).min() > 0


def test_one_model_is_one_member(make, italy):
    X, y = italy
    clf = make().fit(X, y)
    assert clf.models_ == [clf.model_]
    assert clf.history_ is clf.histories_[0]
    np.testing.assert_array_equal(clf.estimators_[0].predict_proba(X), clf.predict_proba(X))
    assert clf.decision_function(X).dtype == np.float32


def test_the_history_is_the_mean(make, italy):
    X, y = italy
    clf = make(n_estimators=2, max_epochs=30, n_iter_no_change=2, learning_rate=0.05)
    clf.fit(X, y, X_val=X[::2], y_val=y[::-2])
    lengths = [len(history) for history in clf.histories_]
    assert isinstance(clf.history_, History)
    assert clf.n_iter_ == len(clf.history_) == max(lengths) < 30
    first, second = (history[0] for history in clf.histories_)
    assert clf.history_[0]["val_loss"] == pytest.approx(
        (first["val_loss"] + second["val_loss"]) / 2
    )
    assert clf.history_[0]["seconds"] == pytest.approx(first["seconds"] + second["seconds"])
    assert clf.history_.to_frame().index.tolist() == [*range(1, max(lengths) + 1)]


def test_all_members_share_the_part_held_out(make, italy):
    """Each is judged by the same series, which none of them trains on."""
    X, y = italy
    seen = []

    class Sees(Callback):
        def on_train_begin(self, state):
            seen.append(state.plan.seed)

    clf = make(n_estimators=2, early_stopping=True, callbacks=[Sees()]).fit(X, y)
    assert len(set(seen)) == 2
    losses = []
    for member in clf.estimators_:
        single = clone(member).fit(X, y)
        losses.append((single.history_[0]["val_loss"], member.history_[0]["val_loss"]))
    assert losses[0][0] == losses[0][1]
    assert losses[1][0] != losses[1][1]  # alone it would have held out others


def test_warm_start_goes_on_with_all(make, italy):
    X, y = italy
    clf = make(n_estimators=2, warm_start=True).fit(X, y)
    models = clf.models_
    clf.fit(X, y)
    assert all(model is before for model, before in zip(clf.models_, models, strict=True))
    assert [len(history) for history in clf.histories_] == [6, 6]
    with pytest.raises(ValueError, match="from the 2 fitted members, but n_estimators is 3"):
        clf.set_params(n_estimators=3).fit(X, y)


def test_ctrl_c_keeps_the_members_trained_so_far(make, italy):
    X, y = italy
    clf = make(n_estimators=4, callbacks=[Raises(1, KeyboardInterrupt)])
    with (
        pytest.warns(UserWarning, match="interrupted after 2 of 3 epochs"),
        pytest.warns(
            UserWarning, match="only 2 of 4 members were trained; the others were dropped"
        ),
    ):
        clf.fit(X, y)
    assert [len(history) for history in clf.histories_] == [3, 2]
    assert clf.history_.interrupted
    assert clf.predict_proba_members(X).shape[0] == 2


def test_verbose_shows_progress_of_each_member(make, italy, capsys):
    make(n_estimators=2, verbose=1).fit(*italy)
    assert capsys.readouterr().err.count("3/3") >= 2
    with pytest.raises(ValueError, match="n_jobs=1 with callbacks, including verbose=1"):
        make(n_estimators=2, n_jobs=2, verbose=1).fit(*italy)


@pytest.mark.slow  # each process imports torch
def test_processes_give_the_same_members(make, italy):
    X, y = italy
    in_turn = make(n_estimators=2).fit(X, y).predict_proba_members(X)
    by_process = make(n_estimators=2, n_jobs=2).fit(X, y).predict_proba_members(X)
    np.testing.assert_allclose(by_process, in_turn, atol=1e-5)


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
    return TSTransformerClassifier(**parameters, n_estimators=3, random_state=0)


def as_part_of_an_ensemble(**parameters) -> TSEnsembleClassifier:
    return TSEnsembleClassifier(
        "good",
        transformer_params=parameters,
        convolution_params={"n_features": 168},
        random_state=0,
    )


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
