"""Objectives by name, class, instance and factory."""

from __future__ import annotations

import inspect
import re

import pytest

from tsformer.objectives import Contrastive, Masked, find, names, resolve


@pytest.mark.parametrize("name", names())
def test_the_docstring_has_the_formula_and_the_paper(name):
    text = inspect.getdoc(find(name)) or ""
    assert ".. math:: " in text
    (paper,) = re.findall(r"References\n-+\n(.+?)\n\n", text, flags=re.DOTALL)
    who, year = re.fullmatch(r"(.+) (\d{4})", find(name).reference).groups()
    assert paper.startswith(who)
    assert f" {year}. https://arxiv.org/" in paper.replace("\n", " ")


def test_what_a_user_may_write():
    assert resolve("masked", ratio=0.3) == Masked(ratio=0.3)
    assert resolve(Contrastive, sigma=0.0) == Contrastive(sigma=0.0)
    assert resolve(lambda: Masked(span=5.0)).span == 5.0
    given = Masked()
    assert resolve(given) is given


@pytest.mark.parametrize(
    ("objective", "params", "error", "message"),
    [
        ("mask", {}, ValueError, "unknown objective 'mask': did you mean 'masked'"),
        ("masked", {"ratoi": 1}, ValueError, "option of masked 'ratoi': did you mean 'ratio'"),
        (Masked(), {"ratio": 0.3}, TypeError, "is an instance already"),
        (3, {}, TypeError, "objective must be a name"),
        (dict, {}, TypeError, "returned dict; it must return an Objective"),
    ],
)
def test_what_is_none_is_refused(objective, params, error, message):
    with pytest.raises(error, match=message):
        resolve(objective, **params)
