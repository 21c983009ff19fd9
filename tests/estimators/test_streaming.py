"""A live signal: its windows are those of `tsformer.data.windows`, and so are the probabilities."""

import numpy as np
import pandas as pd
import pytest

from tsformer import RandomConvolutionClassifier
from tsformer.data import windows
from tsformer.data.table import TableSchema
from tsformer.estimators import StreamingClassifier

RNG = np.random.default_rng(0)


def recording(n=400):
    values = RNG.normal(size=(2, n))
    values[0, n // 2 :] += 3
    return values


@pytest.fixture(scope="module")
def model():
    cut = windows(recording(), np.repeat(["low", "high"], 200), 20, 10)
    return RandomConvolutionClassifier(n_features=168, random_state=0).fit(cut.X, cut.y)


def streamed(stream, recording, sizes):
    """Return all answers, and those that `update` returned."""
    answers, last, start = [], [stream.update(recording[:0])], 0
    while start < len(recording):
        size = int(RNG.choice(sizes))
        last.append(stream.update(recording[start : start + size]))
        answers += stream.answers
        start += size
    return answers, last


@pytest.mark.parametrize("sizes", [[1], [0, 3, 8], [70, 2]])
@pytest.mark.parametrize(
    ("length", "stride", "pause"),
    [(20, 7, None), (20, 33, None), ("2s", "700ms", "10s"), (5, 5, 30)],
)
def test_a_stream_gives_the_windows_of_the_recording(model, length, stride, pause, sizes):
    seconds = np.arange(150) / 10
    for at, gap in ((30, 3), (33, 20), (90, 100)):
        seconds[at:] += gap
    x = pd.DataFrame(recording(150).T, columns=["x", "y"])
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
    x = recording()
    stream = StreamingClassifier(model, 20)  # without overlap
    assert stream.update(x[:, :19]) == (None, False, 0, None)
    answer = stream.update(x[:, 19:65])
    assert [each.n_steps for each in stream.answers] == [20, 40, 60]
    assert answer.n_steps == 60
    np.testing.assert_allclose(answer.proba, model.predict_proba(x[None, :, 40:60])[0], atol=1e-6)
    assert stream.update(x[:, 65:66]) is answer
    assert stream.answers == []
    stream.reset()
    assert stream.update(x[:, :20]).n_steps == 20
    with pytest.raises(ValueError, match="same"):
        stream.update(x[:1])


def test_the_windows_of_a_saved_model_are_its_defaults(model):
    model.table_schema_ = TableSchema(window="30", stride="4")
    assert (StreamingClassifier(model).length, StreamingClassifier(model).stride) == (30, 4)
    del model.table_schema_


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((20, 0), "stride"), (("2s", "1s"), "'2s'"), ((None,), "length and stride")],
)
def test_bad_windows_are_refused(model, arguments, problem):
    with pytest.raises((TypeError, ValueError), match=problem):
        StreamingClassifier(model, *arguments).update(recording())
