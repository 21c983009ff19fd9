"""The `.ts` reader: the numbers sktime reads, and errors that say which line is wrong."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.data import DatasetError, load_dataset, read_ts, write_ts
from tsformer.data.tsfile import writable_labels

HEADER = """# a comment
@problemName Toy

@timeStamps false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 3
@classLabel true Walk run
@data
"""
SERIES = "1,2,3:4,5,6:Walk\n-1.5,2e3,?:NaN,0,.5:run\n"


@pytest.fixture
def read():
    """Write a text to a file and read that."""

    def read_text(text):
        Path("Toy_TRAIN.ts").write_bytes(text.encode("latin-1"))
        return read_ts("Toy_TRAIN.ts")

    return read_text


def test_values_missing_values_and_labels_are_as_written(read):
    X, y = read(HEADER + SERIES)
    assert [x.dtype for x in X] == [np.float64, np.float64]
    np.testing.assert_array_equal(X[0], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(X[1], [[-1.5, 2000, np.nan], [np.nan, 0, 0.5]])
    assert y.tolist() == ["Walk", "run"]


def test_what_does_not_matter(read):
    """Line ends, capitals of tags, unknown tags, comments in any encoding, blank lines and ends."""
    odd = HEADER.replace("@equalLength", "@EQUALLENGTH").replace("a comment", "Universität")
    odd = odd.replace("@data", "@license none\n% another comment\n@data")
    plain, _ = read(HEADER + SERIES)
    for text in (odd + SERIES, (odd + SERIES).replace("\n", "\r\n"), odd + SERIES.strip()):
        X, y = read(text.replace(":run", " : run \n"))
        np.testing.assert_array_equal(X, plain)
        assert y.tolist() == ["Walk", "run"]


def test_a_wrong_series_is_named(read):
    for series, line in (
        ("1,2,3:Walk\n", 11),
        ("1,2,3:4,5,6:Walk\n1,2,x:4,5,6:run\n", 12),
        ("1,2,3:4,5:Walk\n", 11),
        ("1,2:4,5:Walk\n", 11),
        ("1,2,3:4,5,6:walk\n", 11),
        ("", 10),
    ):
        with pytest.raises(DatasetError, match=rf"Toy_TRAIN\.ts, line {line}:"):
            read(HEADER + series)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("@data\n", "", 10),
        ("@data\n" + SERIES, "", 9),
        ("@classLabel true Walk run", "", 10),
        ("true Walk run", "true Walk run gän\0", 9),
        ("true Walk run", "yes", 9),
        ("@timeStamps false", "@timeStamps true", 11),
        ("@classLabel true Walk run", "@targetLabel true", 11),
        ("@seriesLength 3", "@seriesLength " + "9" * 5000, 8),
    ],
)
def test_a_wrong_header_is_named(read, old, new, line):
    assert old in HEADER + SERIES
    with pytest.raises(DatasetError, match=f"line {line}:") as caught:
        read((HEADER + SERIES).replace(old, new))
    assert len(str(caught.value)) < 500


def test_a_file_cut_anywhere_in_its_last_line_is_refused(read):
    text = HEADER + SERIES + "10.25,11.125,12.5:13.75,14.5,15.625:Walk\n"
    assert len(read(text[:-1])[0]) == 3, "only the line break is gone"
    for cut in range(2, 40):
        with pytest.raises(DatasetError, match="line 13:"):
            read(text[:-cut])


@pytest.mark.parametrize("value", ["1_000", "1\u0661", "-?", "?1", "1?", "? ?", "0x1p3"])
def test_odd_numbers_are_none(value):
    Path("x.ts").write_text(HEADER + f"1,2,3:4,{value},6:Walk\n", encoding="utf-8")
    with pytest.raises(DatasetError):
        read_ts("x.ts")


def test_a_mark_of_the_encoding_is_skipped_and_no_file_or_an_empty_one_is_refused(read):
    Path("x.ts").write_text((HEADER + SERIES).removeprefix("# a comment\n"), encoding="utf-8-sig")
    assert read_ts("x.ts")[1].tolist() == ["Walk", "run"]
    with pytest.raises(DatasetError):
        read("")
    with pytest.raises(FileNotFoundError):
        read_ts("nowhere.ts")


def test_what_is_written_is_read_back_exactly_also_by_sktime():
    datasets = pytest.importorskip("sktime.datasets", reason='needs the extra "data"')
    X, y = (both[:30] for both in load_dataset("JapaneseVowels", "train"))
    write_ts("Own_TRAIN.ts", X, y, comment="from an archive\nof old")
    again, labels = read_ts("Own_TRAIN.ts")
    assert labels.tolist() == y.tolist()
    for ours, theirs in zip(again, X, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    frame, labels = datasets.load_from_tsfile_to_dataframe("Own_TRAIN.ts")
    assert labels.tolist() == [label.lower() for label in y]
    np.testing.assert_array_equal(frame.iloc[3, -1], X[3][-1])
    text = Path("Own_TRAIN.ts").read_text()
    assert text.startswith("# from an archive\n# of old\n@problemName Own\n")


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((2, 1, 3)), "a"),
        (np.zeros((2, 1, 3)), ["a b", "c"]),
        (np.zeros((2, 1, 3)), ["a", ""]),
        (np.zeros((2, 1, 3)), ["a", None]),
        (pd.DataFrame(np.eye(2), [*"pq"]), pd.Series([*"ab"], [*"qp"])),
        ([np.zeros((1, 3)), np.zeros((1, 0))], "ab"),
    ],
)
def test_what_cannot_be_written_leaves_the_file_as_it_was(X, y):
    Path("x.ts").write_text("earlier")
    with pytest.raises(ValueError):
        write_ts("x.ts", X, y)
    assert [path.read_text() for path in Path().iterdir()] == ["earlier"]


def test_labels_are_made_writable_with_a_warning():
    with pytest.warns(UserWarning, match="'a_b'.*'d_e'"):
        assert writable_labels(["a b", "c", "d: e"]).tolist() == ["a_b", "c", "d_e"]
    with warnings.catch_warnings(action="error"):
        assert writable_labels([7, "007"]).tolist() == ["7", "007"]
    with pytest.raises(ValueError):
        writable_labels(["a b", "a:b"])


TIMED = "@timeStamps true\n@classLabel true a b\n@data\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_series_with_time_stamps(read, line_end):
    text = f"{TIMED}(2024-01-01 10:00:00,1),(2024-01-01 09:00:00,?):(2024-01-01 09:00:00,3):a\n"
    X, y = read(text.replace("\n", line_end))
    assert X[0].index.tolist() == [pd.Timestamp("2024-01-01 09:00"), pd.Timestamp("2024-01-01 10")]
    np.testing.assert_array_equal(X[0], [[np.nan, 3], [1, np.nan]])
    assert y.tolist() == ["a"]
    X, y = read(f"{TIMED}(0.5,1),(10,2),(9,3):a\n( 1 , 4 ):b\n")
    assert [x.index.tolist() for x in X] == [[0.5, 9, 10], [1]]
    np.testing.assert_array_equal(X[0][0], [1, 3, 2])
    X, y = read(TIMED.replace("true a b", "false") + "(0,1),(1,2)\n")
    assert (X[0].shape, y) == ((2, 1), None)


#: Days, and hours at the change to summer time: their offsets from UTC differ.
DAYS = pd.DatetimeIndex(["2024-03-30T00:00:00", "2024-03-31T00:00:00", "2024-04-02T10:00:00"])
SUMMER = pd.date_range("2024-03-31 01:00", periods=3, freq="h", tz="Europe/Rome")


def timed(*indices) -> list[pd.DataFrame]:
    return [pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [4.0, 5.0, 6.0]}, index=i) for i in indices]


@pytest.mark.parametrize(
    "index", [[0.1, 5, 1e-300 + 6], [1, 2, 4], DAYS, DAYS.tz_localize("CET"), SUMMER]
)
def test_time_stamps_are_written(index):
    X = timed(index, index)
    write_ts("x.ts", X, ["a)", "b"])
    for ours, theirs in zip(read_ts("x.ts")[0], X, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert (ours.index == theirs.index).all()


def test_times_that_cannot_be_written():
    for X in (
        timed([0, 2, 1]),
        timed([0, 1, 2], [0, 1, 1]),
        timed(DAYS - DAYS[0]),
        [*timed([0, 1, 3]), np.zeros((2, 3))],
    ):
        with pytest.raises(ValueError):
            write_ts("x.ts", X)
    assert not Path("x.ts").exists()


def test_wrong_time_stamps_are_named(read):
    for line in ("(0,1),(0,2):a", "(inf,1):a", "(0,x):a", "(0,1):(2024-01-01,2):a", "0,1:a"):
        with pytest.raises(DatasetError, match="line 5:"):
            read(f"{TIMED}(0,1):a\n{line}\n")


def test_numbers_to_predict(read):
    text = "@targetLabel true\n@data\n1,2:0.5\n3,4:-1e2\n"
    assert read(text)[1].tolist() == [0.5, -100]
    for wrong in ("nan", "a", ""):
        with pytest.raises(DatasetError):
            read(text.replace("-1e2", wrong))
