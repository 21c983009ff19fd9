"""TSEnsembleClassifier: what its parts say, averaged, and how much is trained within a limit."""

from __future__ import annotations

import pickle
import warnings
from time import perf_counter, process_time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    load,
)
from tsformer.encodings import PositionalEncoding
from tsformer.estimators import ensemble, time_limit
from tsformer.estimators.time_limit import GrowingConvolutions
from tsformer.training import Callback, History, TrainingPlan

RNG = np.random.default_rng(0)
Y = np.array(["no", "yes"])[np.arange(12) % 2]
X = RNG.normal(size=(12, 2, 20)) + 2.0 * (Y == "yes")[:, None, None] * np.sin(np.arange(20))
RAGGED = [x[:, :n].copy() for x, n in zip(X, RNG.integers(8, 21, size=12), strict=True)]
RAGGED[0][0, 2:5] = np.nan
TIMES = [RNG.exponential(size=x.shape[1]).cumsum() for x in RAGGED]

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "stem": "linear", "max_epochs": 2}
FEW = {"n_features": 168, "n_groups": 2}


def make(quality="fast", transformer=(), convolution=(), **parameters) -> TSEnsembleClassifier:
    return TSEnsembleClassifier(
        quality,
        transformer_params=SMALL | dict(transformer),
        convolution_params=FEW | dict(convolution),
        **{"random_state": 0} | parameters,
    )


@pytest.fixture(scope="module")
def fitted() -> TSEnsembleClassifier:
    return make("good").fit(X, Y)


def assert_same(one: TSEnsembleClassifier, other: TSEnsembleClassifier, series=X, **times) -> None:
    assert_same_predictions(one, other, series, **times)
    assert one.seconds_ == other.seconds_


def assert_same_predictions(
    one: TSEnsembleClassifier, other: TSEnsembleClassifier, series=X, **times
) -> None:
    np.testing.assert_array_equal(one.predict(series, **times), other.predict(series, **times))
    ours, theirs = (each.predict_proba_parts(series, **times) for each in (one, other))
    assert list(ours) == list(theirs)
    for name, proba in ours.items():
        np.testing.assert_array_equal(proba, theirs[name])
    assert one.weights_ == other.weights_


class Raises(Callback):
    """Raises at the end of an epoch, or before the first."""

    def __init__(self, error: BaseException, epoch: int):
        self.error, self.epoch = error, epoch

    def on_train_begin(self, state):
        if self.epoch == 0:
            raise self.error

    def on_epoch_end(self, state):
        if state.epoch == self.epoch:
            raise self.error


# The parts


def test_probabilities_are_the_mean_of_the_parts(fitted):
    parts = fitted.predict_proba_parts(X)
    assert list(parts) == ["random_convolutions", "transformer"]
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba, (parts["random_convolutions"] + parts["transformer"]) / 2)
    members = fitted.transformer_.predict_proba_members(X)
    assert len(members) == 2
    np.testing.assert_allclose(parts["transformer"], members.mean(axis=0))
    assert np.ptp([*parts.values()], axis=0).max() > 0.01
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[proba.argmax(axis=1)])
    odds = np.log(proba[:, 1]) - np.log(proba[:, 0])
    np.testing.assert_allclose(fitted.decision_function(X), odds, atol=1e-9)
    assert fitted.weights_ == {"random_convolutions": 0.5, "transformer": 0.5}


def test_each_part_is_the_estimator_alone(fitted):
    alone = {
        "random_convolutions": RandomConvolutionClassifier(**FEW, random_state=0),
        "transformer": TSTransformerClassifier(**SMALL, n_estimators=2, random_state=0),
    }
    for name, proba in fitted.predict_proba_parts(X).items():
        part = getattr(fitted, f"{name}_")
        assert part.get_params() == alone[name].get_params()
        np.testing.assert_array_equal(alone[name].fit(X, Y).predict_proba(X), proba)
        np.testing.assert_array_equal(part.predict_proba(X), proba)


def test_quality_is_the_number_of_members():
    assert ensemble.QUALITIES == {"fast": 1, "good": 2, "best": 4}
    clf = make("best", {"max_epochs": 1}).fit(X, Y)
    assert len(clf.transformer_.models_) == 4


