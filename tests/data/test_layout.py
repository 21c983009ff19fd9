"""Layouts that are probably misread, recordings, and ids of X and of y."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import tsformer
from tsformer.data import LayoutWarning, from_long, windows
from tsformer.data.containers import to_padded
from tsformer.data.layout import (
    check_ids,
    layout_is_checked,
    refuse_recording,
    series_ids,
    warn_of_layout,
    warn_of_order,
)

RNG = np.random.default_rng(0)


def warned(X, *, flat=None) -> str:
    """Return the warning of the layout of `X`, or ""."""
    flat = getattr(X, "ndim", 0) == 2 if flat is None else flat
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_layout(X, to_padded(X), flat=flat)
    assert len(caught) <= 1
    assert all(w.category is LayoutWarning and w.filename == __file__ for w in caught)
    return "".join(str(w.message) for w in caught)


NOISE = RNG.normal(size=(8, 50, 3))  # (n, length, channels)


@pytest.mark.parametrize("X", [NOISE, torch.from_numpy(NOISE), list(NOISE), NOISE[:, :, :1]])
def test_more_channels_than_steps_warns_and_the_fix_is_right(X):
    fix = warned(X).partition("swap them: ")[2].partition(";")[0]
    n, length, channels = len(X), len(X[0]), len(X[0][0])
    swapped = eval(fix, {"X": X})
    assert (len(swapped), *swapped[0].shape) == (n, channels, length)
    assert warned(swapped) == ""


def test_more_channels_than_steps_are_believed_if_values_change_less_from_step_to_step():
    X = np.sin(np.arange(50) / 8 + RNG.uniform(0, 6, size=(8, 90, 1)))
    assert warned(X) == ""
    assert warned(X + RNG.normal(size=X.shape)) != ""
    X[RNG.random(X.shape) < 0.2] = np.nan
    X[:, 0, [0, -1]] = 0.0  # no end is missing in all channels
    assert warned(X) == ""


def test_channels_without_any_value_are_warned_of():
    X = NOISE.transpose(0, 2, 1).copy()
    X[:, 1] = np.nan
    assert "[1]" in warned(X)
    X[7, 1, 3] = 0.0
    assert warned(X) == ""


def test_unequal_lengths_frames_and_checked_blocks_are_not_warned_of():
    shorter = NOISE.copy()
    shorter[3, :, 2] = np.nan  # as some archives store it
    frames = [pd.DataFrame(x.T).add_prefix("channel ") for x in NOISE]
    for X in ([NOISE[0], NOISE[1, :, :2], NOISE[2]], shorter, np.zeros((3, 4, 4)), frames):
        assert warned(X) == ""
    assert warned(pd.concat(frames, keys=range(len(NOISE))), flat=False) == ""
    assert warned(np.zeros((3, 4, 2))) != ""
    with warnings.catch_warnings(action="error"), layout_is_checked():
        warn_of_layout(NOISE, to_padded(NOISE), flat=False)


def long_table(n_cases=6, n_times=10, **columns) -> pd.DataFrame:
    grid = {
        "case": np.repeat(np.arange(n_cases), n_times),
        "time": np.tile(np.arange(n_times), n_cases),
        "value": RNG.normal(size=n_cases * n_times),
    }
    return pd.DataFrame(grid | columns)


LONG = long_table()


def test_a_long_table_is_recognised():
    for table in (
        LONG[LONG["time"] < 3 + LONG["case"]],
        LONG.assign(time=0.25 * LONG["time"], case=7.0 * LONG["case"]),
        LONG.assign(other=RNG.normal(size=60), label=LONG["case"] % 2),
    ):
        advice = warned(table).partition("pass ")[2].partition(";")[0]
        X = eval(advice, {"tsformer": tsformer, "X": table})
        assert len(X) == table["case"].nunique()


@pytest.mark.parametrize("n", [20, 60])
def test_a_wide_table_is_not_mistaken_for_a_long_one(n):
    for table in (
        RNG.normal(size=(n, 30)),
        RNG.integers(0, 8, size=(n, 30)),
        np.arange(n * 30).reshape(n, 30),
        np.c_[np.arange(n), np.arange(n) // 10, RNG.normal(size=(n, 5))],
    ):
        assert warned(pd.DataFrame(table)) == ""


STEPS = pd.DataFrame(RNG.normal(size=(8, 60)))


def of_columns(columns) -> str:
    """Return the warning of columns as steps, or ""."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_order(pd.DataFrame(columns=columns), len(columns))
    return "".join(str(w.message) for w in caught)


@pytest.mark.parametrize("steps", [range(60), [f"t{i}" for i in range(60)], np.arange(60) / 4])
def test_a_column_that_is_no_step_is_warned_of(steps):
    assert "['Unnamed: 0']" in of_columns(["Unnamed: 0", *steps])
    assert of_columns(list(steps)) == ""


