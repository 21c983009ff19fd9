"""What all five estimators promise: one seed, one model; saved, copied, interrupted, refused."""

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from small_estimators import (
    MAKERS,
    RAGGED,
    TIMES,
    WEIGHTS,
    Raises,
    X,
    Y,
    answers,
    assert_same,
    classifier,
    encoder,
    ensemble,
)

from tsformer import load
from tsformer.training import Callback

#: Their training can be interrupted and leaves a model.
TRAINED = [name for name in MAKERS if name != "convolutions"]
every_estimator = pytest.mark.parametrize("name", MAKERS)
every_classifier = pytest.mark.parametrize("name", ["classifier", "convolutions", "ensemble"])


def differ(results: dict[str, Any], expected: dict[str, Any]) -> bool:
    return not all(np.array_equal(value, expected[method]) for method, value in results.items())


@every_estimator
def test_answers(name, plain):
    estimator = plain[name]
    results = answers(estimator)
    assert all(np.isfinite(value).all() for value in results.values())
    if "predict_proba" in results:
        proba = results["predict_proba"]
        assert (proba.shape, proba.dtype) == ((16, 2), np.float64)
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_array_equal(results["predict"], estimator.classes_[proba.argmax(axis=1)])
        weighted = np.average(results["predict"] == Y, weights=WEIGHTS)
        assert estimator.score(X, Y, sample_weight=WEIGHTS) == pytest.approx(weighted)
    if "transform" in results:
        assert results["transform"].dtype == np.float32
        assert results["transform"].shape == (16, len(estimator.get_feature_names_out()))
    assert (estimator.n_channels_, estimator.n_features_in_) == (2, 2)


