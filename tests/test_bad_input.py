"""Whatever comes in: finite probabilities that sum to one, or an error that says why."""

import copy
import pickle
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marks import exhaustive_except

from tsformer import TSTransformerClassifier
from tsformer.training import NonFiniteLossError

#: Numbers as they come: of all sizes, missing, infinite.
NUMBERS = st.one_of(
    st.floats(-5, 5),
    st.floats(-5, 5),
    st.sampled_from([np.nan, 0.0, -0.0, 1e-300, 1e6, 1e30, 1e200, 1.7e308, np.inf, -np.inf]),
)
DTYPES = ["f8", "f4", "f2", "i8", "i1", "u1", "?", ">f8", "c16", "O", "U4", "M8[s]"]


@st.composite
def series(draw: Any, n: int, n_channels: int, wild: bool) -> list[np.ndarray]:
    """Return series of equal or unequal lengths, tame or with anything in them."""
    equal, longest = draw(st.booleans()), draw(st.integers(1, 12))
    lengths = [longest if equal else draw(st.integers(1, longest)) for _ in range(n)]
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    X = [rng.normal(size=(n_channels, length)) for length in lengths]
    share = draw(st.sampled_from([0.0, 0.0, 0.1, 0.6, 1.0]))
    for x in X:
        x[rng.random(x.shape) < share] = np.nan
    for _ in range(draw(st.integers(0, 4)) if wild else 0):
        x = X[draw(st.integers(0, n - 1))]
        channel, step = draw(st.integers(0, n_channels - 1)), draw(st.integers(0, x.shape[1] - 1))
        x[channel, step] = draw(NUMBERS)
    return X


def as_array(X: list[np.ndarray]) -> np.ndarray:
    longest = max(x.shape[1] for x in X)
    pads = [[(0, 0), (0, longest - x.shape[1])] for x in X]
    return np.stack([np.pad(x, p, constant_values=np.nan) for x, p in zip(X, pads, strict=True)])


CONTAINERS = {
    "array": as_array,
    "2-d": lambda X: as_array(X)[:, 0],
    "list": list,
    "lists": lambda X: [x.tolist() for x in X],
    "frames": lambda X: [pd.DataFrame(x.T) for x in X],
    "two levels": lambda X: pd.concat([pd.DataFrame(x.T) for x in X], keys=range(len(X))),
    "cells": lambda X: pd.DataFrame([[pd.Series(channel) for channel in x] for x in X]),
    "tensor": lambda X: torch.from_numpy(as_array(X)),
    "masked": lambda X: np.ma.masked_invalid(as_array(X)),
    "flat frame": lambda X: pd.DataFrame(as_array(X)[:, 0]),
}


def spoilt(draw: Any, X: Any) -> Any:
    """Make something of `X` that may be no container of series at all."""
    array = as_array(X)
    if draw(st.booleans()):
        with np.errstate(invalid="ignore", over="ignore"):
            return np.nan_to_num(array, posinf=9, neginf=-9).astype(draw(st.sampled_from(DTYPES)))
    unusual = [[], np.zeros((0, 1, 3)), array[:, :0], array[..., :0], array[0, 0], array[None]]
    unusual += [np.array(3.0), "text", 7, {}, [*X[:-1], np.concatenate([X[-1], X[-1]])]]
    return draw(st.sampled_from([*unusual, [object()], [None] * len(X), None, list("ab")]))


PARAMETERS = {
    "encoding": ["lspe", "none", "rope", "tape+erpe", "learnable", "shaw", "nonsense", None],
    "stem": ["conv", "linear", "patch", "embedding", "liner"],
    "pooling": ["mean", "attention", "max", 3],
    "scaling": ["auto", "channel", "series", None, "serie"],
    "timestamps": [None, None, "index", "idx"],
    "n_layers": [0, 1, -1],
    "d_model": [8, 6, 7, "8"],
    "batch_size": [1, 4, 0],
    "class_weight": [None, "balanced", {0: 1.0, 1: 5.0}, {9: 1.0}],
    "early_stopping": ["auto", True, False],
    "norm_first": [True, False, "no"],
    "label_smoothing": [0.1, 0, 1.5],
}
FIRST = {name: values[0] for name, values in PARAMETERS.items()}


def check(draw: Any) -> str:
    """Fit and predict on what is drawn; return "answered", "refused by fit" or "... by predict"."""
    n, n_channels = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    # What is tame and is asked for series of its own kind is mostly answered: without a share of
    # those, how many are depends on what else hypothesis finds in the modules that are loaded.
    tame = draw(st.booleans())
    most = 0 if tame else 3
    chosen = draw(st.lists(st.sampled_from(sorted(PARAMETERS)), max_size=most, unique=True))
    parameters = FIRST | {name: draw(st.sampled_from(PARAMETERS[name])) for name in chosen}
    X = draw(series(n, n_channels, wild=not tame and draw(st.booleans())))
    container = CONTAINERS[draw(st.sampled_from(sorted(CONTAINERS)))](X)
    if not tame and draw(st.integers(0, 5)) == 0:
        container = spoilt(draw, X)
    y = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    steps, arguments = max(x.shape[1] for x in X), {}
    if draw(st.integers(0, 5)) == 0:
        times = [np.arange(steps), [np.arange(x.shape[1]) * 2.5 for x in X], "now", []]
        times += [pd.date_range("2024", periods=steps), np.arange(steps)[::-1]]
        arguments["times"] = draw(st.sampled_from(times))
    channels = n_channels if tame else draw(st.sampled_from([n_channels, 2]))
    later = draw(series(draw(st.integers(1, 4)), channels, wild=not tame))
    later_X = CONTAINERS[draw(st.sampled_from(sorted(CONTAINERS)))](later)
    before = [copy.deepcopy(argument) for argument in (container, later_X, y, arguments)]
    clf = TSTransformerClassifier(
        **parameters, n_heads=1, max_epochs=1, random_state=0, d_ff=8, device="cpu"
    )
    outcome = "answered"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        try:
            clf.fit(container, y, **arguments)
        except (ValueError, TypeError, FileNotFoundError, NonFiniteLossError) as error:
            assert_meant(error)
            outcome = "refused by fit"
        else:
            for given_X, times in ((container, arguments), (later_X, {})):
                try:
                    proba = clf.predict_proba(given_X, **times)
                except (ValueError, TypeError) as error:
                    assert_meant(error)
                    outcome = "refused by predict"
                    continue
                assert np.isfinite(proba).all()
                np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
                assert set(clf.predict(given_X, **times)) <= set(y)
    for was, now in zip(before, (container, later_X, y, arguments), strict=True):
        assert pickle.dumps(was) == pickle.dumps(now) or repr(was) == repr(now)
    return outcome


def assert_meant(error: Exception) -> None:
    """It is raised by this package or by scikit-learn, not by NumPy, pandas or torch."""
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    by = Path(raised_in).parts
    assert "tsformer" in by or "sklearn" in by, f"{raised_in} raised {error!r}"
    assert len(str(error)) > 20, f"{error!r} does not say what is wrong"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("n_examples", exhaustive_except([100, 2000], [100]))
def test_works_or_says_why(n_examples: int) -> None:
    outcomes: Counter[str] = Counter()
    options = {"deadline": None, "suppress_health_check": list(HealthCheck)}

    @settings(max_examples=n_examples, derandomize=True, **options)
    @given(st.data())
    def run(data: Any) -> None:
        outcomes[check(data.draw)] += 1

    run()
    # If everything were refused, or nothing, this would show little.
    for outcome in ("answered", "refused by predict", "refused by fit"):
        assert outcomes[outcome] > n_examples / 10, outcomes