@pytest.mark.parametrize(
    ("columns", "is_warned"),
    [
        (["t0", "t1", "t10", "t2"], True),
        ([3, 2, 1, 0], True),
        (pd.date_range("2024", periods=4)[::-1], True),
        (["lag 3", "lag 2", "lag 1", "lag 0"], False),
        ([0.5, 1, 2, 10], False),
        ([f"{channel}{i}" for channel in ("a", "b") for i in range(29)] + ["c0", "c1"], False),
        (["t", *(f"t+{i}" for i in range(1, 60))], False),
    ],
)
def test_columns_out_of_order_are_warned_of(columns, is_warned):
    assert bool(of_columns(columns)) == is_warned


def with_channel(values, name):
    """Return series with the values as a second channel."""
    table = pd.DataFrame({"a": RNG.normal(size=40), name: values})
    return [table.iloc[5 * i : 5 * i + 5] for i in range(8)]


def test_numbers_of_rows_among_channels_are_warned_of():
    counts = np.arange(40)
    for values in (counts, counts % 5 + 7):
        X = with_channel(values, "n")
        assert "[x.drop(columns=['n']) for x in X]" in warned(X)
        assert "X.drop(columns=['n'])" in warned(pd.concat(X, keys=range(8)), flat=False)
    for values in (counts // 2, counts[::-1], np.where(counts % 2, np.nan, counts), 0 * counts):
        assert warned(with_channel(values, "n")) == ""


def test_a_channel_that_is_constant_within_every_series_is_warned_of():
    ids = np.arange(8).repeat(5)
    for values in (ids, ids // 2, np.where(np.arange(40) % 7, ids, np.nan)):
        assert "[x.drop(columns=['n']) for x in X]" in warned(with_channel(values, "n"))


def test_columns_of_steps_and_channels_are_warned_of():
    long = pd.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1] * 2, "a": [1, 2, 3, 4], "b": [5, 6, 7, 8]})
    X = long.pivot(index="id", columns="t", values=["a", "b"])
    assert "X.stack(future_stack=True)" in of_columns(X.columns)
    right = X.stack(future_stack=True)
    assert to_padded(right).values.tolist() == [[[1, 5], [2, 6]], [[3, 7], [4, 8]]]
    assert of_columns(X[["a"]].columns) == ""


@pytest.mark.filterwarnings("error")
def test_what_the_warning_says_silences_it_and_predict_says_how_to_swap():
    clf = tsformer.RandomConvolutionClassifier(n_features=168, n_groups=0)
    steps = pd.DataFrame(NOISE[:, :, 0])
    with pytest.raises(LayoutWarning, match="order"):
        clf.fit(steps, [0, 1] * 4).predict(steps[steps.columns[::-1]])
    with pytest.raises(LayoutWarning, match="swap") as raised:
        clf.fit(NOISE, [0, 1] * 4)
    exec("import warnings, tsformer; " + str(raised.value).partition("silence this with ")[2])
    clf.fit(NOISE, [0, 1] * 4).fit(NOISE.transpose(0, 2, 1), [0, 1] * 4)
    with pytest.raises(ValueError, match=r"\[x.T for x in X\]"):
        clf.predict(NOISE)


IDS = ["p3", "p1", "p2", "p0"]
VALUES = np.arange(12.0).reshape(4, 3)


def wide(ids=IDS):
    return pd.DataFrame(VALUES, index=ids)


def panel(ids=IDS):
    return pd.concat([pd.DataFrame({"v": row}) for row in VALUES], keys=ids)


def long(ids=IDS):
    table = panel(ids).rename_axis(["case", "time"]).reset_index()
    return from_long(table, case="case", time="time", value="v")


CONTAINERS = {
    "panel": panel,
    "wide": wide,
    "nested": lambda ids=IDS: pd.DataFrame({"v": list(map(pd.Series, VALUES))}, index=ids),
    "from_long": long,
    "from_long in an array": lambda ids=IDS: np.fromiter(long(ids), dtype=object),
}


def y(ids):
    return pd.Series([0, 1, 0, 1], index=ids)


@pytest.mark.parametrize("ids", [IDS, [7, 3, 5, 1], [1.0, 3.0, 2.0, 4.0], pd.CategoricalIndex(IDS)])
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_the_same_ids_agree_in_the_same_order_only(container, ids):
    assert series_ids(container(ids)).tolist() == list(ids)
    check_ids(container(ids), y(ids), "y")
    check_ids(container(ids), y(ids).to_frame(), "y")
    with pytest.raises(ValueError):
        check_ids(container(ids), y(ids)[::-1], "y")


def test_ids_that_contradict_each_other_are_refused():
    for ids, label_ids in (
        (IDS, ["q3", "q1", "q2", "q0"]),
        ([10, 11, 12, 13], [20, 21, 22, 23]),
        ([0, 1, 2, 3], [1, 0, 3, 2]),
    ):
        with pytest.raises(ValueError):
            check_ids(wide(ids), y(label_ids), "y")


def test_row_numbers_are_no_ids():
    for ids, label_ids in (
        (IDS, [0, 1, 2, 3]),  # a new y
        ([8, 2, 4, 6], [0, 1, 2, 3]),  # y.reset_index(drop=True) after a split
        (IDS, [8, 2, 4, 6]),  # a split of X with names and y without
        ([10, 11, 12, 13], ["10", "11", "12", "13"]),
    ):
        check_ids(wide(ids), y(label_ids), "y")
        check_ids(wide(label_ids), y(ids), "y")


