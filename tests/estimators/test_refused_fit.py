"""A refused `fit` names the parameter, and leaves the estimator exactly as it was."""

import copy
import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_estimators import FIVE, NETWORK

from tsformer import TSTransformerClassifier
from tsformer.estimators import random_convolution
from tsformer.training import Callback

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 20))
Y = np.array(["no", "yes"] * 6)
#: Refused data differ from training data in shape, level and labels.
OTHER_X = 100 + RNG.normal(size=(9, 3, 30))
OTHER_Y = np.array(["x", "y", "z"] * 3)
INFINITE = np.where(OTHER_X > 101, np.inf, OTHER_X)

TINY = {"max_epochs": 1, "stem": "linear"}
SMALL = NETWORK | TINY
OPTIONS = {
    "convolutions": {},
    "ensemble": {"transformer": TINY, "convolution": {"scaling": "series"}},
}
ESTIMATORS = {name: make(**OPTIONS.get(name, TINY)) for name, make in FIVE.items()}


class Stops(Callback):
    def on_train_begin(self, state):
        raise ImportError("callbacks need rich")


def targets(name: str, labels: np.ndarray) -> np.ndarray:
    """Return labels, or for a regressor their numbers."""
    numbers = np.unique(labels, return_inverse=True)[1]
    return 1000.0 + numbers if name == "regressor" else labels


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {
        name: copy.deepcopy(estimator)
        .set_params(random_state=np.random.RandomState(0))
        .fit(X, targets(name, Y))
        for name, estimator in ESTIMATORS.items()
    }


def state(estimator: Any) -> tuple[dict[str, int], bytes]:
    """Return which objects an estimator holds, and a digest of all that is in them."""
    held = {name: id(value) for name, value in vars(estimator).items()}
    return held, hashlib.sha256(pickle.dumps(estimator)).digest()


def refuse(estimator: Any, *args: Any, **kwargs: Any) -> str:
    before = state(estimator)
    with pytest.raises((ValueError, TypeError, ImportError, OSError)) as raised:
        estimator.fit(*args, **kwargs)
    assert state(estimator) == before, raised.value
    return str(raised.value)


#: Values that are refused although others of their type are not.
NONSENSE: dict[str, list[Any]] = {
    **{"encoding": ["lpse"], "encoding_params": [{"nonsense": 1}, {"d_hiden": 3}]},
    **{"stem": ["embedding", "convolution"], "pooling": ["men"], "head_norm": ["bach"]},
    "stem_params": [{"nonsense": 1}, {"kernel_size": 4}, "kernel"],
    **{"d_model": [0, 16.0, True, "16"], "n_heads": [3, 0], "n_layers": [-1, True], "d_ff": [0]},
    **{"dropout": [1.0, -0.1], "norm_first": ["yes"], "scaling": ["chanel"]},
    **{"views": ["value"], "view_params": [{"scal": 1}, 0.5], "timestamps": ["indx"]},
    **{"augmentation": ["wrap"], "augmentation_params": [{"nonsense": 1}, [1]]},
    **{"init_from": ["nowhere", TSTransformerClassifier()], "freeze": ["backbon", "backbone"]},
    **{"pretrained_lr_scale": [0], "objective": ["maskd"], "objective_params": [{"ratio": 2}]},
    **{"max_epochs": ["aut", 0], "batch_size": [0], "learning_rate": [0, float("nan"), None]},
    **{"weight_decay": [-1, float("inf")], "label_smoothing": [1], "temperature": [0, "warm"]},
    **{"early_stopping": ["always"], "validation_fraction": [1.0], "n_iter_no_change": [0]},
    **{"n_estimators": [0, 2.0], "n_jobs": [0], "n_threads": ["all", 0], "warm_start": [None]},
    **{"device": ["gpu"], "precision": ["bf16"], "compile": [3, "cuda-graphs"]},
    "class_weight": [{"nonsense": 1.0}, dict.fromkeys("xyz", 0.0), "balance", [1, 2], np.ones(2)],
    "callbacks": [[print], [Callback], [object()], [Stops()]],
    **{"checkpoint_dir": ["/dev/null", "/proc/state"], "checkpoint_minutes": [-1]},
    **{"resume": [True, "yes"], "random_state": ["zero"], "verbose": [-1]},
    **{"n_features": [100, 1e4], "n_groups": [3], "quality": ["god"]},
    **{"gate": [-0.1, 1.0, "0.1"], "time_limit": [0, "1 h"]},
    "transformer_params": [
        *({"nonsense": 1}, {**SMALL, "n_heads": 3}, {"dropout": 2.0}, {"encoding": "lpse"}),
        *({"stem": "embedding"}, {"n_estimators": 3}, {"warm_start": True}, {"device": "cpu"}),
        *({**SMALL, "checkpoint_dir": "/dev/null"}, {**SMALL, "callbacks": [Stops()]}),
    ],
    "convolution_params": [{"nonsense": 1}, {"n_groups": 3}, 168],
}
#: Parameters whose errors come from a library, or name what cannot be written or read.
UNNAMED = {"random_state", "callbacks", "checkpoint_dir", "init_from"}


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        (name, parameter)
        for name, estimator in ESTIMATORS.items()
        for parameter in estimator.get_params(deep=False)
    ],
)
def test_of_parameters(name, parameter, fitted):
    """Every parameter, set to something of no type that it may have, and to near misses."""
    checked = name in ("regressor", "encoder") and hasattr(ESTIMATORS["classifier"], parameter)
    for value in (object(), *(() if checked else NONSENSE[parameter])):
        clf = copy.deepcopy(fitted[name]).set_params(**{parameter: value})
        message = refuse(clf, OTHER_X, targets(name, OTHER_Y))
        options = value if isinstance(value, dict) else {}
        words = {parameter, parameter.removesuffix("_params").removesuffix("s"), *options}
        words |= {option for option in options.values() if isinstance(option, str)}
        assert parameter in UNNAMED or any(word in message for word in words), message


