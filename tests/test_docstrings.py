"""Docstrings are true: their examples run, and the defaults they state are the signature's."""

import doctest
import inspect
import pkgutil
import re
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from marks import slow_except

import tsformer
from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
    TSTransformerRegressor,
    augmentation,
    encodings,
    objectives,
)

#: Modules with examples.
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(tsformer.__path__, "tsformer.")
    if ">>> " in Path(find_spec(name).origin).read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", slow_except(MODULES, set(MODULES) - {"tsformer.export"}))
def test_examples_run(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        failed, _ = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


ENCODINGS = [encodings.find(name) for name in encodings.names()]
BY_NAME = [*ENCODINGS, *map(augmentation.find, augmentation.names())]
BY_NAME += map(objectives.find, objectives.names())
IN_FULL = [TSTransformerClassifier, TSEnsembleClassifier, RandomConvolutionClassifier]
BY_REFERENCE = [TSTransformerRegressor, TSTransformerEncoder]


def documented(described: type) -> dict[str, str | None]:
    """Return the defaults that the section on parameters states, None where it states none."""
    text = inspect.getdoc(described) or ""  # Python 3.13 has docstrings without their indent
    section = re.split(r"^[A-Z]\w+\n-+$", text.partition("Parameters\n")[2], flags=re.M)[0]
    defaults: dict[str, str | None] = {}
    for names, rest in re.findall(r"^(\w+(?:, \w+)*) : (.*)$", section, flags=re.M):
        default = rest.partition("default=")[2]
        values = default.split(", ") if default else []
        for i, name in enumerate(names.split(", ")):
            defaults[name] = values[i] if values else None
    return defaults


@pytest.mark.parametrize("described", [*IN_FULL, *BY_REFERENCE, *BY_NAME])
def test_every_parameter_is_documented_with_its_default(described: type) -> None:
    """Or said to be that of the classifier."""
    stated, signature = documented(described), inspect.signature(described).parameters
    for name, text in stated.items():
        default = signature[name].default
        if text is None:  # "optional" is numpydoc's word for a default of None
            assert default in (None, inspect.Parameter.empty), name
        else:
            assert text.strip('"') == str(default), name
    if described not in BY_REFERENCE:
        assert list(stated) == list(signature)
        sizes = {"d_model": 16, "n_heads": 2, "max_len": 8}
        described(**{name: sizes[name] for name in sizes if described in ENCODINGS})
        return
    assert "**parameters\n    As in `TSTransformerClassifier`" in inspect.getdoc(described)
    assert signature.keys() - stated <= inspect.signature(TSTransformerClassifier).parameters.keys()
