"""TSEnsembleClassifier: the mean of its parts, and the limit of time."""

import pickle
from dataclasses import replace
from math import inf
from time import perf_counter

import numpy as np
import pytest
import torch
from small_estimators import Raises, X, classifier, convolutions
from small_estimators import ensemble as make

from tsformer import RandomConvolutionClassifier, TSEnsembleClassifier, load
from tsformer import TSTransformerClassifier as Transformer
from tsformer.data.containers import to_source
from tsformer.estimators import ensemble, time_limit
from tsformer.estimators.time_limit import GrowingConvolutions
from tsformer.training import Callback, History, TrainingPlan

Y = np.array(["no", "yes"])[np.arange(16) % 2]
LINEAR = {"stem": "linear"}


@pytest.fixture(scope="module")
def fitted() -> TSEnsembleClassifier:
    return make("good", LINEAR).fit(X, Y)


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
        "random_convolutions": convolutions(),
        "transformer": classifier(**LINEAR, n_estimators=2),
    }
    for name, proba in fitted.predict_proba_parts(X).items():
        part = getattr(fitted, f"{name}_")
        assert part.get_params() == alone[name].get_params()
        np.testing.assert_array_equal(alone[name].fit(X, Y).predict_proba(X), proba)
        np.testing.assert_array_equal(part.predict_proba(X), proba)


def test_the_score_of_each_part_stands_beside_that_of_the_whole(fitted):
    labels = np.where(np.arange(16) < 4, "no", Y)
    weight = np.arange(16.0)
    scores = fitted.score_parts(X, labels, weight)
    assert scores == {
        "ensemble": fitted.score(X, labels, weight),
        "random_convolutions": fitted.random_convolutions_.score(X, labels, weight),
        "transformer": fitted.transformer_.score(X, labels, weight),
    }


