"""TSEnsembleClassifier: the mean of its parts, and the limit of time."""

from importlib import import_module

import joblib
import numpy as np
import pytest
from small_estimators import Raises, X, classifier, convolutions
from small_estimators import ensemble as make

from tsformer import RandomConvolutionClassifier, TSEnsembleClassifier, load
from tsformer import TSTransformerClassifier as Transformer
from tsformer.estimators import ensemble
from tsformer.training import Callback

Y = np.array(["no", "yes"])[np.arange(16) % 2]
LINEAR = {"stem": "linear"}


@pytest.fixture(scope="module")
def fitted() -> TSEnsembleClassifier:
    return make("good", LINEAR).fit(X, Y)


def test_predict_proba_mean_of_parts(fitted):
    parts, proba = fitted.predict_proba_parts(X), fitted.predict_proba(X)
    assert list(parts) == ["random_convolutions", "transformer"]
    np.testing.assert_allclose(proba, sum(parts.values()) / 2)
    odds = np.log(proba[:, 1]) - np.log(proba[:, 0])
    np.testing.assert_allclose(fitted.decision_function(X), odds, atol=1e-9)
    assert fitted.weights_ == {"random_convolutions": 0.5, "transformer": 0.5}
    scores = fitted.score_parts(X, Y)
    assert scores == {"ensemble": fitted.score(X, Y)} | {
        name: getattr(fitted, f"{name}_").score(X, Y) for name in parts
    }


def test_parts_equal_estimators_alone():
    weight = np.arange(1.0, 17.0)
    fitted = make("good", LINEAR).fit(X, Y, sample_weight=weight)
    alone = {
        "random_convolutions": convolutions(),
        "transformer": classifier(**LINEAR, n_estimators=2),
    }
    for name, proba in fitted.predict_proba_parts(X).items():
        assert getattr(fitted, f"{name}_").get_params() == alone[name].get_params()
        alone[name].fit(X, Y, sample_weight=weight)
        np.testing.assert_array_equal(alone[name].predict_proba(X), proba)


def test_ctrl_c_keeps_convolutions(tmp_path):
    clf = make(transformer={"callbacks": [Raises(KeyboardInterrupt(), 0)]})
    with pytest.warns(UserWarning):
        assert clf.fit(X, Y) is clf
    clf.save(tmp_path / "clf")
    for gated in (clf, load(tmp_path / "clf")):
        assert gated.transformer_ is None
        assert gated.weights_ == {"random_convolutions": 1.0}
        assert gated.device_ == gated.random_convolutions_.device_
        assert list(gated.score_parts(X, Y)) == ["ensemble", "random_convolutions"]
        np.testing.assert_array_equal(
            gated.predict_proba(X), convolutions().fit(X, Y).predict_proba(X)
        )


class Clock:
    """Time that passes only where random convolutions, choices or epochs take some."""

    def __init__(self, monkeypatch, *, convolutions=0.0, choices=0.0, epochs=(1.0,)):
        self.now, self.epochs = 1000.0, epochs
        monkeypatch.setattr(ensemble, "perf_counter", lambda: self.now)
        import_module("torch._dynamo")  # as after the first fit of a process
        for cls, seconds in ((RandomConvolutionClassifier, convolutions), (Transformer, choices)):
            monkeypatch.setattr(cls, "fit", self._slow(cls.fit, seconds))

    def _slow(self, fit, seconds):
        def slow(*args, **kwargs):
            self.now += seconds
            return fit(*args, **kwargs)

        return slow

    def fit(self, quality: str, limit: float, **params) -> tuple[TSEnsembleClassifier, float]:
        """Return the classifier and the seconds of its fit."""
        start = self.now
        params = {"callbacks": [Epochs(self)], "max_epochs": 9, **LINEAR} | params
        return make(quality, params, time_limit=limit).fit(X, Y), self.now - start


