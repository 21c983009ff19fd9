"""Encodings, augmentations and objectives by name."""

from math import inf
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
    with pytest.raises(ValueError):
        define(room, "own")
    assert room.find("own") is first
    second = define(room, "own", replace=True)
    assert room.find("own") is second is room.unregister("own")
    with pytest.raises(ValueError):
        room.find("own")


@every_kind
@pytest.mark.parametrize("name", ["", "a+b", " own", "own "])
def test_bad_names_are_refused(room, name):
    with pytest.raises(ValueError):
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


#: Options out of their range, by name.
WRONG: dict[ModuleType, dict[str, dict[str, list[Any]]]] = {
    encodings: {
        "fourier": {"gamma": [0.0]},
        "cape": {"max_shift": [-1.0], "max_jitter": [-1.0], "max_scale": [0.5]},
        "conv": {"kernel_size": [4]},
        "rope": {"fraction": [1.5]},
        "xpos": {"fraction": [-1], "gamma": [0.0], "scale_base": [-5.0]},
        "kerple": {"variant": ["pow"]},
        "shaw": {"max_distance": [0]},
        "t5": {"max_distance": [0], "n_buckets": [7, 2]},
        "sine_spe": {"n_sines": [0]},
        "conv_spe": {"kernel_size": [0], "n_realizations": [0]},
        "wavelet": {"wavelet": ["db3"], "n_levels": [0]},
        "lspe": {"init_std": [0.0], "apply_to": ["sums"]},
    },
    augmentation: {
        "warp": {"p": [1.1], "sigma": [5.1], "knots": [1]},
        "slice": {"min_share": [-0.1]},
        "cutmix": {"max_share": [None]},
        "jitter": {"sigma": [inf]},
    },
    objectives: {
        "contrastive": {"temperature": [0], "min_share": [1.0], "width": [2.5], "sigma": [-1.0]},
        "masked": {"ratio": [0.0, 0.9], "span": [0.5]},
    },
}


@pytest.mark.parametrize(
    ("room", "name", "option", "value"),
    [
        (room, name, option, value)
        for room in WRONG
        for name, options in WRONG[room].items()
        for option in options
        for value in options[option]
    ],
)
def test_option_out_of_range_is_named(room, name, option, value):
    sizes = {"d_model": 8, "n_heads": 2, "max_len": 12} if room is encodings else {}
    with pytest.raises((TypeError, ValueError), match=option):
        room.resolve(name, **sizes, **{option: value})
