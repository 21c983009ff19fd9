"""Early answers: prefixes are scaled alone, held-out rules, and one answer by every way to ask."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hmean
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from small_estimators import RAGGED, TIMES, X, Y, convolutions, regressor

from tsformer import EarlyClassifier, RandomConvolutionClassifier, load
from tsformer.data import windows
from tsformer.estimators import StreamingClassifier

RNG = np.random.default_rng(1)


class Nearest(ClassifierMixin, BaseEstimator):
    """Classifier of no library: the class of the series with the nearest mean."""

    def fit(self, X: list[np.ndarray], y: np.ndarray) -> Nearest:
        self.classes_, self.y_ = np.unique(y, return_inverse=True)
        self.means_ = np.array([x.mean() for x in X])
        return self

    def predict_proba(self, X: list[np.ndarray]) -> np.ndarray:
        nearest = [np.abs(self.means_ - x.mean()).argmin() for x in X]
        return np.eye(len(self.classes_))[self.y_[nearest]]


class Unsure(Nearest):
    """Classifier without any probability."""

    def predict_proba(self, X: list[np.ndarray]) -> np.ndarray:
        return super().predict_proba(X) * np.nan


def early(made: Any = None, points: Any = 4, **options: Any) -> EarlyClassifier:
    made = convolutions(scaling="series") if made is None else made
    return EarlyClassifier(made, points=points, **{"random_state": 0} | options)


@pytest.fixture(scope="module")
def fitted() -> EarlyClassifier:
    """Fitted to unequal lengths, gaps and times; changed only by the rule of each test."""
    return early().fit(RAGGED, Y, times=TIMES)


def prefixes(series: list[np.ndarray], n: int) -> list[np.ndarray]:
    return [x[..., :n] for x in series]


def test_fit_scales_each_prefix_alone():
    """Trained on raw prefixes cut by hand: scaling and gaps are of the prefix alone."""
    X_gap = X.copy()
    X_gap[::3, 0, 5:8] = np.nan
    cut = [x[:, :n] for n in (6, 12, 18, 24) for x in X_gap]
    by_hand = convolutions(scaling="series").fit(cut, np.tile(Y, 4), groups=np.tile(range(16), 4))
    fitted = early().fit(X_gap, Y)
    assert fitted.steps_.tolist() == [6, 12, 18, 24]
    np.testing.assert_array_equal(fitted.predict_proba(X_gap), by_hand.predict_proba(X_gap))
    np.testing.assert_array_equal(
        fitted.predict_proba(X_gap[..., :12]), by_hand.predict_proba(prefixes(list(X_gap), 12))
    )


@pytest.mark.parametrize("made", [convolutions(), Nearest()], ids=["leave-one-out", "folds"])
def test_held_out_answers_leave_out_groups(made):
    """Another prefix of the same series or of its copy would tell its label, which is noise."""
    noise = RNG.normal(size=(40, 1, 16)) + RNG.normal(size=(40, 1, 1))
    y, pairs = np.arange(40) % 2, np.arange(40).repeat(2)
    assert early(made).fit(noise, y).trade_offs_.accuracy.max() < 0.75
    rules = early(made).fit(noise[pairs], y[pairs], groups=pairs).trade_offs_
    assert rules.accuracy.max() < 0.75


def test_fit_folds_without_rare_class():
    y = np.minimum(np.arange(21), 1) + np.arange(21) // 11  # a single series of the class 0
    rare = early(Nearest(), cv=3).fit(10.0 * y[:, None, None] + RNG.normal(size=(21, 1, 8)), y)
    assert rare.trade_offs_.accuracy.max() > 0.9


@pytest.mark.parametrize(("threshold", "n_agreeing"), [(0.6, 2), (0.9, 1)])
def test_decide_predict_early_and_stream_agree(threshold, n_agreeing, fitted):
    fitted.threshold_, fitted.n_agreeing_ = threshold, n_agreeing
    chosen = (0, 1, 2, 4, 5, 7)  # of other lengths than 18, which is a point
    series, times = [RAGGED[i] for i in chosen], [TIMES[i] for i in chosen]
    labels, n_steps = fitted.predict_early(series, times)
    at_point = np.isin(n_steps, fitted.steps_)
    assert (at_point | (n_steps == [len(t) for t in times])).all()
    streams = [StreamingClassifier(fitted) for _ in series]
    for end in range(1, 25):
        arrived = prefixes(series, end), [t[:end] for t in times]
        answers, decided = fitted.decide(*arrived)
        np.testing.assert_array_equal(decided, at_point & (n_steps <= end))
        expected = np.where(decided, labels, fitted.predict(*arrived))
        np.testing.assert_array_equal(answers, expected)
        for i, (stream, x, t) in enumerate(zip(streams, series, times, strict=True)):
            if end <= len(t):
                answer = stream.update(x[:, end - 1 : end], t[end - 1 : end])
                assert answer.decided == decided[i]
                if answer.decided:
                    assert (answer.label, answer.n_steps) == (labels[i], n_steps[i])


@pytest.mark.parametrize(
    ("values", "n_agreeing", "stop"),
    [
        ([0.2, 0.8, 0.8], 2, 2),  # another class begins anew
        ([0.2, 0.4, 0.2, 0.2], 2, 3),  # so does an unsure answer
        ([0.8, np.nan, 0.8, 0.8], 2, 2),
        ([0.2, 0.2, 0.2, 0.2], 3, 2),  # the run begins at its first answer
        ([0.4, 0.4], 1, 1),  # the last point is answered in any case
        ([0.4, np.nan], 1, 2),
    ],
)
def test_decide_stops_after_agreeing_answers(values, n_agreeing, stop):
    n = len(values)
    clf = early(Nearest(), points=n).fit(RNG.uniform(size=(8, 1, n)), np.arange(8) % 2)
    clf.threshold_, clf.n_agreeing_ = 0.75, n_agreeing
    # The probability of class 1 is the last value.
    clf.classifier_.predict_proba = lambda X: np.array([[1 - x[0, -1], x[0, -1]] for x in X])
    series = np.array([[values]] * 2)  # two, whose answers must not be one run
    decided = [clf.decide(series[..., : i + 1])[1].tolist() for i in range(n)]
    assert decided == [[i >= stop] * 2 for i in range(n)]


def test_trade_offs_match_predict_early(fitted):
    assert fitted.trade_offs_.earliness.max() == 1
    lengths = [x.shape[1] for x in RAGGED]
    rules = fitted.trade_offs(RAGGED, Y, TIMES)
    means = hmean([rules.accuracy, 1 - rules.earliness])
    np.testing.assert_allclose(rules.harmonic_mean, means)
    fitted_rule = rules.query(
        "threshold == @fitted.threshold_ and n_agreeing == @fitted.n_agreeing_"
    )
    assert len(fitted_rule) == 1
    for row in [*fitted_rule.itertuples(), *rules[::50].itertuples()]:
        fitted.threshold_, fitted.n_agreeing_ = row.threshold, row.n_agreeing
        labels, n_steps = fitted.predict_early(RAGGED, TIMES)
        expected = (labels == Y).mean(), (n_steps / lengths).mean()
        assert (row.accuracy, row.earliness) == pytest.approx(expected)


@pytest.mark.parametrize(("earliness", "rule"), [("harmonic", 0), (0.4, 2), (0.3, 2), (0.9, 1)])
def test_choose_rule(earliness, rule, fitted):
    clf = copy.copy(fitted)
    rows = [(0.5, 1, 0.7, 0.1), (0.6, 2, 0.9, 0.6), (0.7, 3, 0.8, 0.3), (0.8, 1, 0.8, 0.4)]
    table = pd.DataFrame(rows, columns=["threshold", "n_agreeing", "accuracy", "earliness"])
    means = hmean([table.accuracy, 1 - table.earliness])
    clf.trade_offs_ = table.assign(harmonic_mean=means)[::-1]
    clf.choose_rule(earliness)
    assert (clf.threshold_, clf.n_agreeing_) == rows[rule][:2]


def test_predict_early_late_or_longer_series(fitted):
    late = [x.copy() for x in RAGGED]
    late[0][:, :14] = np.nan
    again = early(convolutions()).fit(late, Y, times=TIMES)
    assert again.predict_early(late, TIMES)[1][0] >= 15
    longer, of_ten = np.concatenate([X, X], axis=2), early(points=[0.7]).fit(X[..., :10], Y)
    assert of_ten.steps_.tolist() == [7, 10]
    of_ten.threshold_ = 1.1
    assert of_ten.decide(longer)[1].all(), "at the last point in any case"
    assert (of_ten.predict_early(longer)[1] == 10).all()
    silent = X[:1, :, :10].copy()
    silent[..., 8:] = np.nan
    assert not of_ten.decide(silent)[1]
    assert StreamingClassifier(of_ten).update(silent[0]).decided, "its full length has arrived"
    sixth = early(points=6, earliness=1 / 6).fit(X[:10], Y[:10])
    assert (sixth.predict_early(X)[1] == 4).all(), "a mean share has a rounding error"
    longer[1, :, :10] = np.nan
    with pytest.raises(ValueError, match="series 1 "):
        of_ten.decide(longer)


def test_stream_of_dated_frames():
    dates = pd.date_range("2024", periods=24, freq="D")
    frames = [pd.DataFrame(x.T, index=dates, columns=["a", "b"]) for x in X]
    dated = early(convolutions(timestamps="index")).fit(frames, Y)
    stream = StreamingClassifier(dated)
    for start in range(0, 24, 2):  # square: 2 steps of 2 channels
        answer = stream.update(frames[0][start : start + 2])
    labels, n_steps = dated.predict_early(frames[:1])
    assert (answer.label, answer.n_steps) == (labels[0], n_steps[0])
    stream.reset()
    swapped = [x[["b", "a"]] for x in frames]
    for ask in (dated.predict, lambda series: stream.update(series[0])):
        with pytest.raises(ValueError):
            ask(swapped)
    assert stream.update(frames[0][:3]).label is None
    for chunk in (X[0][:, 3:5], frames[0][3:5]):  # unnamed, and times of another kind
        with pytest.raises(ValueError):
            stream.update(chunk, [3.0, 4.0])


def test_save_and_load(tmp_path):
    fitted = early(points=[0.5, 0.75], cv=3, earliness=0.9).fit(X, Y).choose_rule(0.8)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    for result, expected in zip(loaded.predict_early(X), fitted.predict_early(X), strict=True):
        np.testing.assert_array_equal(result, expected)
    assert loaded.choose_rule("harmonic").threshold_ == fitted.choose_rule("harmonic").threshold_
    assert (loaded.points, loaded.earliness, loaded.n_channels_) == ([0.5, 0.75], 0.9, 2)
    with pytest.raises(TypeError):
        early(Nearest()).fit(X, Y).save(tmp_path / "model")


def test_refused_data_leave_fit(fitted):
    before = fitted.predict_proba(RAGGED, TIMES)
    frame, labels = pd.DataFrame(X[:, 0]), pd.Series(Y)
    by_id, stream = early().fit(frame, labels), StreamingClassifier(fitted)
    with pytest.raises(ValueError, match="groups"):
        fitted.fit(RAGGED[:1], Y[:1], times=TIMES[:1])
    for error, call, *arguments in (
        (ValueError, fitted.fit, RAGGED, Y[:5]),
        (ValueError, fitted.fit, np.full((16, 2, 9), np.nan), Y),
        (ValueError, fitted.decide, [np.ones((2, 0))], [[]]),
        (ValueError, fitted.decide, [x[:1] for x in RAGGED], TIMES),
        (ValueError, fitted.trade_offs, RAGGED, Y.astype(str), TIMES),
        (ValueError, fitted.choose_rule, 0.01),
        (ValueError, early(earliness=0.1).fit, X, Y),
        *(
            (ValueError, early(points=p).fit, X, Y)
            for p in (0, [0.5, 0.2], [50, 100], ["a"], [[0.5]])
        ),
        (TypeError, early(points="all").fit, X, Y),
        *((ValueError, call, frame, labels[::-1]) for call in (by_id.trade_offs, by_id.fit)),
        (ValueError, stream.update, np.ones(1), [0.0]),
        (ValueError, stream.update, np.ones((2, 12))),
        (NotFittedError, clone(fitted).decide, X),
        (TypeError, early(regressor()).fit, X, Y),
        (ValueError, partial(early(Nearest()).fit, times=np.arange(24)), X, Y),
        (ValueError, early(Unsure()).fit, X, Y),
        (TypeError, StreamingClassifier, convolutions()),
    ):
        with pytest.raises(error):
            call(*arguments)
    np.testing.assert_array_equal(fitted.predict_proba(RAGGED, TIMES), before)
    right = fitted.predict(RAGGED, TIMES) == Y
    assert fitted.score(RAGGED, Y, np.arange(16), times=TIMES) == right @ np.arange(16) / 120


def signal(n=400):
    values = RNG.normal(size=(2, n))
    values[0, n // 2 :] += 3
    return values


@pytest.fixture(scope="module")
def model():
    cut = windows(signal(), np.repeat(["low", "high"], 200), 20, 10)
    return RandomConvolutionClassifier(n_features=168, random_state=0).fit(cut.X, cut.y)


def streamed(stream, signal, sizes):
    """Return all answers, and those that `update` returned."""
    answers, last, start = [], [stream.update(signal[:0])], 0
    while start < len(signal):
        size = int(RNG.choice(sizes))
        last.append(stream.update(signal[start : start + size]))
        answers += stream.answers
        start += size
    return answers, last


@pytest.mark.parametrize("sizes", [[1], [0, 3, 8], [70, 2]])
@pytest.mark.parametrize(
    ("length", "stride", "pause"), [(20, 7, None), ("2s", "3300ms", "10s"), (5, 5, 30)]
)
def test_a_stream_gives_the_windows_of_the_recording(model, length, stride, pause, sizes):
    seconds = np.arange(150) / 10
    for at, gap in ((30, 3), (33, 20), (90, 100)):
        seconds[at:] += gap
    x = pd.DataFrame(signal(150).T, columns=["x", "y"])
    x.index = seconds if pause == 30 else pd.Timestamp("2024-03-01") + pd.to_timedelta(seconds, "s")
    cut = windows(x, None, length, stride, pause=pause)
    stream = StreamingClassifier(model, length, stride, pause=pause)
    answers, last = streamed(stream, x, sizes)
    assert [answer.n_steps for answer in answers] == cut.origins["stop"].tolist()
    proba = model.predict_proba(cut.X)
    np.testing.assert_allclose([answer.proba for answer in answers], proba, atol=1e-6)
    assert [answer.label for answer in answers] == model.classes_[proba.argmax(axis=1)].tolist()
    assert last[-1] is answers[-1]
    assert all(answer.decided for answer in answers)


def test_arrays_are_numbered_on(model):
    x = signal()
    stream = StreamingClassifier(model, 20)  # without overlap
    assert stream.update(x[:, :19]) == (None, False, 0, None)
    answer = stream.update(x[:, 19:65])
    assert [window.n_steps for window in stream.answers] == [20, 40, 60]
    assert answer.n_steps == 60
    np.testing.assert_allclose(answer.proba, model.predict_proba(x[None, :, 40:60])[0], atol=1e-6)
    assert stream.update(x[:, 65:66]) is answer
    assert stream.answers == []
    stream.reset()
    assert stream.update(x[:, :20]).n_steps == 20