@pytest.mark.parametrize("name", ["classifier", "convolutions"])
def test_fit_transform_passes_times_to_both(name):
    estimator = MAKERS[name]()
    embedded = estimator.fit_transform(RAGGED, Y, times=TIMES, groups=np.arange(16) // 2)
    np.testing.assert_array_equal(embedded, estimator.transform(RAGGED, TIMES))


@every_estimator
def test_copies_answer_alike(name, fitted, tmp_path):
    original = fitted[name]
    expected = answers(original, RAGGED, times=TIMES)
    original.save(tmp_path / "model")
    pickled = pickle.loads(pickle.dumps(original))
    learned = ("n_features_in_", "history_", "objective_", "weights_", "seconds_", "temperatures_")
    for twin in (load(tmp_path / "model"), pickled, copy.deepcopy(original)):
        assert type(twin) is type(original)
        assert twin.get_params() == original.get_params()
        assert_same(answers(twin, RAGGED, times=TIMES), expected)
        for attribute in learned:
            assert getattr(twin, attribute, None) == getattr(original, attribute, None)


@every_estimator
def test_save_ignores_later_parameters(name, plain, tmp_path):
    estimator = copy.deepcopy(plain[name])
    expected = answers(estimator)
    changed = {
        "convolutions": {"n_features": 336, "n_groups": 4},
        "ensemble": {"convolution_params": {"n_features": 336}},
    }.get(name, {"encoding": "rope", "d_model": 16, "scaling": "series"})
    estimator.set_params(**changed).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_same(answers(loaded), expected)
    assert {parameter: getattr(loaded, parameter) for parameter in changed} == changed


@every_estimator
def test_one_seed_one_model(name, plain):
    def answer(state: Any) -> dict[str, Any]:
        return answers(clone(plain[name]).set_params(random_state=state).fit(X, Y))

    generator = answer(np.random.RandomState(3))
    assert_same(answer(np.random.RandomState(3)), generator)
    assert_same(answer(0), answers(plain[name]))
    assert differ(answer(None), generator)
    assert differ(answer(1), answers(plain[name]))


@pytest.mark.slow
@pytest.mark.processes
def test_the_first_fit_of_a_process_leaves_its_random_numbers_alone():
    """Importing rich, which scikit-learn's metrics load, draws from Python's generator."""
    program = """
import random
import numpy as np
from tsformer import TSTransformerClassifier, TSTransformerRegressor
X, y = np.random.default_rng(0).normal(size=(40, 1, 24)), [0, 1] * 20
state = random.getstate()
for made in (TSTransformerClassifier, TSTransformerRegressor):
    fitted = made(d_model=8, n_heads=2, max_epochs=1).fit(X, y)
    fitted.score(X, y)
assert random.getstate() == state
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


@every_estimator
def test_answers_do_not_depend_on_company(name, fitted):
    expected = answers(fitted[name], RAGGED, times=TIMES)
    backwards = answers(fitted[name], RAGGED[::-1], times=TIMES[::-1])
    alone = answers(fitted[name], RAGGED[:1], times=TIMES[:1])
    for method, value in expected.items():
        axis = 1 if method.endswith("members") else 0
        np.testing.assert_allclose(alone[method], value.take([0], axis=axis), atol=1e-5)
        np.testing.assert_allclose(np.flip(backwards[method], axis=axis), value, atol=1e-5)


@every_estimator
def test_times_are_needed_where_there_were_some(name, fitted, plain):
    for estimator, times in ((fitted[name], {}), (plain[name], {"times": TIMES})):
        with pytest.raises(ValueError):
            answers(estimator, RAGGED, **times)


@every_estimator
def test_times_of_the_index(name, fitted):
    frames = [pd.DataFrame(x.T, index=t) for x, t in zip(RAGGED, TIMES, strict=True)]
    by_index = MAKERS[name](timestamps="index").fit(frames, Y)
    expected = answers(fitted[name], RAGGED, times=TIMES)
    assert_same(answers(by_index, frames), expected)
    assert_same(answers(by_index, pd.concat(frames, keys=range(16))), expected)
    with pytest.raises(ValueError):
        MAKERS[name](timestamps="index").fit(X, Y)


@every_estimator
def test_names_and_columns(name, fitted):
    frames = [pd.DataFrame(x.T, columns=["a", "b"]) for x in X]
    estimator = MAKERS[name]().fit(frames, Y)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError):
        answers(estimator, [frame[["b", "a"]] for frame in frames])
    with pytest.warns(UserWarning):
        answers(estimator, X)
    table = pd.DataFrame(X[:, 0]).add_prefix("step ")
    estimator.fit(table, Y)
    assert (estimator.n_channels_, estimator.n_features_in_) == (1, 24)
    answers(estimator, [frame[["a"]] for frame in frames])  # the names of fit are of steps
    for model, series in ((estimator, X[:, 0, :19]), (fitted[name], X[:, :1])):
        with pytest.raises(ValueError):
            answers(model, series)
    assert not hasattr(estimator.fit(X, Y), "feature_names_in_")


@every_estimator
def test_weights(name, plain):
    def weighted(weights, series=X, keep=slice(None)):
        fitted = MAKERS[name]().fit(series[keep], Y[keep], sample_weight=weights[keep])
        return answers(fitted, X)

    assert_same(weighted(np.full(16, 3.0)), answers(plain[name]))
    results = weighted(WEIGHTS)
    assert differ(results, answers(plain[name]))
    some = np.where((np.arange(16) < 3) | (np.arange(16) == 8), 0.0, WEIGHTS)
    far = np.where(some[:, None, None] == 0, 1e6, X)  # an outlier must not shift statistics
    assert_same(weighted(some, far), weighted(some, keep=some > 0))
    # A common factor changes rounding alone.
    assert_same(weighted(4 * WEIGHTS), results, atol=1e-4, rtol=1e-3)


@every_classifier
def test_class_weights_are_sample_weights(name):
    by_class = MAKERS[name](class_weight={0: 3.0}).fit(X, Y, sample_weight=WEIGHTS)
    by_sample = MAKERS[name]().fit(X, Y, sample_weight=WEIGHTS * np.where(Y == 0, 3.0, 1.0))
    assert_same(answers(by_class), answers(by_sample))
    counted = np.where(np.arange(16) < 3, 0.0, 1.0)  # seven and six
    balanced = MAKERS[name](class_weight="balanced").fit(X, Y, sample_weight=counted)
    inverse = MAKERS[name](class_weight={0: 13 / 12, 1: 13 / 14, 2: 9}).fit(X[3:], Y[3:])
    assert_same(answers(balanced), answers(inverse), atol=1e-6)


@every_estimator
def test_an_unfitted_estimator_says_so(name, tmp_path):
    of_series = ("predict", "predict_proba", "transform", "decision_function", "predict_set")
    more = [("score", [X, Y]), ("summary", []), ("save", [tmp_path / "model"])]
    for method, arguments in [*((m, [X]) for m in of_series), *more]:
        if hasattr(unfitted := MAKERS[name](), method):
            with pytest.raises(NotFittedError):
                getattr(unfitted, method)(*arguments)


@every_classifier
def test_one_class(name):
    estimator = MAKERS[name]().fit(X, np.full(16, "only"))
    np.testing.assert_array_equal(estimator.predict_proba(X), np.ones((16, 1)))
    assert set(estimator.predict(X)) == {"only"}


def with_training(name: str, **options: Any) -> Any:
    return ensemble("good", options) if name == "ensemble" else MAKERS[name](**options)


@pytest.mark.parametrize("name", TRAINED)
def test_a_training_that_ends_early_leaves_a_model(name):
    failing = with_training(name, max_epochs=5, callbacks=[Raises(LookupError(), 2)])
    with pytest.raises(LookupError):
        failing.fit(X, Y)
    stopped = with_training(name, max_epochs=5, callbacks=[Raises(KeyboardInterrupt(), 2)])
    with pytest.warns(UserWarning) as caught:
        assert stopped.fit(X, Y) is stopped
    assert {warning.filename for warning in caught} == {__file__}, "the line that called fit"
    trained = stopped.transformer_ if name == "ensemble" else stopped
    assert trained.history_.interrupted
    assert [len(history) for history in trained.histories_] == [2]
    for estimator in (failing, stopped):
        assert all(np.isfinite(value).all() for value in answers(estimator).values())


class Counts(Callback):
    """Counts the epochs of all members, and fails at the end of one."""

    def __init__(self, last: int = 0):
        self.last, self.epochs = last, 0

    def on_epoch_end(self, state: Any) -> None:
        self.epochs += 1
        if self.epochs == self.last:
            raise LookupError("no power")


MIXED = {"augmentation": "warp+cutmix", "augmentation_params": {"warp": {"p": 0.5}}}
RESUMED: dict[str, Callable[..., Any]] = {
    "members": partial(classifier, n_estimators=2, stem_params={"n_tokens": 16}, **MIXED),
    "encoder": MAKERS["encoder"],
    "frozen": partial(
        classifier, init_from=encoder(stem="linear"), stem="linear", freeze="backbone"
    ),
    "ensemble": lambda **training: ensemble("good", training),
}


@pytest.mark.filterwarnings("ignore:resume=True found no checkpoint")  # members not begun
@pytest.mark.parametrize("name", RESUMED)
def test_resumed_fit_equals_whole_fit(name, tmp_path):
    make = partial(RESUMED[name], max_epochs=4, batch_size=5)
    all_epochs, rest = Counts(), Counts()
    whole = make(callbacks=[all_epochs]).fit(X, Y)
    last = 3 if all_epochs.epochs == 4 else 6
    kept = {"checkpoint_dir": tmp_path, "checkpoint_minutes": 0}
    with pytest.raises(LookupError):
        make(**kept, callbacks=[Counts(last)]).fit(X, Y)
    resumed = make(**kept, resume=True, callbacks=[rest]).fit(X, Y)
    assert rest.epochs == all_epochs.epochs - last + 1, "the epoch of the failure is repeated"
    assert_same(answers(resumed), answers(whole))


def test_a_checkpoint_of_another_loss_or_encoding_is_not_continued(tmp_path):
    make = partial(classifier, encoding="rope", checkpoint_dir=tmp_path, stem="linear")
    fitted = make().fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(answers(make(resume=True).fit(X, Y)), answers(fitted))
    for change in ({"label_smoothing": 0.3}, {"encoding": "fixed"}):
        with pytest.warns(UserWarning, match="no checkpoint"):
            make(resume=True, **change).fit(X, Y)