def test_the_score_of_each_part_stands_beside_that_of_the_whole(fitted):
    labels = np.where(np.arange(12) < 4, "no", Y)
    weight = np.arange(12.0)
    scores = fitted.score_parts(X, labels, weight)
    assert scores == {
        "ensemble": fitted.score(X, labels, weight),
        "random_convolutions": fitted.random_convolutions_.score(X, labels, weight),
        "transformer": fitted.transformer_.score(X, labels, weight),
    }


# Data


def test_times_of_the_index():
    frames = [pd.DataFrame(x.T, index=t) for x, t in zip(RAGGED, TIMES, strict=True)]
    by_index = make(timestamps="index").fit(frames, Y)
    expected = make().fit(RAGGED, Y, times=TIMES).predict_proba(RAGGED, times=TIMES)
    np.testing.assert_array_equal(by_index.predict_proba(frames), expected)


def test_names_and_columns():
    frames = [pd.DataFrame(x.T, columns=["a", "b"]) for x in X]
    clf = make().fit(frames, Y)
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    assert (clf.n_channels_, clf.n_features_in_) == (2, 2)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict([frame[["b", "a"]] for frame in frames])
    table = pd.DataFrame(X[:, 0]).add_prefix("step ")
    clf = make().fit(table, Y)
    assert (clf.n_channels_, clf.n_features_in_) == (1, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict_proba(table)
    with pytest.raises(ValueError, match="X has 19 features, but TSEnsembleClassifier is expec"):
        clf.predict(X[:, 0, :19])


# What is refused, before anything is trained


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_jobs": 2, "verbose": 1}, "n_jobs=2 trains members in other processes"),
        ({"class_weight": {"maybe": 1.0}}, r"not labels, \['maybe'\]"),
        ({"transformer": {"n_estimators": 3}}, "'n_estimators': quality chooses"),
        ({"transformer": {"warm_start": True}}, "'warm_start': an ensemble is always"),
        ({"transformer": {"device": "cpu"}}, "'device': it is a parameter of TSEns"),
        ({"transformer": {"encoding": "lpse"}}, "did you mean 'lspe'"),
        ({"transformer": {"stem": "embedding"}}, "random convolutions do not support; use"),
        ({"convolution": {"n_groups": 3}}, "n_groups must be even"),
    ],
)
def test_wrong_parameters(parameters, message, monkeypatch):
    def fit(*args, **kwargs):
        raise AssertionError("something was trained")

    monkeypatch.setattr(RandomConvolutionClassifier, "fit", fit)
    with pytest.raises(ValueError, match=message):
        make(**parameters).fit(X, Y)


# Interruptions and errors


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_ctrl_c_keeps_what_was_trained(epoch):
    raises = Raises(KeyboardInterrupt(), epoch)
    clf = make("good", {"callbacks": [raises], "max_epochs": 4})
    alone = epoch == 0
    match = "interrupted before the transformer" if alone else f"after {epoch} of 4 epochs"
    with pytest.warns(UserWarning, match=match):
        assert clf.fit(X, Y) is clf
    expected = make().fit(X, Y).random_convolutions_.predict_proba(X)
    parts = clf.predict_proba_parts(X)
    np.testing.assert_array_equal(parts["random_convolutions"], expected)
    assert (clf.transformer_ is None) == alone == ("transformer" not in parts)
    if alone:
        np.testing.assert_array_equal(clf.predict_proba(X), expected)
        assert clf.weights_ == {"random_convolutions": 1.0}
        assert list(clf.score_parts(X, Y)) == ["ensemble", "random_convolutions"]
    else:
        assert [len(history) for history in clf.transformer_.histories_] == [epoch]


def test_ctrl_c_before_anything_is_trained_passes(monkeypatch):
    def fit(*args, **kwargs):
        raise KeyboardInterrupt

    clf = make().fit(X, Y)
    before = clf.predict_proba(X)
    monkeypatch.setattr(RandomConvolutionClassifier, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X[:6], Y[:6])
    np.testing.assert_array_equal(clf.predict_proba(X), before)


# The limit of time


