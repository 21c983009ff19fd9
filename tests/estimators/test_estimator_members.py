"""Several members: each is a model of its own, and predictions are averaged."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from small_estimators import X, Y, classifier, regressor

from tsformer.training import Callback, History


@pytest.mark.slow
def test_each_member_is_the_model_of_its_seed(make, italy):
    X, y = italy
    clf = make(n_estimators=3, max_epochs=1).fit(X, y)
    by_member = clf.predict_proba_members(X)
    assert by_member.shape == (3, len(X), 2)
    np.testing.assert_array_equal(by_member[0], make(max_epochs=1).fit(X, y).predict_proba(X))
    for i, (member, proba) in enumerate(zip(clf.estimators_, by_member, strict=True)):
        assert member.n_estimators == 1
        np.testing.assert_array_equal(member.predict_proba(X), proba)
        np.testing.assert_array_equal(clone(member).fit(X, y).predict_proba(X), proba)
        assert member.model_ is clf.models_[i]
        assert member.history_ is clf.histories_[i]
    assert len({proba.tobytes() for proba in by_member}) == 3


@pytest.mark.parametrize("make", [classifier, regressor])
def test_members_are_averaged(make):
    estimator = make(n_estimators=3).fit(X, Y)
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "predict"
    by_member = getattr(estimator, f"{method}_members")(X)
    np.testing.assert_allclose(getattr(estimator, method)(X), by_member.mean(axis=0))
    assert by_member.std(axis=0).min() > 0
    for member, predicted in zip(estimator.estimators_, by_member, strict=True):
        np.testing.assert_array_equal(getattr(member, method)(X), predicted)
    parts = [member.transform(X) for member in estimator.estimators_]
    np.testing.assert_array_equal(estimator.transform(X), np.concatenate(parts, axis=1))
    assert len(estimator.get_feature_names_out()) == 24


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