def test_wrong_parameters_are_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(RandomConvolutionClassifier, "fit", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(ValueError, match="n_jobs=2 trains members in other processes"):
        make(n_jobs=2, verbose=1).fit(X, Y)
    with pytest.raises(ValueError, match="did you mean 'lspe'"):
        make(transformer={"encoding": "lpse"}).fit(X, Y)


def test_ctrl_c_before_the_first_epoch_keeps_the_convolutions(tmp_path):
    clf = make(transformer={"callbacks": [Raises(KeyboardInterrupt(), 0)]})
    with pytest.warns(UserWarning, match="interrupted before the transformer"):
        assert clf.fit(X, Y) is clf
    clf.save(tmp_path / "clf")
    for each in (clf, load(tmp_path / "clf")):
        assert each.transformer_ is None
        assert each.weights_ == {"random_convolutions": 1.0}
        assert list(each.score_parts(X, Y)) == ["ensemble", "random_convolutions"]
        np.testing.assert_array_equal(
            each.predict_proba(X), convolutions().fit(X, Y).predict_proba(X)
        )


# The limit of time


class Clock:
    """Time that passes only when something is trained.

    Random convolutions with all features take `convolutions` seconds; with fewer, none, or with
    `cubic` the cube of their share of it.
    """

    def __init__(self, monkeypatch, *, convolutions=0.0, epoch=1.0, measured=None, cubic=False):
        self.now = 1000.0
        self.shares: list[float] = []
        for module in (ensemble, time_limit):
            monkeypatch.setattr(module, "perf_counter", lambda: self.now)
        monkeypatch.setattr(ensemble, "epoch_seconds", lambda *args, **kwargs: measured or epoch)
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
                clock.now += epoch
                state.history[-1]["seconds"] = epoch

        self.callback = Epoch()

    def fit(self, quality: str, **parameters) -> TSEnsembleClassifier:
        transformer = {"callbacks": [self.callback], "max_epochs": 9, **LINEAR}
        convolution = {"scaling": "auto", **parameters.pop("convolution", {})}
        return make(quality, transformer, convolution, **parameters).fit(X, Y)


@pytest.mark.slow
def test_as_many_members_as_fit(monkeypatch):
    clock = Clock(monkeypatch, convolutions=10.0)
    for limit, members, epochs in ((51, 4, 9), (31, 2, 9), (20, 1, 9), (17, 1, 6)):
        start = clock.now
        clf = clock.fit("best", time_limit=limit)
        assert clf.transformer_.n_estimators == members == len(clf.transformer_.models_)
        assert clf.transformer_.max_epochs == epochs == clf.transformer_.n_iter_
        assert clock.now - start <= limit
        assert clf.weights_ == {"random_convolutions": 0.5, "transformer": 0.5}
        assert clf.seconds_["random_convolutions"] == 10
        assert clf.seconds_["transformer"] == members * epochs


def test_a_limit_that_is_exceeded_warns(monkeypatch):
    clock = Clock(monkeypatch, convolutions=10.0)
    with pytest.warns(UserWarning, match="time_limit=7 s was exceeded: fit took 10 s"):
        clock.fit("good", time_limit=7)


@pytest.mark.filterwarnings("error")
def test_choices_of_the_transformer_count(monkeypatch):
    """Where random convolutions alone fit, nothing is chosen for a transformer."""
    clock = Clock(monkeypatch)
    prepare = Transformer._prepare

    def slow(transformer, *args, **kwargs):
        clock.now += 20.0
        return prepare(transformer, *args, **kwargs)

    monkeypatch.setattr(Transformer, "_prepare", slow)
    monkeypatch.setattr(GrowingConvolutions, "choice_seconds", lambda *args: 20.0)
    assert clock.fit("fast", time_limit=19).transformer_ is None
    assert clock.now == 1000.0
    clf = clock.fit("fast", time_limit=29)
    assert clf.transformer_.n_iter_ == 8
    assert clf.seconds_["measuring"] == 20.0


def test_the_estimated_seconds_of_the_transformers_choices():
    """Of 600 series; fits that chose their own scaling computed more in the same time."""

    def seconds(scaling_of_convolutions, **options):
        part = RandomConvolutionClassifier(scaling=scaling_of_convolutions)
        growing = GrowingConvolutions(part, lambda _: None, {})
        growing.grow(inf)
        growing._least = (10.0, growing.part)
        return growing.choice_seconds(600, Transformer(**options))

    nothing = {"scaling": "channel", "augmentation": None}
    each = 600 * (10_000 + 64 * 300)
    scaling, augmentation = 2 * 512 * (1250 + 8 * 300), 2 * 256 * (1000 + 8 * 300)
    assert seconds("channel") == pytest.approx(10 * (scaling + augmentation) / each)
    assert seconds("channel", augmentation=None) == pytest.approx(10 * scaling / each)
    each += 2 * 600 * (168 + 2 * 300)
    assert seconds("auto", scaling="channel") == pytest.approx(10 * augmentation / each)
    assert seconds("channel", **nothing) == seconds("channel", stem="linear") == 0


@pytest.mark.parametrize(
    ("limit", "epoch", "shares", "seconds"),
    [
        (1000, 0.01, [1 / 32, 1], 128),  # even the cube of 32 leaves time for all
        (250, 0.01, [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2], 16),  # all would take 128 s of 125
        (0.001, 0.01, [1 / 32], 128 / 32**3),
        # An epoch would take too long: the convolutions get what a transformer cannot use.
        (250, 900.0, [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1], 128),
    ],
)
@pytest.mark.filterwarnings("error")
def test_as_many_features_as_fit_into_half_the_limit(limit, epoch, shares, seconds, monkeypatch):
    clock = Clock(monkeypatch, convolutions=128.0, epoch=epoch, cubic=True)
    start = clock.now
    clf = clock.fit("fast", convolution={"n_features": 1344}, time_limit=limit)
    assert clock.shares == shares
    assert clf.random_convolutions_.n_features == max(168, 1344 * shares[-1])
    assert clf.seconds_["random_convolutions"] == pytest.approx(seconds)
    assert sum(clf.seconds_.values()) == pytest.approx(clock.now - start)
    assert (clf.transformer_ is None) == (epoch > limit or limit < 1)
    assert clock.now - start <= limit or limit < 1


@pytest.mark.filterwarnings("error")
def test_training_that_is_slower_than_measured_is_ended(monkeypatch):
    clock = Clock(monkeypatch, epoch=1.5, measured=1.0)
    start = clock.now
    clf = clock.fit("best", time_limit=40)
    assert 40 * 0.8 < clock.now - start <= 40
    assert [len(history) for history in clf.transformer_.histories_] == [9, 9, 8]


def test_training_that_cannot_begin_in_time_is_left_out(monkeypatch):
    clock = Clock(monkeypatch)

    def late(*args):
        clock.now += 16.0
        return time_limit.Deadline(*args)

    monkeypatch.setattr(ensemble, "Deadline", late)
    clf = clock.fit("fast", time_limit=20)
    assert clf.transformer_ is None


def test_early_stopping_is_no_deadline(monkeypatch, recwarn):
    clock = Clock(monkeypatch)
    params = {"early_stopping": True, "n_iter_no_change": 1, "learning_rate": 1.0, **LINEAR}
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
    series, labels = np.tile(X, (30, 1, 1)), np.tile(Y, 30)
    clf = classifier(**LINEAR)
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


@pytest.fixture
def measured(monkeypatch):
    """Runs that an epoch is measured by: series, epochs, and limit; each step takes .1 s."""
    runs = []

    def train(model, panel, targets, loss, plan, *, weights, callbacks):
        runs.append((len(panel), plan.n_epochs, callbacks[0].at < inf))
        assert targets.equal(weights)
        assert (targets[0], targets[-1], len(targets)) == (0, 479, len(panel))
        assert (plan.n_iter_no_change, plan.checkpoint_dir, plan.resume) == (None, None, False)
        seconds = 0.1 * len(panel) / plan.batch_size
        return History([{"seconds": seconds + 9.0 * (i < 2)} for i in range(plan.n_epochs)])

    monkeypatch.setattr(time_limit, "train", train)
    return runs


@pytest.mark.parametrize(
    ("at_most", "graphed", "runs", "seconds"),
    [
        (61, False, [(48, 2, False)], 30 * 3.1),  # twenty steps of 3.1 s would take too long
        (63, False, [(48, 2, False), (320, 2, True)], 30 * 11 / 20),
        (1e9, True, [(48, 5, False), (320, 5, True)], 30 * 0.1),
    ],
)
def test_a_few_steps_are_measured(at_most, graphed, runs, seconds, measured, monkeypatch):
    """In CUDA graphs steps are plain first, and one is captured: they go on until all replay."""
    monkeypatch.setattr(TrainingPlan, "graphed", graphed)
    job = classifier(**LINEAR)._prepare(np.tile(X, (30, 1, 1)), np.tile(Y, 30))
    plan = replace(job.plans[0], n_iter_no_change=3, checkpoint_dir="checkpoints", resume=True)
    job = replace(job, plans=[plan], targets=torch.arange(480), weights=torch.arange(480))
    found = time_limit.epoch_seconds(job, None, at_most=at_most)
    assert measured == runs
    assert found == pytest.approx(seconds)
    stopped = History([{"seconds": 1.0}])
    stopped.interrupted = True
    monkeypatch.setattr(time_limit, "train", lambda *args, **kwargs: stopped)
    with pytest.raises(KeyboardInterrupt):
        time_limit.epoch_seconds(job, None, at_most=at_most)


@pytest.mark.slow  # each process imports torch
def test_the_deadline_reaches_members_in_processes(monkeypatch):
    """Measured as if training took no time, they are ended in their processes.

    How long a fit takes there is up to the machine, so no time is asserted here.
    """
    classifier(n_estimators=2, n_jobs=2).fit(X, Y)  # starts the processes, which are used again
    monkeypatch.setattr(ensemble, "epoch_seconds", lambda *args, **kwargs: 5e-5)
    clf = make("good", {"max_epochs": 100_000}, time_limit=8.0, n_jobs=2)
    clf.fit(X, Y)
    assert all(0 < len(history) < 100_000 for history in clf.transformer_.histories_)


def test_progress_has_the_members_that_fit(monkeypatch, capsys):
    clock = Clock(monkeypatch, convolutions=10.0)
    clf = clock.fit("best", time_limit=31, verbose=1)
    assert clf.transformer_.n_estimators == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "random convolutions"
    loss = clf.transformer_.histories_[1][-1]["loss"]
    assert shown[-1].startswith(f"epoch 18/18  member 2 of 2  loss {loss:.4f}")
    pickle.dumps(make(verbose=1).fit(X, Y))
    capsys.readouterr()
    make().fit(X, Y)
    assert capsys.readouterr().err == ""


# The gate


def test_no_transformer_where_random_convolutions_explain_the_classes(tmp_path, capfd, monkeypatch):
    """Leave-one-out predictions of separable classes are nearly certain."""
    rng = np.random.default_rng(0)
    labels = Y.repeat(3)
    sines = np.sin(np.arange(40) * np.where(labels == "yes", 0.5, 1.0)[:, None])
    easy = sines + 0.05 * rng.normal(size=sines.shape)
    clf = make(gate=0.2, verbose=1).fit(easy, labels)
    assert 0 <= clf.unexplained_ < 0.2
    assert clf.transformer_ is None
    assert clf.weights_ == {"random_convolutions": 1.0}
    assert "no transformer is needed" in capfd.readouterr().err
    clf.save(tmp_path / "clf")
    assert load(tmp_path / "clf").unexplained_ == clf.unexplained_
    alone = convolutions().fit(easy, labels).predict_proba(easy)
    for each in (clf, make(gate=0.2, time_limit=30).fit(easy, labels)):
        np.testing.assert_array_equal(each.predict_proba(easy), alone)
    assert make(gate=clf.unexplained_).fit(easy, labels).transformer_ is not None
    noise = make(gate=0.2).fit(rng.normal(size=(48, 40)), labels)
    assert noise.transformer_ is not None
    assert noise.unexplained_ > 0.8
    monkeypatch.setattr(ensemble, "MANY_SERIES", len(labels))
    assert make(gate=0.2).fit(easy, labels).transformer_ is not None


def test_fit_reads_the_series_once(monkeypatch):
    reads = []

    def read(X, *args, **kwargs):
        reads.append(X)
        return to_source(X, *args, **kwargs)

    monkeypatch.setattr("tsformer.estimators.series.to_source", read)
    make("fast", LINEAR).fit(X, Y)
    assert len(reads) == 1