class Epochs(Callback):
    """Epochs take the next of the seconds, and further epochs the last."""

    def __init__(self, clock: Clock):
        self.clock = clock

    def on_epoch_end(self, state):
        seconds = self.clock.epochs[min(state.epoch, len(self.clock.epochs)) - 1]
        self.clock.now += seconds
        state.history[-1]["seconds"] = seconds


SLOW = {"convolutions": 10.0}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("quality", "limit", "clock", "max_epochs", "epochs"),
    [
        *(("best", 51, SLOW, 9, [9, 9, 9, 9]), ("best", 31, SLOW, 9, [9, 9])),
        ("best", 20, SLOW, 9, [9]),
        ("best", 17.4, SLOW, 9, [6]),  # the averages of batch norms take half of one
        ("best", 10, SLOW, 9, []),
        *(("good", 9.6, {}, 46, []), ("good", 9.6, {}, 45, [9])),  # at least a fifth of the epochs
        ("fast", 18, {"epochs": (1.0, 1.0, 3.0)}, 9, [6]),  # slower
        ("fast", 18, {"epochs": (5.0, 1.0)}, 9, [9]),  # a slow first epoch
        ("fast", 18, {"epochs": (1.0, 1.0, 1.0, 14.0)}, 9, [4]),  # stopped
    ],
)
def test_time_limit_plans_members_or_epochs(quality, limit, clock, max_epochs, epochs, monkeypatch):
    clf, seconds = Clock(monkeypatch, **clock).fit(quality, limit, max_epochs=max_epochs)
    histories = getattr(clf.transformer_, "histories_", [])
    assert [len(history) for history in histories] == epochs
    assert seconds <= limit
    if quality == "best" and epochs:
        assert len(clf.transformer_.models_) == len(epochs)
        assert clf.weights_ == {"random_convolutions": 0.5, "transformer": 0.5}
        assert clf.seconds_ == {"random_convolutions": 10, "transformer": sum(epochs)}
        assert histories[0][-1]["lr"] < 0.1 * max(row["lr"] for row in histories[0])


@pytest.mark.parametrize(
    ("options", "limit", "cause"),
    [
        ({"convolutions": 10.0}, 7, "random_convolutions 10"),
        ({"choices": 90.0}, 60, "transformer 9"),
    ],
)
def test_time_limit_overrun_names_cause(options, limit, cause, monkeypatch):
    clock = Clock(monkeypatch, **options)
    with pytest.warns(UserWarning, match=cause):
        clf, _ = clock.fit("good", limit)
    assert clf.transformer_ is None
    np.testing.assert_array_equal(clf.predict_proba(X), convolutions().fit(X, Y).predict_proba(X))


@pytest.mark.filterwarnings("error")
def test_time_limit_counts_choices(monkeypatch):
    clf, seconds = Clock(monkeypatch, choices=20.0).fit("fast", 29)
    assert clf.transformer_.n_iter_ == 8
    assert seconds == clf.seconds_["transformer"] == 28


def test_time_limit_allows_jobs(fitted):
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        limited = make("good", LINEAR, time_limit=600, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(limited.predict_proba(X), fitted.predict_proba(X))


def test_gate(tmp_path, capfd, monkeypatch):
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
    for gated in (clf, make(gate=0.2, time_limit=30).fit(easy, labels)):
        np.testing.assert_array_equal(gated.predict_proba(easy), alone)
    assert make(gate=clf.unexplained_).fit(easy, labels).transformer_ is not None
    noise = make(gate=0.2).fit(rng.normal(size=(48, 40)), labels)
    assert noise.transformer_ is not None
    assert noise.unexplained_ > 0.8
    monkeypatch.setattr(ensemble, "MANY_SERIES", len(labels))
    assert make(gate=0.2).fit(easy, labels).transformer_ is not None
    fewer = np.arange(len(labels)) > 0  # a series of weight 0 does not count
    assert make(gate=0.2).fit(easy, labels, sample_weight=fewer).transformer_ is None