class Clock:
    """Time that passes only when something is trained.

    Random convolutions with all features take `convolutions` seconds. Those with fewer take none,
    or with `cubic` what the cube of their share of the features says.
    """

    def __init__(
        self,
        monkeypatch,
        *,
        convolutions: float,
        epoch: float,
        measured: float,
        cubic: bool = False,
    ):
        self.now, self.epoch = 1000.0, epoch
        self.shares: list[float] = []
        for module in (ensemble, time_limit):
            monkeypatch.setattr(module, "perf_counter", lambda: self.now)
        monkeypatch.setattr(ensemble, "epoch_seconds", lambda *args, **kwargs: measured)
        real = RandomConvolutionClassifier.fit

        reduced = RandomConvolutionClassifier._share_of_features
        self.share = 1.0

        def share_of_features(part, share):
            self.share = share
            return reduced(part, share)

        def fit(part, *args, **kwargs):
            # Before the scaling of `fit` asks for a share of its own.
            self.shares.append(self.share)
            self.now += convolutions * (self.share**3 if cubic else self.share == 1)
            fitted = real(part, *args, **kwargs)
            self.share = 1.0
            return fitted

        monkeypatch.setattr(RandomConvolutionClassifier, "_share_of_features", share_of_features)

        monkeypatch.setattr(RandomConvolutionClassifier, "fit", fit)
        clock = self

        class Epoch(Callback):
            def on_epoch_end(self, state):
                clock.now += clock.epoch
                state.history[-1]["seconds"] = clock.epoch

        self.callback = Epoch()

    def fit(self, quality: str, **parameters) -> TSEnsembleClassifier:
        clf = make(quality, {"callbacks": [self.callback], "max_epochs": 9}, **parameters)
        return clf.fit(X, Y)


@pytest.mark.slow
def test_as_many_members_as_fit(monkeypatch):
    clock = Clock(monkeypatch, convolutions=10.0, epoch=1.0, measured=1.0)
    for limit, members, epochs in ((51, 4, 9), (31, 2, 9), (20, 1, 9), (17, 1, 6)):
        start = clock.now
        clf = clock.fit("best", time_limit=limit)
        assert clf.transformer_.n_estimators == members == len(clf.transformer_.models_)
        assert clf.transformer_.max_epochs == epochs == clf.transformer_.n_iter_
        assert clock.now - start <= limit
        assert clf.weights_ == {"random_convolutions": 0.5, "transformer": 0.5}
        assert clf.seconds_["random_convolutions"] == 10
        assert clf.seconds_["transformer"] == members * epochs
    clf = clock.fit("fast", time_limit=1000)
    assert clf.transformer_.n_estimators == 1


