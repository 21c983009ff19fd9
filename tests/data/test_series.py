"""Series of any container."""

from __future__ import annotations

import pickle

from tsformer.data.series import SeriesError


def test_errors_of_a_series_come_back_from_other_processes():
    error = pickle.loads(pickle.dumps(SeriesError(3, "series {case} is empty")))
    assert (error.case, str(error)) == (3, "series 3 is empty")
