"""What `fit` does with weights, earlier fits, callbacks, failure, precision and display."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from tsformer import TSTransformerClassifier, TSTransformerEncoder
from tsformer.estimators.recipe import batch_size_for, epochs_of, learning_rate_for

# Weights


def test_weights_that_cannot_be(make, italy):
    X, y = italy
    with pytest.raises(ValueError, match="all weights are zero"):
        make(class_weight={"1": 0, "2": 5}).fit(X, y, sample_weight=y == "1")
    with pytest.raises(ValueError, match=r"not labels, \[1, 2\], and lacks the labels \['1',"):
        make(class_weight={1: 1, 2: 5}).fit(X, y)
    for weight in (-1, np.nan, None, "2"):
        with pytest.raises(ValueError, match=r"finite weights of at least 0; got .* for '2'"):
            make(class_weight={"1": 1, "2": weight}).fit(X, y)


# Earlier fits


def test_warm_start_goes_on_with_all_members(make, italy):
    X, y = italy
    clf = make(n_estimators=2, warm_start=True, learning_rate=5e-3).fit(X, y)
    models, early = clf.models_, clf.histories_
    clf.set_params(max_epochs=2).fit(X, y)
    assert all(model is before for model, before in zip(clf.models_, models, strict=True))
    assert clf.n_iter_ == 5
    for history, before in zip(clf.histories_, early, strict=True):
        assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5]
        assert history[:3] == before
        assert len(before) == 3, "the history of the first fit was written into"
        assert history[3]["loss"] < before[0]["loss"]
    with pytest.raises(ValueError, match="from the 2 fitted members, but n_estimators is 3"):
        clf.set_params(n_estimators=3).fit(X, y)


def test_warm_start_refuses_what_does_not_fit(make, motions):
    X, y = motions
    clf = make(warm_start=True).fit(X, y)
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match=r"labels that are not in the training data: \['Swim'\]"):
        clf.fit(X, np.where(y == "Walking", "Swim", y))
    with pytest.raises(ValueError, match="X has 5 channels"):
        clf.fit(X[:, 1:], y)
    with pytest.raises(ValueError, match=r"n_layers changed from 1 to 2; set it back"):
        clf.set_params(n_layers=2).fit(X, y)
    np.testing.assert_array_equal(clf.set_params(n_layers=1).predict_proba(X), before)
    some = np.isin(y, ["Walking", "Standing"])  # a part of the classes, and another length
    clf.fit(X[some, :, :40], y[some])
    assert len(clf.classes_) == 4


# Callbacks and failure


@pytest.mark.parametrize(
    ("n", "batch_size", "planned"),
    [
        (64, 16, (250, 16, 0.002)),  # at least 1000 steps
        (60, 2, (60, 2, 0.002)),  # 60 epochs of 30 steps
        (60, 1, (42, 1, 0.002)),  # at most 2500 steps, in whole epochs
        (180, 1, (20, 1, 0.002)),  # but at least 20 epochs
        (999, "auto", (40, 16, 0.002)),  # 2500 steps
        (1000, "auto", (80, 64, 0.004)),
        (5000, "auto", (16, 64, 0.004)),  # 80,000 series
        (5000, 16, (16, 16, 0.004)),  # as many, whatever the batch
        (100_000, "auto", (4, 64, 0.004)),
    ],
)
def test_auto_epochs_give_a_budget_of_steps(n, batch_size, planned):
    budget, size = TSTransformerClassifier._budget, batch_size_for(batch_size, 4, n)
    epochs, rate = epochs_of("auto", n, size, budget), learning_rate_for("auto", n, budget)
    assert (epochs, size, rate) == planned


def test_pretraining_sees_more_of_many_series():
    budget = TSTransformerEncoder._budget
    assert epochs_of("auto", 5000, 64, budget) == 32  # 160,000 series
    assert learning_rate_for("auto", 5000, budget) == 0.002


def test_the_budget_is_that_of_the_plan(make, italy):
    automatic = {"max_epochs": "auto", "learning_rate": "auto"}
    plan = make(batch_size=2, stem="linear", **automatic)._prepare(*italy).plans[0]
    assert (plan.n_epochs, plan.batch_size, plan.learning_rate) == (60, 2, 0.002)
    assert plan.n_iter_no_change is None, "nothing is held out"


# Device and display


def test_bfloat16(make, motions):
    X, y = motions
    clf = make(precision="bfloat16").fit(X, y)
    rounded = clf.predict_proba(X)
    exact = clf.set_params(precision="float32").predict_proba(X)
    assert not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, atol=0.1)


@pytest.mark.slow
def test_compile_trains_the_same_model(make, motions, monkeypatch):
    X, y = motions
    asked = []

    def traced(model, real=torch.compile):
        asked.append(model)
        return real(model, backend="eager")  # the real backend would call a C++ compiler

    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", traced)
    clf, plain = make(compile=True, stem="linear").fit(X, y), make(stem="linear").fit(X, y)
    assert asked == [clf.model_]
    np.testing.assert_allclose(clf.predict_proba(X), plain.predict_proba(X), atol=1e-5)


blind = partial(
    pytest.warns, UserWarning, match="cannot tell a series from its reverse.*stem='conv'"
)


def test_a_model_blind_to_direction_warns(make, italy, recwarn):
    X, y = italy
    with blind():
        clf = make("alibi", stem="linear").fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X[..., ::-1]), clf.predict_proba(X), atol=1e-5)
    recwarn.clear()
    for encoding, options in (
        ("alibi", {"stem": "linear", "encoding_params": {"signed": True}}),
        ("alibi", {"stem": "conv"}),
        ("alibi", {"stem": "patch"}),
        ("none", {"stem": "linear"}),
    ):
        clf = make(encoding, **options).fit(X, y)
        backwards, forwards = clf.predict_proba(X[..., ::-1]), clf.predict_proba(X)
        assert np.allclose(backwards, forwards, atol=1e-5) == (encoding == "none")
    assert not recwarn.list


# Other lengths


def test_predicting_series_of_other_lengths(make, vowels, italy):
    X, y = vowels
    clf = make("learnable").fit(X, y)
    long = [np.tile(x, 4) for x in X[:5]]
    for series in ([x[:, :1] for x in X[:5]], long, [*X[:2], *long]):
        assert np.isfinite(clf.predict_proba(series)).all()
    np.testing.assert_allclose(
        clf.predict_proba([X[0], *long])[0], clf.predict_proba(X[:1])[0], atol=1e-6
    )
    flat = make().fit(italy[0][:, 0], italy[1])
    assert flat.predict(italy[0][:3, :, :10]).shape == (3,)
