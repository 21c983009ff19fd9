"""The registry of augmentations: names, their order, and the table of what there is."""

from __future__ import annotations

import pytest
import torch
from batches import define

from tsformer import augmentation
from tsformer.augmentation import Batch, available, find, names, resolve, unregister


def test_a_class_of_ones_own_works_by_name():
    define("stretch")
    assert names()[-1] == "stretch"
    doubled = resolve("stretch", factor=3)(Batch(torch.ones(2, 4, 1)))
    assert (doubled.values == 3).all()


def test_table_of_what_there_is():
    define("stretch")
    rows = available()
    assert [row["name"] for row in rows] == names()
    assert rows[-1] == {
        "name": "stretch",
        "mixes": False,
        "symbolic": True,
        "reference": "nobody",
        "summary": "Multiply by a number.",
    }
    for row in rows:
        assert row["summary"].endswith("."), f"the first line of {row['name']} is not a sentence"
        assert row["reference"]


def test_a_taken_name_is_refused_unless_replaced():
    first = define("stretch")
    with pytest.raises(ValueError, match=r"'stretch' is taken by .*Stretch; .*replace=True"):
        define("stretch")
    assert type(resolve("stretch")) is first
    second = define("stretch", replace=True)
    assert type(resolve("stretch")) is second


@pytest.mark.parametrize("name", ["", "a+b", " stretch", "stretch "])
def test_bad_names_are_refused(name):
    with pytest.raises(ValueError, match="an augmentation cannot be named"):
        define(name)
    assert name not in names()


def test_a_subclass_without_a_name_is_not_registered():
    before = names()
    nameless = define(None)
    assert names() == before
    assert nameless.name == ""
    assert nameless().label.endswith("Stretch")
    parent = define("stretch")
    child = type("Child", (parent,), {})
    assert child.name == "", "it would pass for its parent wherever names are written"
    assert type(resolve(child)) is child


def test_a_name_can_be_unregistered_and_taken_again():
    first = define("stretch")
    assert unregister("stretch") is first
    assert "stretch" not in names()
    with pytest.raises(ValueError, match="unknown augmentation 'stretch'"):
        resolve("stretch")
    second = define("stretch")
    assert type(resolve("stretch")) is second


def test_unregistering_an_unknown_name_gives_the_nearest():
    before = names()
    with pytest.raises(ValueError, match="unknown augmentation 'wrap': did you mean 'warp'"):
        unregister("wrap")
    assert names() == before


@pytest.mark.parametrize("name", names())
def test_every_class_is_importable_from_the_package_and_filed_by_name(name):
    cls = find(name)
    assert getattr(augmentation, cls.__name__) is cls
    assert cls.__name__ in augmentation.__all__
    assert cls.__module__ == f"tsformer.augmentation.{name}"


def test_the_order_of_the_names_is_that_of_tables():
    assert names() == ["warp", "slice", "cutmix", "jitter"]


def test_an_augmentation_without_a_call_says_so():
    class Nothing(augmentation.Augmentation):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must override __call__"):
        Nothing()(Batch(torch.ones(1, 1, 1)))