def test_labels_in_the_order_of_a_table_beside_series_in_that_of_its_groups():
    table = pd.DataFrame({"id": [*"bbaacc"], "v": range(6), "label": [0, 0, 1, 1, 2, 2]})
    X = [rows[["v"]] for _, rows in table.groupby("id")]
    y = table.drop_duplicates("id")["label"]
    with pytest.raises(ValueError):
        check_ids(X, y, "y")
    check_ids(X, y.loc[[x.index[0] for x in X]], "y")
    check_ids(X, table.groupby("id")["label"].first(), "y")
    check_ids(X, y.set_axis([7, 8, 9]), "y")
    check_ids([x.reset_index(drop=True) for x in X], y, "y")


N = 6000
ACTIVITY = np.repeat(["walk", "run", "sit"] * 4, N // 12)
AXES = ["ax", "ay", "az", "gx", "gy", "gz"]
RECORDING = pd.DataFrame(RNG.normal(size=(N, 6)), columns=AXES)
CLOCK = pd.date_range("2024-01-01", periods=N, freq="20ms")


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (RECORDING[["ax", "ay"]], ACTIVITY),
        (RECORDING, ACTIVITY),
        (RECORDING.set_index(CLOCK), np.sort(ACTIVITY)),
        (RECORDING.set_index(CLOCK), None),
        (RECORDING.cumsum(), np.sort(ACTIVITY)),
        (RECORDING[["ax", "ay"]].to_numpy(), ACTIVITY),
        (RECORDING[["ax", "ay"]].to_numpy().tolist(), ACTIVITY),
        (RECORDING[["ax"]], np.sin(np.arange(N) / 300)),
        (RECORDING.assign(y=ACTIVITY).sample(frac=0.75, random_state=0)[AXES], None),
        (RECORDING[["ax", "ay"]].set_axis(["ch1", "ch2"], axis=1), ACTIVITY),
        (0.2 * RECORDING.to_numpy() + 4 * np.arange(6) % 3, ACTIVITY),
    ],
    ids=[
        *"26",
        *("times", "no labels", "blocks", "array", "rows", "targets", "split", "ch", "levels"),
    ],
)
def test_a_recording_is_refused_with_the_way_to_cut_it(X, y):
    if y is None and not isinstance(X.index, pd.DatetimeIndex):
        y = pd.Series(ACTIVITY)[X.index]
    with pytest.raises(ValueError, match=r"tsformer\.data\.windows"):
        refuse_recording(X, y)


def test_rows_that_change_little_are_a_recording_without_labels():
    with pytest.raises(ValueError):
        refuse_recording(RECORDING[["ax", "ay"]].cumsum().to_numpy())


@pytest.mark.parametrize("n_steps", [3, 5, 24])
@pytest.mark.parametrize("name", ["{}", "t{}", "{}:00", "week {}", "feature_{}"])
def test_a_wide_table_of_short_series_is_no_recording(n_steps, name):
    X = pd.DataFrame(RNG.normal(size=(N, n_steps)).cumsum(axis=1))
    X.columns = [int(i) if name == "{}" else name.format(i) for i in range(n_steps)]
    days = pd.date_range("2004", periods=N)  # a day in each row, and seasons
    for y in (np.sort(ACTIVITY), RNG.permutation(ACTIVITY), RNG.normal(size=N), None):
        refuse_recording(X, y)
        refuse_recording(X.to_numpy(), y)
    if n_steps > 3:
        for y in (ACTIVITY, None):
            refuse_recording(X.set_index(days), y)


def test_features_by_name_are_no_recording():
    for columns in (AXES, ["before", "during", "after"], ["before", "after"]):
        refuse_recording(
            RECORDING.iloc[:, : len(columns)].set_axis(columns, axis=1), np.sort(ACTIVITY)
        )
    refuse_recording(RECORDING, RNG.permutation(ACTIVITY))
    refuse_recording(RECORDING, None)
    refuse_recording(RECORDING[:100].set_index(CLOCK[:100]), ACTIVITY[:100])
    refuse_recording(RECORDING.to_numpy()[:, None], ACTIVITY)


@pytest.mark.parametrize("kind", ["RandomConvolutionClassifier", "TSTransformerEncoder", "Early"])
def test_estimators_refuse_a_recording_and_the_advice_cuts_it(kind):
    early = tsformer.EarlyClassifier(tsformer.RandomConvolutionClassifier())
    clf = early if kind == "Early" else getattr(tsformer, kind)()
    X = RECORDING[["ax", "ay"]].set_index(CLOCK)
    with pytest.raises(ValueError) as error:
        clf.fit(X, None if kind == "TSTransformerEncoder" else ACTIVITY)
    call = str(error.value).partition("tsformer.data.")[2]
    names = {"windows": windows, "X": X, "y": ACTIVITY, "length": 20, "stride": 10}
    assert eval(call, names).X.shape[1:] == (2, 20)