#: Other arguments of `fit`.
DATA: dict[str, tuple[Any, ...]] = {
    "no y": (OTHER_X, None),
    "y of two columns": (OTHER_X, np.stack([OTHER_Y, OTHER_Y], axis=1)),
    "text": ("BasicMotions", OTHER_Y),
    "no series": (OTHER_X[:0], OTHER_Y[:0]),
    "infinite": (INFINITE, OTHER_Y),
    "a series without values": (np.where(np.arange(9)[:, None, None] == 1, np.nan, OTHER_X), Y[:9]),
    "masked weights": (
        OTHER_X,
        OTHER_Y,
        {"sample_weight": np.ma.array(np.ones(9), mask=Y[:9] == "no")},
    ),
    "zero weights": (OTHER_X, OTHER_Y, {"sample_weight": np.zeros(9)}),
    "times that go back": (OTHER_X, OTHER_Y, {"times": -np.arange(30)}),
}
VALIDATION: dict[str, dict[str, Any]] = {
    "without y_val": {"X_val": OTHER_X},
    "without X_val": {"y_val": OTHER_Y},
    "times of nothing": {"times_val": np.arange(30)},
    "other channels": {"X_val": X, "y_val": OTHER_Y},
    "unknown labels": {"X_val": OTHER_X, "y_val": ["new"] * 9},
    "with times": {"X_val": OTHER_X, "y_val": OTHER_Y, "times_val": np.arange(30)},
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("case", DATA)
def test_of_data(name, case, fitted):
    series, y, *more = DATA[case]
    if name == "encoder" and y is not OTHER_Y and case != "a series without values":
        pytest.skip("an encoder reads no targets")
    y = targets(name, y) if y is OTHER_Y else y
    refuse(copy.deepcopy(fitted[name]), series, y, **(more[0] if more else {}))


@pytest.mark.parametrize("name", ["classifier", "regressor"])
@pytest.mark.parametrize("case", VALIDATION)
def test_of_validation_data(name, case, fitted):
    validation = dict(VALIDATION[case])
    if name == "regressor" and "y_val" in validation:
        known = validation["y_val"] is OTHER_Y
        validation["y_val"] = targets(name, OTHER_Y) if known else np.full(9, np.nan)
    refuse(copy.deepcopy(fitted[name]), OTHER_X, targets(name, OTHER_Y), **validation)


def test_refused_by_damaged_checkpoint(fitted, tmp_path: Path):
    clf = copy.deepcopy(fitted["classifier"])
    clf.set_params(random_state=5, checkpoint_dir=tmp_path, resume=True)
    copy.deepcopy(clf).fit(OTHER_X, OTHER_Y)
    (checkpoint,) = tmp_path.glob("training-*.pt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    assert "cannot be read" in refuse(clf, OTHER_X, OTHER_Y)


def test_an_interrupted_fit_of_convolutions_leaves_the_fit_before(fitted, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    for name in ("convolutions", "ensemble"):
        clf = copy.deepcopy(fitted[name])
        before = state(clf)
        monkeypatch.setattr(random_convolution, "fitted_convolutions", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(OTHER_X, OTHER_Y)
        monkeypatch.undo()
        assert state(clf) == before
