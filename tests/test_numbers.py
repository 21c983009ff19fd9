"""Options that are numbers: what is in range, and what an error says."""

from __future__ import annotations

from decimal import Decimal
from math import inf, nan

import numpy as np
import pytest

from tsformer._numbers import check_number


@pytest.mark.parametrize(
    ("value", "bounds", "options"),
    [
        (0, (0,), {}),
        (1.5, (0, 1.5), {}),
        (np.float32(0.5), (0, 1), {"excluded": True}),
        (np.int64(3), (3, 3), {"whole": True}),
        (1e300, (0,), {"excluded": True}),
    ],
)
def test_what_is_in_range_passes(value, bounds, options):
    check_number("p", value, *bounds, **options)


@pytest.mark.parametrize(
    ("value", "bounds", "options", "says"),
    [
        (-1, (0,), {}, "p must be a finite number, at least 0; got -1"),
        (inf, (0,), {}, "p must be a finite number, at least 0; got inf"),
        (inf, (0,), {"excluded": True}, "p must be a finite number above 0; got inf"),
        (nan, (0, 1), {}, "p must be a finite number, from 0 to 1; got nan"),
        (nan, (0,), {"excluded": True}, "p must be a finite number above 0; got nan"),
        (1, (0, 1), {"excluded": True}, "p must be a finite number between 0 and 1; got 1"),
        (0, (0, 1), {"excluded": True}, "p must be a finite number between 0 and 1; got 0"),
        (True, (0,), {}, "p must be a finite number, at least 0; got True"),
        ("1", (0,), {}, "p must be a finite number, at least 0; got '1'"),
        (Decimal(1), (0,), {}, r"got Decimal\('1'\)"),
        (2.0, (1,), {"whole": True}, "p must be a whole number, at least 1; got 2.0"),
        (5, (0, 4), {"whole": True}, "p must be a whole number, from 0 to 4; got 5"),
        (2**32, (0, 2**32 - 1), {"whole": True}, "from 0 to 4294967295; got 4294967296"),
    ],
)
def test_what_is_not_is_refused_in_words(value, bounds, options, says):
    with pytest.raises(ValueError, match=says):
        check_number("p", value, *bounds, **options)
