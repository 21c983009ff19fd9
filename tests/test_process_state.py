"""What belongs to the process is the same before and after each call of the public interface."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from process_settings import settings
from small_estimators import FIVE, X, Y, classifier, convolutions

from tsformer import EarlyClassifier, load, load_dataset
from tsformer.export import to_onnx, to_torch_export
from tsformer.inspection import permutation_importance


@cache
def fitted(name: str) -> Any:
    return FIVE[name]().fit(X, Y)


def refused(error: type[Exception], call: Callable[..., Any], *args: Any) -> None:
    with pytest.raises(error):
        call(*args)


CALLS: dict[str, Callable[[Path], Any]] = {
    **{f"fit {name}": lambda folder, make=make: make().fit(X, Y) for name, make in FIVE.items()},
    **{
        f"predict {name}": lambda folder, name=name: fitted(name).predict(X)
        for name in FIVE
        if hasattr(FIVE[name](), "predict")
    },
    "fit early": lambda folder: (
        EarlyClassifier(convolutions(), points=3, cv=2).fit(X, Y).predict(X)
    ),
    "fit with a generator": lambda folder: classifier(
        random_state=np.random.RandomState(0), early_stopping=True
    ).fit(X, Y),
    "refuse": lambda folder: refused(ValueError, classifier(d_model=7).fit, X, Y),
    "calibrate": lambda folder: fitted("classifier").calibrate(X, Y).calibrate_sets(X, Y),
    "novelty": lambda folder: fitted("convolutions").novelty_score(X),
    "explain": lambda folder: fitted("classifier").explain(X[:2], "occlusion"),
    "attention": lambda folder: fitted("classifier").attention(X[:2]),
    "importance": lambda folder: permutation_importance(
        fitted("classifier"), X, Y, n_repeats=1, random_state=0
    ),
    "save and load": lambda folder: (
        fitted("ensemble").save(folder / "model"),
        load(folder / "model").predict(X),
    ),
    "load nothing": lambda folder: refused(FileNotFoundError, load, folder),
    "summary": lambda folder: fitted("classifier").summary(),
    "load_dataset": lambda folder: load_dataset("ItalyPowerDemand", split="test"),
}
SLOW = {
    "to_onnx": lambda folder: to_onnx(small(), folder / "model.onnx"),
    "to_torch_export": lambda folder: to_torch_export(small()),
    "refuse to_onnx": lambda folder: refused(TypeError, to_onnx, 3, folder / "x.onnx"),
}


def small() -> Any:
    return classifier("none", stem="linear").fit(X, Y)


@pytest.mark.parametrize(
    "call", [*CALLS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
@pytest.mark.filterwarnings("ignore:no optimal")
def test_a_call_leaves_the_process_as_it_was(call: str, tmp_path: Path) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    run = (CALLS | SLOW)[call]
    if call in CALLS:
        run(tmp_path)  # libraries that are imported now may set up what is theirs
        random.seed(1)
    before = settings()
    run(tmp_path)
    after = settings()
    assert {name for name in before if before[name] != after[name]} == set()
