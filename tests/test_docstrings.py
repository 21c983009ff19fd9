"""Docstrings are true: their examples run, and the defaults they state are the signature's."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import re
import warnings
from importlib import import_module

import pytest
from marks import slow_except

import tsformer
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier
from tsformer.estimators import base
from tsformer.training.memory import MANY_SERIES, batch_for

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(tsformer.__path__, "tsformer.")
    if not name.startswith("tsformer.cli") and name != "tsformer.__main__"
]


@pytest.mark.parametrize("name", slow_except(MODULES, set(MODULES) - {"tsformer.export"}))
def test_examples_run(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        failed, _ = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("estimator", [TSTransformerClassifier, RandomConvolutionClassifier])
def test_every_parameter_is_documented_with_its_default(estimator: type) -> None:
    text = inspect.getdoc(estimator) or ""  # Python 3.13 has docstrings without their indent
    documented: dict[str, str] = {}
    section = text.partition("Parameters\n")[2].partition("Attributes\n")[0]
    for names, rest in re.findall(r"^(\w+(?:, \w+)*) : (.*)$", section, flags=re.M):
        default = rest.partition("default=")[2]
        values = default.split(", ") if default else []
        for i, name in enumerate(names.split(", ")):
            documented[name] = values[i] if values else "None"
    signature = inspect.signature(estimator).parameters
    assert list(documented) == list(signature)
    for name, parameter in signature.items():
        assert documented[name].strip('"') == str(parameter.default), name


def test_the_budget_is_stated_as_it_is() -> None:
    text = " ".join((TSTransformerClassifier.__doc__ or "").split())
    fewest, most = base.AUTO_STEPS
    assert f'"auto" is {base.AUTO_EPOCHS} epochs, but at least {fewest} and at most {most} ' in text
    assert f"and at least {base.AUTO_MIN_EPOCHS} epochs." in text
    most, least = base.AUTO_EPOCHS_OF_MANY, base.AUTO_MIN_EPOCHS_OF_MANY
    assert f"From {MANY_SERIES} series on it is {most} epochs, but" in text
    assert f"at most as many as make {base.AUTO_SERIES} series, and at least {least}." in text
    assert f'"auto" is {batch_for(1)}, and {batch_for(1, MANY_SERIES)} from {MANY_SERIES} ' in text
    assert f"from {base.AUTO_EARLY_STOPPING_CASES} series on" in text