def test_what_was_chosen_is_the_estimator_alone(monkeypatch):
    clock = Clock(monkeypatch, convolutions=10.0, epoch=1.0, measured=1.0)
    clf = clock.fit("good", time_limit=17)
    alone = clone(clf.transformer_).set_params(callbacks=None)
    assert alone.max_epochs == 6
    expected = alone.fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(clf.predict_proba_parts(X)["transformer"], expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("limit", [9, 11])
def test_no_time_for_a_transformer(limit, monkeypatch):
    clock = Clock(monkeypatch, convolutions=10.0, epoch=1.0, measured=1.0)
    clf = clock.fit("good", time_limit=limit)
    assert clf.transformer_ is None
    assert clf.weights_ == {"random_convolutions": 1.0}


def test_a_limit_that_is_exceeded_warns(monkeypatch):
    clock = Clock(monkeypatch, convolutions=10.0, epoch=1.0, measured=1.0)
    with pytest.warns(UserWarning, match="time_limit=7 s was exceeded: fit took 10 s"):
        clock.fit("good", time_limit=7)


@pytest.mark.filterwarnings("error")
def test_choices_of_the_transformer_count(monkeypatch):
    """Where random convolutions alone fit, nothing is chosen for a transformer."""
    clock = Clock(monkeypatch, convolutions=0.0, epoch=1.0, measured=1.0)
    prepare = TSTransformerClassifier._prepare

    def slow(transformer, *args, **kwargs):
        clock.now += 20.0
        return prepare(transformer, *args, **kwargs)

    monkeypatch.setattr(TSTransformerClassifier, "_prepare", slow)
    monkeypatch.setattr(GrowingConvolutions, "choice_seconds", lambda *args: 20.0)
    assert clock.fit("fast", time_limit=19).transformer_ is None
    assert clock.now == 1000.0
    clf = clock.fit("fast", time_limit=29)
    assert clf.transformer_.n_iter_ == 8
    assert clf.seconds_["measuring"] == 20.0


@pytest.mark.parametrize(
    ("limit", "shares", "seconds"),
    [
        (1000, [1 / 32, 1], 128),  # even the cube of 32 leaves time for all
        (250, [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2], 16),  # all would take 128 s of 125
        (40, [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2], 16),
        (36, [1 / 32, 1 / 16, 1 / 8, 1 / 4], 2),
        (0.001, [1 / 32], 128 / 32**3),
    ],
)
@pytest.mark.filterwarnings("error")
def test_as_many_features_as_fit_into_half_the_limit(limit, shares, seconds, monkeypatch):
    clock = Clock(monkeypatch, convolutions=128.0, epoch=0.01, measured=0.01, cubic=True)
    start = clock.now
    clf = clock.fit("fast", time_limit=limit)
    tried = clock.shares
    assert tried == shares
    assert clf.seconds_["random_convolutions"] == pytest.approx(seconds)
    assert sum(clf.seconds_.values()) == pytest.approx(clock.now - start)
    if limit > 1:
        assert clock.now - start <= limit


def test_the_convolutions_get_what_a_transformer_cannot_use(monkeypatch):
    """Of 250 s they have half; an epoch would take too long, and then all of them fit."""
    clock = Clock(monkeypatch, convolutions=128.0, epoch=900.0, measured=900.0, cubic=True)
    start = clock.now
    clf = clock.fit("fast", convolution={"n_features": 1344}, time_limit=250)
    assert clock.shares == [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1]
    assert clf.transformer_ is None
    assert clf.random_convolutions_.n_features == 1344
    assert clf.seconds_["random_convolutions"] == 128
    assert sum(clf.seconds_.values()) == pytest.approx(clock.now - start)
    assert 0.5 * 250 < clock.now - start <= 250


def test_ctrl_c_while_they_get_it_keeps_the_smaller_ones(monkeypatch):
    clock = Clock(monkeypatch, convolutions=128.0, epoch=900.0, measured=900.0, cubic=True)
    fit = RandomConvolutionClassifier.fit

    def interrupted(part, *args, **kwargs):
        if clock.now > 1000 + 18:  # half of the features are done
            raise KeyboardInterrupt
        return fit(part, *args, **kwargs)

    monkeypatch.setattr(RandomConvolutionClassifier, "fit", interrupted)
    with pytest.warns(UserWarning, match="training was interrupted before the transformer"):
        clf = clock.fit("fast", convolution={"n_features": 1344}, time_limit=250)
    assert clf.random_convolutions_.n_features == 1344 // 2
    assert len(clf.predict(X)) == len(X)


def test_features_without_time_for_all_are_the_estimator_alone(monkeypatch):
    clock = Clock(monkeypatch, convolutions=128.0, epoch=1e-3, measured=1e-3, cubic=True)
    clf = make("fast", {"callbacks": [clock.callback]}, FEW | {"n_features": 1344}, time_limit=40)
    part = clf.fit(X, Y).random_convolutions_
    assert part.n_features == 1344 // 2
    assert part.model_.convolutions.n_features == 1344 // 2
    expected = clone(part).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(clf.predict_proba_parts(X)["random_convolutions"], expected)


@pytest.mark.filterwarnings("error")
def test_training_that_is_slower_than_measured_is_ended(monkeypatch):
    clock = Clock(monkeypatch, convolutions=0.0, epoch=1.5, measured=1.0)
    start = clock.now
    clf = clock.fit("best", time_limit=40)
    assert 40 * 0.8 < clock.now - start <= 40
    assert [len(history) for history in clf.transformer_.histories_] == [9, 9, 8]
    assert len(clf.predict_proba(X)) == 12


def test_training_that_cannot_begin_in_time_is_left_out(monkeypatch):
    clock = Clock(monkeypatch, convolutions=0.0, epoch=1.0, measured=1.0)

    def late(*args):
        clock.now += 16.0
        return time_limit.Deadline(*args)

    monkeypatch.setattr(ensemble, "Deadline", late)
    clf = clock.fit("fast", time_limit=20)
    assert clf.transformer_ is None


def test_early_stopping_is_no_deadline(monkeypatch, recwarn):
    clock = Clock(monkeypatch, convolutions=0.0, epoch=1.0, measured=1.0)
    params = {"early_stopping": True, "n_iter_no_change": 1, "learning_rate": 1.0}
    clf = make("fast", {**params, "callbacks": [clock.callback], "max_epochs": 30}, time_limit=40)
    assert clf.fit(X, Y).transformer_.n_iter_ < 30
    assert not [w for w in recwarn if "time_limit" in str(w.message)]


def test_what_fits():
    def fits(seconds, n_jobs=1):
        return time_limit.what_fits(
            seconds, epoch_seconds=1.0, n_epochs=20, n_members=4, n_jobs=n_jobs
        )

    assert [fits(s) for s in (84, 83, 42, 21)] == [(4, 20), (3, 20), (2, 20), (1, 20)]
    assert [fits(s) for s in (20, 3, 2.9, -1)] == [(1, 19), (1, 2), None, None]
    assert [fits(s, n_jobs=3) for s in (42, 21, 20)] == [(4, 20), (3, 20), (1, 19)]


def test_an_epoch_is_measured_and_the_model_left_as_it_is():
    series, labels = np.tile(X, (40, 1, 1)), np.tile(Y, 40)
    clf = TSTransformerClassifier(**SMALL, random_state=0)
    job = clf._prepare(series, labels)
    before = {k: v.clone() for k, v in job.models[0].state_dict().items()}
    start = perf_counter()
    short = time_limit.epoch_seconds(job, clf._loss, at_most=0.0)
    assert short > 0
    seconds = time_limit.epoch_seconds(job, clf._loss, at_most=60.0)
    # 480 series make 30 steps, of which 20 are measured.
    assert 0 < seconds < 1.5 * (perf_counter() - start)
    for name, tensor in job.models[0].state_dict().items():
        np.testing.assert_array_equal(tensor, before[name])
    assert job.histories == [[]]


@pytest.mark.parametrize(
    ("at_most", "series"),
    [(1.9, [48]), (2.1, [48, 320])],  # a step takes .1 s, so that twenty take two seconds
)
def test_only_a_few_steps_are_measured_where_twenty_take_too_long(at_most, series, monkeypatch):
    trained = []

    def train(model, panel, targets, loss, plan, **kwargs):
        trained.append(len(panel))
        history = History()
        history.append({"seconds": 0.1 * len(panel) / plan.batch_size})
        return history

    monkeypatch.setattr(time_limit, "train", train)
    job = TSTransformerClassifier(**SMALL)._prepare(np.tile(X, (40, 1, 1)), np.tile(Y, 40))
    assert time_limit.epoch_seconds(job, None, at_most=at_most) == pytest.approx(3.0)
    assert trained == series


def test_measuring_ends_where_another_epoch_would_take_too_long():
    limit = time_limit._AsLongAsThereIsTime(1.0)
    for seconds, stops in ([0.4], False), ([0.6], True), ([0.4, 0.2], False), ([0.4, 0.4], True):
        state = SimpleNamespace(history=[{"seconds": each} for each in seconds], stop=None)
        limit.on_epoch_end(state)
        assert state.stop == stops, seconds


@pytest.mark.parametrize(("graphed", "epochs"), [(False, [2, 2]), (True, [5, 5])])
def test_steps_are_measured_until_they_are_replayed(graphed, epochs, monkeypatch):
    """In CUDA graphs two batch sizes have three plain steps each, and one that is captured."""
    trained = []

    def train(model, panel, targets, loss, plan, **kwargs):
        trained.append(plan.n_epochs)
        history = History()
        history += [{"seconds": 1.0 + 9.0 * (epoch < 2)} for epoch in range(plan.n_epochs)]
        return history

    monkeypatch.setattr(time_limit, "train", train)
    monkeypatch.setattr(TrainingPlan, "graphed", graphed)
    job = TSTransformerClassifier(**SMALL)._prepare(np.tile(X, (40, 1, 1)), np.tile(Y, 40))
    seconds = time_limit.epoch_seconds(job, None, at_most=1e9)
    assert trained == epochs
    assert seconds == pytest.approx(30 * (1.0 if graphed else 10.0) / 20)


@pytest.mark.slow
def test_a_real_limit_is_kept(italy):
    """It is not exceeded, whatever else the machine does; how much of it is used, is up to that."""
    series, labels = italy
    start = perf_counter()
    clf = TSEnsembleClassifier("best", time_limit=20.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a busy machine
        clf.fit(series, labels)
    assert perf_counter() - start < 20 * 1.2
    assert clf.transformer_ is not None
    assert sum(clf.seconds_.values()) < 20 * 1.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:time_limit")  # by the clock, on a busy machine
def test_a_short_limit_holds_where_features_alone_fit():
    series, labels = np.random.default_rng(0).normal(size=(1000, 3, 300)), np.arange(1000) % 2
    fewest = RandomConvolutionClassifier(10_000 // 32, n_groups=2, random_state=0)
    start = process_time()
    fewest.fit(series, labels)
    alone, start = process_time() - start, process_time()
    TSEnsembleClassifier(time_limit=5.0, random_state=0).fit(series, labels)
    # A processor that others share does less in a second of its time.
    assert process_time() - start < max(5.0, alone) + 2


@pytest.mark.slow  # each process imports torch
def test_the_deadline_reaches_members_in_processes(monkeypatch):
    """Measured as if training took no time, they are ended in their processes.

    How long these take to start is up to the machine, so no time is asserted here.
    """
    monkeypatch.setattr(ensemble, "epoch_seconds", lambda *args, **kwargs: 5e-5)
    clf = make("good", {"max_epochs": 100_000}, time_limit=40.0, n_jobs=2)
    clf.fit(X, Y)
    assert all(0 < len(history) < 100_000 for history in clf.transformer_.histories_)


# Saving


def test_saved_without_a_transformer(tmp_path):
    clf = make(transformer={"callbacks": [Raises(KeyboardInterrupt(), 0)]})
    with pytest.warns(UserWarning, match="interrupted before the transformer"):
        clf.fit(X, Y)
    clf.save(tmp_path / "clf")
    loaded = load(tmp_path / "clf")
    assert loaded.transformer_ is None
    assert_same(loaded, clf)


def test_what_cannot_be_written_is_saved_by_name(tmp_path):
    class Sees(Callback):
        seen = False

        def on_epoch_end(self, state):
            self.seen = True

    sees = Sees()
    clf = make(transformer={"callbacks": [sees], "augmentation": "jitter"}).fit(X, Y)
    assert sees.seen
    clf.save(tmp_path / "clf")
    loaded = load(tmp_path / "clf")
    assert loaded.transformer_params == SMALL | {"callbacks": None, "augmentation": "jitter"}
    assert_same(loaded, clf)

    class Nameless(PositionalEncoding):
        def __init__(self, *, d_model, n_heads, max_len):
            super().__init__()

    clf = make(transformer={"encoding": Nameless}).fit(X, Y)
    with pytest.raises(ValueError, match="Pass the encoding by its registered name"):
        clf.save(tmp_path / "other")


# Display


def test_progress_over_all_members(capsys):
    clf = make("good", {"max_epochs": 3}, verbose=True).fit(X, Y)
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "random convolutions"
    loss = clf.transformer_.histories_[1][-1]["loss"]
    assert shown[-1] == f"epoch 6/6  member 2 of 2  loss {loss:.4f}  0:00:00 left"
    pickle.dumps(clf)
    make().fit(X, Y)
    assert capsys.readouterr().err == ""


# scikit-learn

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight of two is not a repetition: the repeated series are drawn into other batches"
    )
}


@pytest.mark.exhaustive
@parametrize_with_checks(
    [make(transformer={"max_epochs": 15, "learning_rate": 5e-3})],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_progress_has_the_members_that_fit(monkeypatch, capsys):
    clock = Clock(monkeypatch, convolutions=10.0, epoch=1.0, measured=1.0)
    clf = clock.fit("best", time_limit=31, verbose=1)
    assert clf.transformer_.n_estimators == 2
    shown = capsys.readouterr().err
    assert "member 2 of 2" in shown
    assert "18/18" in shown
    assert "of 4" not in shown
