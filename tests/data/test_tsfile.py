"""The `.ts` reader: the numbers sktime reads, and errors that say which line is wrong."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from tsformer.data import DatasetError, read_ts

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
def read(tmp_path):
    """Write a text to a file and read that."""

    def read_text(text):
        path = tmp_path / "Toy_TRAIN.ts"
        path.write_bytes(text.encode("latin-1"))
        return read_ts(path)

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


def test_unequal_lengths(read):
    header = HEADER.replace("@equalLength true", "@equalLength false")
    X, _ = read(header + "1,2,3,4:1,2,3,4:run\n5:6:Walk\n")
    assert [x.shape for x in X] == [(2, 4), (2, 1)]


def test_without_labels(read):
    X, y = read(HEADER.replace("true Walk run", "false") + "1,2,3:4,5,6\n")
    assert y is None
    np.testing.assert_array_equal(X, [[[1, 2, 3], [4, 5, 6]]])


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ("1,2,3:Walk\n", "line 11: 1 channels, expected 2"),
        ("1,2,3:4,5,6:7,8,9:Walk\n", "line 11: 3 channels, expected 2"),
        ("1,2,3:4,5,6:Walk\n1,2,x:4,5,6:run\n", "line 12: channel 1, value 3: 'x' is not a number"),
        ("1,2,3:4,,6:Walk\n", "line 11: channel 2, value 2: '' is not a number"),
        ("1,2,3:4,5:Walk\n", "line 11: channel 2 has 2 values, channel 1 has 3"),
        ("1,2:4,5:Walk\n", "line 11: 2 values per channel, expected 3"),
        (
            "1,2,3:4,5,6:walk\n",
            "line 11: .* 'walk', which is not a label of @classLabel (Walk, run)",
        ),
        ("1,2,3:4,5,6\n", "line 11: the line ends in '4,5,6', which is not a label"),
        ("Walk\n", "line 11: a single field"),
        ("1,2,3:4,5,6:Walk\n1,2,3:4,", "line 12: .* is it cut off?"),
        ("1,2,3:4,5,6:Walk\n1,2,3:4,5,6:ru", "line 12: .* is it cut off?"),
        ("", "line 10: no series after @data"),
    ],
)
def test_a_wrong_series_is_named(read, series, message):
    pattern = message.replace("(", r"\(").replace(")", r"\)").replace("?", r"\?")
    with pytest.raises(DatasetError, match=rf"Toy_TRAIN\.ts, {pattern}"):
        read(HEADER + series)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@data\n", "", "line 10: expected a header line"),
        ("@data\n" + SERIES, "", "line 9: the file ends without @data"),
        ("@classLabel true Walk run", "", "line 10: the header has no @classLabel"),
        ("true Walk run", "true", "line 9: @classLabel true needs the labels"),
        ("true Walk run", "yes", "line 9: @classLabel must be true or false, not 'yes'"),
        ("@timeStamps false", "@timeStamps true", "line 4: series with time stamps"),
        ("@classLabel true Walk run", "@targetLabel true", "line 9: a regression problem"),
        ("@dimensions 2", "@dimensions two", "line 6: @dimensions must be a positive whole number"),
        ("@seriesLength 3", "@seriesLength", "line 8: @seriesLength must be a positive"),
    ],
)
def test_a_wrong_header_is_named(read, old, new, message):
    assert old in HEADER + SERIES
    with pytest.raises(DatasetError, match=message):
        read((HEADER + SERIES).replace(old, new))


def test_a_silent_header_is_filled_in_by_the_first_series(read):
    header = "@univariate false\n@equalLength true\n@classLabel true 1 2\n@data\n"
    with pytest.raises(DatasetError, match="line 6: 1 channels, expected 2"):
        read(header + "1,2:3,4:1\n1,2:2\n")
    with pytest.raises(DatasetError, match="line 6: 3 values per channel, expected 2"):
        read(header + "1,2:3,4:1\n1,2,3:4,5,6:2\n")


def test_univariate_means_one_channel(read):
    with pytest.raises(DatasetError, match="line 4: 2 channels, expected 1"):
        read("@univariate true\n@classLabel true 1\n@data\n1,2:3,4:1\n")


def test_an_empty_and_a_missing_file(read, tmp_path):
    with pytest.raises(DatasetError, match=r"Toy_TRAIN\.ts is empty"):
        read("")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_ts(tmp_path / "nowhere.ts")


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_file_cut_anywhere_in_its_last_line_is_refused(read, cut):
    text = HEADER + SERIES + "10.25,11.125,12.5:13.75,14.5,15.625:Walk\n"
    if cut == 1:  # only the line break is gone
        assert len(read(text[:-cut])[0]) == 3
    else:
        with pytest.raises(DatasetError, match=r"line 13: .*is it cut off\?"):
            read(text[:-cut])


@pytest.mark.parametrize(
    "name", ["ArrowHead", "BasicMotions", "ItalyPowerDemand", "JapaneseVowels", "PLAID"]
)
@pytest.mark.parametrize("split", ["TRAIN", "TEST"])
def test_sktime_reads_the_same(name, split):
    datasets = pytest.importorskip("sktime.datasets")
    path = Path(datasets.__file__).parent / "data" / name / f"{name}_{split}.ts"
    X, y = read_ts(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sktime's own use of pandas
        theirs, labels = datasets.load_from_tsfile(str(path), return_data_type="nested_univ")

    assert [label.lower() for label in y] == labels.tolist()
    assert len(X) == len(theirs)
    for ours, row in zip(X, theirs.to_numpy(), strict=True):
        np.testing.assert_array_equal(ours, np.stack([channel.to_numpy() for channel in row]))


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "Toy_TRAIN.ts"
    path.write_text(HEADER + SERIES, encoding="utf-8-sig")
    X, y = read_ts(path)
    assert (len(X), y.tolist()) == (2, ["Walk", "run"])
    path.write_text((HEADER + SERIES).removeprefix("# a comment\n"), encoding="utf-8-sig")
    assert read_ts(path)[1].tolist() == ["Walk", "run"]


@pytest.mark.parametrize("value", ["1_000", "1\u0661", "\uff11", "-?", "?1", "1?", "? ?", "0x1p3"])
def test_what_only_python_reads_is_no_number(value, tmp_path):
    path = tmp_path / "Toy_TRAIN.ts"
    path.write_text(HEADER + f"1,2,3:4,{value},6:Walk\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"line 11: channel 2, value 2: .* is not a number"):
        read_ts(path)


@pytest.mark.parametrize(
    ("tag", "value", "message"),
    [
        ("@seriesLength 3", "@seriesLength " + "9" * 5000, "whole number below a billion, not '9"),
        ("@dimensions 2", "@dimensions " + "9" * 5000, "whole number below a billion, not '999"),
        ("@equalLength true", "@equalLength " + "x" * 5000, "must be true or false, not 'xxx"),
    ],
)
def test_a_header_of_thousands_of_characters(tag, value, message, read):
    with pytest.raises(DatasetError, match=message) as raised:
        read(HEADER.replace(tag, value) + SERIES)
    assert len(str(raised.value)) < 500
