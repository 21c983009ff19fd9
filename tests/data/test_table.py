"""Tables in files: roles of columns, recognised spellings, and refused files."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.data.table import Source, TableSchema, read_table

LONG = {"case": "id", "time": "t", "label": "y"}
WIDE = {"case": "id", "label": "y", "value": ("a",)}
TWELVE = [f"t{i}" for i in range(12)]
STEPS = "0.5,-0.25,3,0.125"


@pytest.fixture
def read():
    """Write a text to a file and read that, with every warning an error."""

    def read_text(
        text: str, /, *, name="x.csv", encoding="utf-8", labelled=True, **options
    ) -> Source:
        Path(name).write_text(text, encoding=encoding, newline="")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", pd.errors.ParserWarning)  # lost cells are no warning
            return read_table(Path(name), TableSchema(**options), labelled=labelled)

    return read_text


def test_a_long_table(read):
    text = "id,t,a,b,y\n007,1,1,2,01\n7,0,5,NA,1\n007 ,0,,4,01\n7,2,?,6,1 \n"
    X, y, cases, schema, *_ = read(text, **LONG)
    assert cases == ["007", "7"]
    assert y.tolist() == ["01", "1"]
    assert schema == TableSchema(value=("a", "b"), **LONG)
    np.testing.assert_array_equal(X[0], [[np.nan, 4], [1, 2]])
    np.testing.assert_array_equal(X[1], [[5, np.nan], [np.nan, 6]])
    assert X[1].index.tolist() == [0, 2]
    (only,) = {tuple(x) for x in read(text, **LONG, value=("b",)).X}
    assert only == ("b",)


@pytest.mark.parametrize("form", ["ragged", "plain"])
def test_a_wide_table(read, form):
    values = [",".join(map(str, range(start, start + 12))) for start in (0, 50)]
    shorter = values[1].rsplit(",", 3)[0] + ("" if form == "ragged" else ",,,")
    text = f"name,y,{','.join(TWELVE)}\na,no,{values[0]}\nb,yes,{shorter}\n"
    X, y, cases, schema, *_ = read(text, case="name", label="y")
    assert (X.shape, y.tolist(), cases) == ((2, 1, 12), ["no", "yes"], ["a", "b"])
    np.testing.assert_array_equal(X[1, 0], [*range(50, 59), *[np.nan] * 3])
    assert schema.value == tuple(TWELVE)


def test_what_spreadsheets_write(read):
    """A byte order mark, semicolons, decimal commas, line ends of Windows, old Macs and none."""
    text = 'id;t;a;y\r\n"ä b";2;1,5;None\r\nä b; 1;-2;None\r\n\r\nc;1;,25;NA'
    for encoding in ("utf-8", "utf-8-sig"):
        X, y, cases, *_ = read(text, sep=";", decimal=",", encoding=encoding, **LONG)
        assert [x["a"].tolist() for x in X] == [[-2.0, 1.5], [0.25]]
        assert y.tolist() == ["None", "NA"], "only an empty cell is no label"
        assert cases == ["ä b", "c"]
    assert read("id\tt\ta\ty\n1\t2\t3\tx\n", name="x.tsv", **LONG).y.tolist() == ["x"]
    assert read("id,t,a,y\r1,2,3,x\r2,2,3,z\r", **LONG).y.tolist() == ["x", "z"]
    text = 'id,t,"a\n(mV)",y\n1,2,3,x\n'
    assert read(text, **LONG).schema.value == ("a\n(mV)",)
    text = "\nid;t;a;y\n1;2;1,5;x\n"
    assert read(text, decimal=",", sep=";", **LONG).X[0]["a"].tolist() == [1.5]


def test_times_are_dates_of_a_format(read):
    (x,) = read("id,t,a,y\n1,20240201 ,0,x\n1,20240131,1,x\n", time_format="%Y%m%d", **LONG).X
    assert x.index.tolist() == [pd.Timestamp("2024-01-31"), pd.Timestamp("2024-02-01")]


def test_times_of_parquet_are_read_whatever_holds_them():
    pytest.importorskip("pyarrow")
    times = ["2024-01-02", "2024-01-01"]
    table = pd.DataFrame({"id": "a", "t": times, "v": [1, 0], "y": "n"})

    def read(**columns):
        table.assign(**columns).to_parquet("x.parquet", index=False)
        return read_table(Path("x.parquet"), TableSchema(**LONG), labelled=True)

    for column in (times, pd.Categorical(times), pd.to_datetime(times).date, pd.to_datetime(times)):
        assert read(t=column).X[0]["v"].tolist() == [0, 1]
    assert read(y=[" n", "n "]).y.tolist() == ["n"]
    for columns in ({"t": ["9:58", "10:00"]}, {"y": " "}, {"id": ["a\0b", "a\0c"]}):
        with pytest.raises(ValueError):
            read(**columns)


def test_one_column_for_all_channels_and_none_for_labels(read):
    rows = "1,0,up,1,x\n1,1,up,2,x\n1,0,left,3,x\n"
    (x,) = read(f"id,t,way,v,y\n{rows}", channel="way", **LONG).X
    assert x.columns.tolist() == ["left", "up"]
    np.testing.assert_array_equal(x, [[3, 1], [np.nan, 2]])
    assert read("id,t,a\n1,0,5\n", labelled=False, **LONG).y is None
    assert read("id,t,a\n1,0,5\n", labelled=None, case="id", time="t").y is None


def test_types_of_pandas_with_missing_values():
    pytest.importorskip("pyarrow")
    index = list("pq")
    table = pd.DataFrame({"id": [7, 8], "a": [1, None], "b": [None, 2.5], "y": [7, 8]}, index)
    table.convert_dtypes().to_parquet("x.parquet")
    schema = TableSchema(case="id", label="y")
    with pytest.warns(UserWarning, match="steps"):
        source = read_table(Path("x.parquet"), schema, labelled=True)
    np.testing.assert_array_equal(source.X[:, 0], [[1, np.nan], [np.nan, 2.5]])
    assert (source.cases, source.y.tolist()) == (["7", "8"], ["7", "8"])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"1,{STEPS}\r\n2,{STEPS}", {"encoding": "utf-8-sig"}),
        (f"\n\r\n1,{STEPS}\n2,{STEPS}\n", {}),
        ("1;0,5;-0,25;3;0,125\n2;0,5;-0,25;3;0,125\n", {"sep": ";", "decimal": ","}),
        ("  1  0.5 -0.25   3 0.125 \n  2 0.5 -0.25 3 0.125\n", {"sep": " "}),
    ],
)
def test_a_file_without_names_keeps_its_first_series(read, text, options):
    with pytest.raises(UserWarning, match="header="):
        read(text, label="0", **options)
    X, y, _, schema, *_ = read(text, label="0", header=False, value=tuple("1234"), **options)
    np.testing.assert_array_equal(X[:, 0], [[0.5, -0.25, 3, 0.125]] * 2)
    assert y.tolist() == ["1", "2"]
    assert schema.header is False
    assert TableSchema.from_dict(json.loads(json.dumps(schema.as_dict()))) == schema


def test_numbers_may_be_names_and_blank_lines_are_skipped(read):
    options = {"value": tuple("123"), "label": "0"}
    text = "\n\r\n0,1,2,3\n7,0.5,0.25,1\n7,w,3,1\n"
    with pytest.raises(ValueError, match="row 5"):
        read(text, header=True, **options)
    X, y, _, schema, *_ = read(text.replace("w", "2"), header=True, **options)
    assert (X.tolist(), y.tolist()) == ([[[0.5, 0.25, 1]], [[2, 3, 1]]], ["7", "7"])
    assert schema.header is True


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("\n\r\n\n", LONG, "empty"),
        ("id,t,a,y\n", LONG, "no rows"),
        ("id/t/a/y\n1/2/1/x\n", LONG, "`sep="),
        ("a,0,0.5,x\n1,2,3,4\n", {"label": "3"}, "header=False"),
        ("Id,t,a,class\n1,2,3,4\n", LONG, "'Id'"),
        ("id,t,t,y\n1,2,3,4\n", LONG, "'t'"),
        ("id,t,a,y\n1,2,1,5,x\n", LONG, "`sep="),
        ("id,t,a,y\n1,2,1,x\n1,3,1,5,x\n", LONG, "line 3"),
        ('id,t,a,y\n1,2,"1,5",n\n1,3,1.5,n\n', LONG, "row 2.*decimal="),
        ("id,t,a,y\n1,2,1.5,n\n", LONG | {"decimal": ","}, "decimal="),
        ("id,t,a,y\n1,2,3,n\n1,3,3,\n", LONG, "row 3.*'y'"),
        ("id,t,a,y\n1,1,3,n\n1,oops,3,n\n", LONG, "'oops' in row 3"),
        ("id,t,a,y\n1,0,3,n\0a\n2,0,4,n\0b\n", LONG, "NUL"),
        ("id,t,a,y\n1,1,3,n\n", LONG | {"time_format": "%d/%m/%Y"}, "%d/%m/%Y"),
        ("id,t,y\n1,2,3\n", LONG, "value="),
        ("id,t,a\n1,2,3\n", LONG | {"channel": "t"}, "'t'"),
        ("id,t,w,a,b,y\n1,2,3,4,5,n\n", LONG | {"channel": "w"}, "value="),
        ("t,y\n1,2\n", {"time": "t", "label": "y"}, "`case=`"),
        ("a,y\n1,2\n", {"channel": "a", "label": "y"}, "`time=`"),
        ("id,a,y\n1,2,n\n1,3,n\n", WIDE, "rows for '1'"),
        ("id,t0,y\n1,2,n\n", WIDE | {"value": ("t0:t99",)}, "t0:t99"),
        ("id,Age,y\n1,2,n\n", {"label": "y", "drop": ("Agee",)}, "'Age'"),
    ],
)  # fmt: skip
def test_wrong_tables_are_refused(read, text, columns, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        read(text, **columns)


def test_text_that_is_not_utf_8_and_files_that_are_missing_or_damaged(read):
    with pytest.raises(ValueError, match="UTF-8"):
        read("id,t,a,y\nä,2,3,n\n", encoding="latin-1", **LONG)
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(FileNotFoundError):
            read_table(Path(name), TableSchema(), labelled=False)
    pytest.importorskip("pyarrow")
    Path("x.parquet").write_text("id,t")
    with pytest.raises(ValueError, match=r"x\.parquet"):
        read_table(Path("x.parquet"), TableSchema(), labelled=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,t,a,b,y\n1,2,3,4,x\n", "`case=` and `time=`"),
        (f"nr,y,{','.join(TWELVE)}\n1,x{',0' * 12}\n", "'nr'"),
        (f"y,{','.join(sorted(TWELVE))}\nx{',0' * 12}\n", "'t0', 't1', 't10', 't11'"),
        (f",y,{','.join('abcdefghijkl')}\n0,1{',1' * 12}\n", "column 1 "),
        ("a,y\n1,x\n,\n2,x\n", "1 blank .* row 3"),
    ],
)  # fmt: skip
def test_what_is_read_but_may_not_be_meant_is_warned_of(read, text, message):
    with pytest.raises(UserWarning, match=message):
        read(text, label="y")


@pytest.mark.parametrize(
    "fields", [["a"], {"cse": "a"}, {"case": 1}, {"sep": "(a+)+"}, {"decimal": "x"}]
)
def test_wrong_schemas_are_refused(fields):
    with pytest.raises(ValueError):
        TableSchema.from_dict(fields)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ranges_patterns_and_columns_to_leave_out():
    row = ",".join(map(str, range(12)))
    text = f"id,Age,Sex,{','.join(TWELVE)},y\na,30,m,{row},x\nb,40,f,{row},z\n"
    Path("x.csv").write_text(text)
    for options, expected in (
        ({"value": ("t0:t11",)}, 12),
        ({"value": ("t3:t5", "t0", "t1?")}, 6),
        ({"drop": ("Age", "Sex")}, 12),
        ({"value": ("Age:t2",), "drop": ("Sex",)}, 4),
    ):
        schema = TableSchema(case="id", label="y", **options)
        source = read_table(Path("x.csv"), schema, labelled=True)
        assert source.X.shape == (2, 1, expected)
        again = read_table(Path("x.csv"), source.schema, labelled=False)
        np.testing.assert_array_equal(again.X, source.X)


@pytest.mark.parametrize(
    ("text", "name", "sep"),
    [
        ("id;t;a;y\n1;0;1.5;x\n1;1;-2.25;x\n", "x.csv", r"';'"),
        ("id\tt\ta\ty\n1\t0\t1.5\tx\n1\t1\t-2.25\tx\n", "x.csv", r"'\\t'"),
        ("id|t|a|y\n1|0|1.5|x\n1|1|-2.25|x\n", "x.txt", r"'\|'"),
        ("id t a y\n1 0 1.5 x\n1 1 -2.25 x\n", "x.txt", "' '"),
        ('id,t,"a;;;;",y\n"1;2",0,1.5,x\n"1;2",1,-2.25,x\n', "x.csv", None),
    ],
)
def test_a_separator_is_recognised_and_said(text, name, sep):
    Path(name).write_text(text)
    silent = warnings.catch_warnings(action="error")
    with pytest.warns(UserWarning, match=sep) if sep else silent:
        source = read_table(Path(name), TableSchema(**LONG), labelled=True)
    assert source.X[0].iloc[:, 0].tolist() == [1.5, -2.25]
    assert source.schema.sep is None, "other files may differ"


@pytest.mark.parametrize("table", ["wide", "long"])
def test_labels_in_a_second_file_are_joined_by_case(read, table):
    text = "id,a,b\n7,1,2\n07,3,4\n" if table == "wide" else "id,t,a\n7,0,1\n07,0,3\n7,1,2\n"
    options = {"value": ("a", "b")} if table == "wide" else {"time": "t"}
    options |= {"case": "id", "labels": "labels.csv"}
    Path("labels.csv").write_text("id,kind\n07,b\n7,a\n07,b\n9,c\n")
    source = read(text, label="kind", **options)
    assert (source.y.tolist(), source.cases) == (["a", "b"], ["7", "07"])
    assert source.schema.labels is None, "a model does not save paths of this machine"
    Path("labels.csv").write_text("id,kind,who\n07,b,p\n7,a,q\n")
    assert read(text, label="kind", group="who", **options).groups.tolist() == [*"qp"]
    Path("labels.csv").write_text("0,9\n07,b\n7,a\n")  # its first line is names, even of numbers
    numbered = {"case": "0", "value": ("1", "2"), "labels": "labels.csv"}
    assert read("0,1,2\n7,1,2\n07,3,4\n", label="9", **numbered).y.tolist() == ["a", "b"]
    for content in ("id,kind\n07,b\n07,a\n7,a\n", "id,kind\n07,b\n", "nr,kind\n1,b\n"):
        Path("labels.csv").write_text(content)
        with pytest.raises(ValueError):
            read(text, label="kind", **options)
    with pytest.raises(ValueError):
        read(text, labels="labels.csv")
    Path("labels.xlsx").touch()
    with pytest.raises(ValueError, match="save as CSV"):
        read(text, label="kind", **options | {"labels": "labels.xlsx"})


def test_a_grid_inserts_missing_rows_of_a_file(read):
    (x,) = read("id,t,a,y\n1,0,1,x\n1,1,3,x\n", grid="0.5", **LONG).X
    np.testing.assert_array_equal(x["a"], [1, np.nan, 3])


def test_a_recording_is_refused_whatever_its_columns_of_times(read):
    times = pd.date_range("2024", periods=600, freq="s").astype(str)
    values = np.random.default_rng(0).normal(size=(600, 2))
    table = pd.DataFrame(values, columns=["ax", "ay"]).assign(time=times, id=1)
    table["y"] = np.repeat(["walk", "run"] * 3, 100)
    long = {"case": "id", "time": "time"}
    for options in ({"drop": ("time", "id")}, {"value": ("ax", "ay")}, long):
        with pytest.raises((ValueError, UserWarning), match=r"steps|Steps"):
            read(table.to_csv(index=False), label="y", **options)


def test_a_spelling_of_one_meaning_is_recognised_and_said():
    for text, sep, reading in (
        ("id;t;a;y\n1;2;1,5;n\n1;3;12,25;n\n", ";", "decimal"),
        ("id,t,a,y\n1,30.01.2024,1.5,n\n1,31.01.2024,12.25,n\n", ",", r"time_format=%d\.%m\.%Y"),
        ("id,t,a,y\n1,2024/12/30,1.5,n\n1,2025/01/02,12.25,n\n", ",", "time_format=%Y/%m/%d"),
    ):
        Path("x.csv").write_text(text)
        with pytest.warns(UserWarning, match=reading):
            source = read_table(Path("x.csv"), TableSchema(sep=sep, **LONG), labelled=True)
        assert source.X[0]["a"].tolist() == [1.5, 12.25]


@pytest.mark.parametrize(
    "rows", ["1;2;1,500;n\n1;3;2,250;n\n", "1;01/02/2024;1;n\n1;02/03/2024;2;n\n"]
)
def test_a_spelling_of_two_meanings_is_refused(read, rows):
    with pytest.raises(ValueError, match=r"decimal=|date"):
        read("id;t;a;y\n" + rows, sep=";", **LONG)
