"""Ids of series: those of X and of y agree, or neither answers for the other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer.data import from_long
from tsformer.data.layout import check_ids, series_ids

IDS = ["p3", "p1", "p2", "p0"]
VALUES = np.arange(12.0).reshape(4, 3)


def panel(ids=IDS):
    return pd.concat([pd.DataFrame({"v": row}) for row in VALUES], keys=ids)


def wide(ids=IDS):
    return pd.DataFrame(VALUES, index=ids)


def nested(ids=IDS):
    return pd.DataFrame({"v": [pd.Series(row) for row in VALUES]}, index=ids)


def long(ids=IDS):
    table = panel(ids).rename_axis(["case", "time"]).reset_index()
    return from_long(table, case="case", time="time", value="v")


def by_dimension(ids=IDS):
    library = pytest.importorskip("xarray")
    return library.DataArray(VALUES.T, dims=["time", "case"], coords={"case": list(ids)})


CONTAINERS = {
    "panel": panel,
    "wide": wide,
    "nested": nested,
    "from_long": long,
    "from_long in an array": lambda ids=IDS: np.fromiter(long(ids), dtype=object),
    "xarray": by_dimension,
    "arrays of xarray": lambda ids=IDS: by_dimension(ids).to_dataset(name="v"),
}


def y(ids):
    return pd.Series([0, 1, 0, 1], index=ids)


@pytest.fixture(params=CONTAINERS)
def container(request):
    return CONTAINERS[request.param]


@pytest.mark.parametrize("ids", [IDS, [7, 3, 5, 1], [1.0, 3.0, 2.0, 4.0], pd.CategoricalIndex(IDS)])
def test_the_same_ids_in_the_same_order_agree(container, ids):
    assert series_ids(container(ids)).tolist() == list(ids)
    check_ids(container(ids), y(ids), "y")
    check_ids(container(ids), y(ids).to_frame(), "y")


def test_the_same_ids_in_another_order_are_refused_with_the_way_to_sort_them(container):
    X, other = container(), y(IDS[::-1])
    with pytest.raises(ValueError, match=r"the same ids in another order: X has \['p3'") as caught:
        check_ids(X, other, "y")
    advised = str(caught.value).partition("pass ")[2].partition(", or if")[0]
    ordered = eval(advised, {"X": X, "y": other})
    assert ordered.index.tolist() == IDS
    check_ids(X, ordered, "y")


@pytest.mark.parametrize(
    ("ids", "others"),
    [
        (IDS, ["q3", "q1", "q2", "q0"]),
        ([10, 11, 12, 13], [20, 21, 22, 23]),
        ([10, 11, 12, 13], [13.0, 12.0, 11.0, 10.0]),
        ([0, 1, 2, 3], [1, 0, 3, 2]),
        (["p", "p", "q", "r"], ["p", "q", "q", "r"]),
    ],
)
def test_ids_that_contradict_each_other_are_refused(ids, others):
    with pytest.raises(ValueError, match=r"X and y have (different ids|the same ids in ano)"):
        check_ids(wide(ids), y(others), "y")
    with pytest.raises(ValueError, match="X_val and y_val have"):
        check_ids(wide(others), y(ids), "y_val", of="X_val")


@pytest.mark.parametrize(
    ("ids", "others"),
    [
        (IDS, [0, 1, 2, 3]),  # a new y
        ([8, 2, 4, 6], [0, 1, 2, 3]),  # y.reset_index(drop=True) after a split
        (IDS, [8, 2, 4, 6]),  # a split of X with names and y without
        ([10, 11, 12, 13], ["10", "11", "12", "13"]),
        ([10, 10, 11, 11], [10, 10, 11, 11]),  # a bootstrap sample
    ],
)
def test_row_numbers_are_no_ids(ids, others):
    check_ids(wide(ids), y(others), "y")
    check_ids(wide(others), y(ids), "y")


def test_what_has_no_ids_goes_by_position(container):
    for other in (None, [0, 1, 0, 1], np.zeros(4), y(IDS[::-1]).to_numpy(), y(IDS)[:3]):
        check_ids(container(), other, "y")
    check_ids(VALUES, y(IDS), "y")
    check_ids(list(VALUES), y(IDS), "y")
    check_ids([], y(IDS), "y")


def test_y_of_xarray_has_ids_too():
    targets = by_dimension().isel(time=0)
    check_ids(wide(), targets, "y")
    with pytest.raises(ValueError, match="the same ids in another order"):
        check_ids(wide(IDS[::-1]), targets, "y")
    check_ids(wide(), targets.drop_vars("case"), "y")


def test_dates_and_their_iso_text_are_the_same_ids():
    dates = pd.date_range("2020-01-01", periods=4)
    X = pd.DataFrame(np.zeros((4, 3)), index=dates)
    y = pd.Series(range(4), index=dates.strftime("%Y-%m-%d"))
    check_ids(X, y, "y")
    with pytest.raises(ValueError, match=r"another order.*pass y.set_axis") as caught:
        check_ids(X, y[::-1], "y")
    advice = str(caught.value).partition("pass ")[2].partition(", or if")[0]
    check_ids(X, eval(advice, {"X": X, "y": y[::-1], "pd": pd}), "y")
