"""Numbers that users pass: the range, and the error for anything else."""

from decimal import Decimal
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from tsformer._checks import Positive, check_number, read_fields, unknown


@pytest.mark.parametrize(
    ("value", "bounds", "options"),
    [
        (1.5, (0, 1.5), {}),
        (np.float32(0.5), (0, 1), {"excluded": True}),
        (np.int64(3), (3, 3), {"whole": True}),
        (1e300, (0,), {"excluded": True}),
        (0.0, (0, 1), {"excluded": True, "also": (0,)}),
        ("auto", (1,), {"whole": True, "also": ("auto",)}),
        (inf, (0,), {"excluded": True, "also": (0, inf)}),
    ],
)
def test_what_is_in_range_passes(value, bounds, options):
    check_number("p", value, *bounds, **options)


@pytest.mark.parametrize(
    ("value", "bounds", "options", "error"),
    [
        (-1, (0,), {}, ValueError),
        (inf, (0,), {}, ValueError),
        (nan, (0, 1), {}, ValueError),
        (1, (0, 1), {"excluded": True}, ValueError),
        (True, (0,), {}, TypeError),
        (np.ones(3), (0,), {"also": ("auto",)}, TypeError),
        (Decimal(1), (0,), {}, TypeError),
        (2.0, (1,), {"whole": True}, TypeError),
        (2**32, (0, 2**32 - 1), {"whole": True}, ValueError),
    ],
)
def test_anything_else_is_rejected(value, bounds, options, error):
    with pytest.raises(error, match=r"p must be an? .*; got "):
        check_number("p", value, *bounds, **options)


def test_the_choices_after_an_unknown_name():
    near = "unknown stem 'cnv': did you mean 'conv'? Choose from: 'conv', None"
    assert unknown("stem", "cnv", ["conv", None]) == near
    assert unknown("stem", "x", ["conv", None]) == "unknown stem 'x'; choose from: 'conv', None"
    assert unknown("column", "x", []) == "unknown column 'x'; choose from: there are none"


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (int, [0, -1, 2**31 - 1], [True, 1.0, 2**31, "1", None]),
        (float, [0.5, 3, 2**53], [True, 10**30, "1", None]),
        (bool | None, [True, None], [0, "no"]),
        (Positive | list[Positive], [1.0, [1, 2.5]], [0.0, nan, [1.0, -1.0], ["1"], True]),
        (dict[str, list[int]], [{}, {"a": [1]}], [[], {"a": 1}, {"a": [0.5]}]),
        (tuple[str, ...], [["a", "b"], []], [[1], "ab", {}]),
        (dict[str, Any], [{"a": object()}], [[], None]),
    ],
    ids=["int", "float", "optional", "union", "lists", "sequence", "mapping"],
)
def test_fields_have_their_annotated_types(kind, right, wrong):
    for value in right:
        assert read_fields({"x": value, "y": 1}, x=kind) == {"x": value}
    for value in wrong:
        with pytest.raises((TypeError, ValueError), match=r"part\.x must be"):
            read_fields({"x": value}, "part", x=kind)


def test_a_part_has_its_fields_and_no_others():
    for described in ({}, {"x": 1, "y": 2}, [], None):
        with pytest.raises(ValueError, match=r"part.x is missing|'y'|part must be an object"):
            read_fields(described, "part", x=int)
