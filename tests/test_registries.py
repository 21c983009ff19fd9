"""Encodings, augmentations and objectives by name."""

from types import ModuleType, new_class
from typing import Any

import pytest

from tsformer import augmentation, encodings, objectives

KINDS = {
    encodings: encodings.PositionalEncoding,
    augmentation: augmentation.Augmentation,
    objectives: objectives.Objective,
}
#: An order that tables and studies rely on.
NAMES = {
    encodings: [
        *("fixed", "learnable", "lspe", "tape", "fourier", "time2vec", "cape", "none", "conv"),
        *("alibi", "kerple", "gaussian", "fire", "shaw", "t5", "erpe"),
        *("rope", "xpos", "sine_spe", "conv_spe", "tupe", "wavelet"),
        *("cope", "dape", "fope", "learnable_rope", "pope"),
    ],
    augmentation: ["warp", "slice", "cutmix", "jitter"],
    objectives: ["masked", "contrastive"],
}
every_kind = pytest.mark.parametrize("room", KINDS, ids=lambda room: room.__name__)


def define(room: ModuleType, name: str | None, **keywords: Any) -> type:
    """Return a class of one's own."""
    body = {"__doc__": "Do nothing.\n\nMore text.", "reference": "nobody"}
    return new_class("Own", (KINDS[room],), {"name": name, **keywords}, lambda ns: ns.update(body))


@every_kind
def test_a_taken_name_is_refused_unless_replaced(room):
    first = define(room, "own")
    with pytest.raises(ValueError, match="taken"):
        define(room, "own")
    assert room.find("own") is first
    second = define(room, "own", replace=True)
    assert room.find("own") is second is room.unregister("own")
    with pytest.raises(ValueError, match="unknown"):
        room.find("own")


@every_kind
@pytest.mark.parametrize("name", ["", "a+b", " own", "own "])
def test_bad_names_are_refused(room, name):
    with pytest.raises(ValueError, match="named"):
        define(room, name)
    assert room.names() == NAMES[room]


@every_kind
def test_a_subclass_without_a_name_is_not_registered(room):
    assert define(room, None).name == ""
    parent = define(room, "own")
    child = type("Child", (parent,), {})
    assert child.name == "", "it would pass for its parent wherever names are written"
    assert room.names() == [*NAMES[room], "own"]


@every_kind
def test_every_class_is_importable_from_the_package(room):
    for name in room.names():
        cls = room.find(name)
        assert getattr(room, cls.__name__) is cls
        assert cls.__name__ in room.__all__
