"""The registry: names, their order, and the table of what there is."""

from __future__ import annotations

import numpy as np
import pytest
from user_encodings import define

from tsformer import TSTransformerClassifier, encodings
from tsformer.encodings import available, names, resolve, unregister
from tsformer.encodings.registry import find

SIZES = {"d_model": 8, "n_heads": 2, "max_len": 6}


def test_a_class_of_ones_own_works_by_name():
    define("ramp")
    assert names()[-1] == "ramp"
    X = np.random.default_rng(0).normal(size=(8, 1, 12))
    classifier = TSTransformerClassifier("ramp", encoding_params={"size": 3}, max_epochs=1)
    classifier.fit(X, np.arange(8) % 2)
    assert classifier.predict(X).shape == (8,)
    assert "encoding.parts.0.0.size" in classifier.model_.state_dict()


def test_table_of_what_there_is():
    define("ramp")
    rows = available()
    assert [row["name"] for row in rows] == names()
    assert rows[-1] == {
        "name": "ramp",
        "kind": "embed",
        "extrapolation": "extends",
        "symmetric": False,
        "per_block": False,
        "reference": "nobody",
        "summary": "Add a straight line.",
    }
    for row in rows:
        assert row["summary"].endswith("."), f"the first line of {row['name']} is not a sentence"
        assert row["reference"]
        assert row["extrapolation"] in ("extends", "clamps", "interpolates")
    assert {row["kind"] for row in rows} == {"embed", "rotate", "bias", "mix", "none"}


def test_a_taken_name_is_refused_unless_replaced():
    first = define("ramp")
    with pytest.raises(ValueError, match=r"'ramp' is taken by .*Ramp; .*replace=True"):
        define("ramp")
    assert type(resolve("ramp", **SIZES)) is first
    second = define("ramp", replace=True)
    assert type(resolve("ramp", **SIZES)) is second


@pytest.mark.parametrize("name", ["", "a+b", " ramp", "ramp "])
def test_bad_names_are_refused(name):
    with pytest.raises(ValueError, match="an encoding cannot be named"):
        define(name)
    assert name not in names()


def test_a_subclass_without_a_name_is_not_registered():
    before = names()
    nameless = define(None)
    assert names() == before
    assert nameless.name == ""
    parent = define("ramp")
    child = type("Child", (parent,), {})
    assert child.name == "", "it would pass for its parent wherever names are written"
    assert type(resolve(child, **SIZES)) is child


def test_the_order_of_the_names_is_that_of_tables_and_studies():
    assert names() == [
        *("fixed", "learnable", "lspe", "tape", "fourier", "time2vec", "cape", "none", "conv"),
        *("alibi", "kerple", "gaussian", "fire", "shaw", "t5", "erpe"),
        *("rope", "xpos", "sine_spe", "conv_spe", "tupe", "wavelet"),
    ]


def test_a_name_can_be_unregistered_and_taken_again():
    first = define("ramp")
    assert unregister("ramp") is first
    assert "ramp" not in names()
    with pytest.raises(ValueError, match="unknown encoding 'ramp'"):
        resolve("ramp", **SIZES)
    second = define("ramp")
    assert type(resolve("ramp", **SIZES)) is second


def test_unregistering_an_unknown_name_gives_the_nearest():
    before = names()
    with pytest.raises(ValueError, match="unknown encoding 'lpse': did you mean 'lspe'"):
        unregister("lpse")
    assert names() == before


@pytest.mark.parametrize("name", names())
def test_every_class_is_importable_from_the_package_and_filed_by_hook_and_name(name):
    cls = find(name)
    assert getattr(encodings, cls.__name__) is cls
    assert cls.__name__ in encodings.__all__
    room = "" if cls.kind == "none" else f"{cls.kind}."
    file = {"sine_spe": "spe", "conv_spe": "spe"}.get(name, name)
    assert cls.__module__ == f"tsformer.encodings.{room}{file}"
