"""Tables in files: what is read as what, and what is said of a file that cannot be read."""

import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.data.table import Source, TableSchema, read_table, write_table
from tsformer.data.text import has_names

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
        flags = {flag: options.pop(flag, False) for flag in ("by_model",)}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", pd.errors.ParserWarning)  # lost cells are no warning
            return read_table(Path(name), TableSchema(**options), labelled=labelled, **flags)

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
    """A byte order mark, semicolons, decimal commas, line ends of Windows and none at the end."""
    text = 'id;t;a;y\r\n"ä b";2;1,5;None\r\nä b; 1;-2;None\r\n\r\nc;1;,25;NA'
    for encoding in ("utf-8", "utf-8-sig"):
        X, y, cases, *_ = read(text, sep=";", decimal=",", encoding=encoding, **LONG)
        assert [x["a"].tolist() for x in X] == [[-2.0, 1.5], [0.25]]
        assert y.tolist() == ["None", "NA"], "only an empty cell is no label"
        assert cases == ["ä b", "c"]
    assert read("id\tt\ta\ty\n1\t2\t3\tx\n", name="x.tsv", **LONG).y.tolist() == ["x"]
    text = "\nid;t;a;y\n1;2;1,5;x\n"
    for options in ({}, {"sep": ";"}):
        (x,) = read(f"sep=;\r\n{text}", decimal=",", **options, **LONG).X
        assert x["a"].tolist() == [1.5]
    with pytest.raises(UserWarning, match=r"such as 1,5 are read with decimal commas"):
        read(f"sep=;\n{text}", **LONG)


@pytest.mark.parametrize(
    ("times", "options", "expected"),
    [
        (["9", "10"], {}, [9, 10]),
        (["2024-02-01", "2024-01-31T12:30"], {}, ["2024-01-31T12:30", "2024-02-01"]),
        (
            ["2024-03-31T03:00+02", "2024-03-31T01:30+01"],
            {},
            ["2024-03-31T00:30Z", "2024-03-31T01Z"],
        ),
        (["20240201 ", "20240131"], {"time_format": "%Y%m%d"}, ["2024-01-31", "2024-02-01"]),
    ],
)
def test_times_are_numbers_or_dates(read, times, options, expected):
    rows = "".join(f"1,{time},{i},x\n" for i, time in enumerate(times))
    (x,) = read(f"id,t,a,y\n{rows}", **LONG, **options).X
    if isinstance(expected[0], str):
        expected = [pd.Timestamp(time) for time in expected]
    assert x.index.tolist() == expected


def test_times_of_parquet_are_read_whatever_holds_them():
    pytest.importorskip("pyarrow")
    times = ["2024-01-02", "2024-01-01"]
    table = pd.DataFrame({"id": "a", "t": times, "v": [1, 0], "y": "n"})

    def read(**columns):
        write_table(Path("x.parquet"), table.assign(**columns))
        return read_table(Path("x.parquet"), TableSchema(**LONG), labelled=True)

    for column in (times, pd.Categorical(times), pd.to_datetime(times).date, pd.to_datetime(times)):
        assert read(t=column).X[0]["v"].tolist() == [0, 1]
    for labels, expected in (([" n", "n "], "n"), (pd.to_datetime(["2024", "2024"]), "2024-01-01")):
        assert read(y=labels).y.tolist() == [expected]
    for columns, message in (
        ({"t": ["9:58", "10:00"]}, "'t': '9:58' in row 2"),
        ({"y": " "}, "row 2: no label of series 'a' in column 'y'"),
        ({"id": ["a\0b", "a\0c"]}, "'id' .*NUL"),
        ({"y": ["a\0b", "a\0c"]}, "'y' .*NUL"),
    ):
        with pytest.raises(ValueError, match=message):
            read(**columns)


def test_one_column_for_all_channels_and_none_for_labels(read):
    rows = "1,0,up,1,x\n1,1,up,2,x\n1,0,left,3,x\n"
    (x,) = read(f"id,t,way,v,y\n{rows}", channel="way", **LONG).X
    assert x.columns.tolist() == ["left", "up"]
    np.testing.assert_array_equal(x, [[3, 1], [np.nan, 2]])
    text = "id,t,a\n1,0,5\n"
    assert read(text, labelled=False, **LONG).y is None
    for labelled in (False, None):
        assert read(text, labelled=labelled, **LONG | {"label": None}).y is None
    assert read("id,t,a,y\n1,0,5,\n", labelled=False, **LONG).y is None


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("index", [None, list("pq")])
def test_types_of_pandas_with_missing_values(ending, index):
    pytest.importorskip("pyarrow")
    if index is not None and ending == "feather":
        pytest.skip("Feather has no index")
    table = pd.DataFrame({"id": [7, 8], "a": [1, None], "b": [None, 2.5], "y": [7, 8]}, index)
    getattr(table.convert_dtypes(), f"to_{ending}")(f"x.{ending}")
    schema = TableSchema(case="id", label="y")
    with pytest.warns(UserWarning, match="series of 2 steps"):
        found = read_table(Path(f"x.{ending}"), schema, labelled=True)
    np.testing.assert_array_equal(found.X[:, 0], [[1, np.nan], [np.nan, 2.5]])
    assert (found.cases, found.y.tolist()) == (["7", "8"], ["7", "8"])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"1,{STEPS}\r\n2,{STEPS}", {"encoding": "utf-8-sig"}),
        (f",,,,\n\n1,{STEPS}\n2,{STEPS}\n", {}),
        (f'"walk, slow",{STEPS}\nrun,{STEPS}\n', {}),
        (f"1,{STEPS}\n2,{STEPS}\n".replace(",", "\t"), {"name": "x.tsv"}),
        ("1;0,5;-0,25;3;0,125\n2;0,5;-0,25;3;0,125\n", {"sep": ";", "decimal": ","}),
        ("  1  0.5 -0.25   3 0.125 \n  2 0.5 -0.25 3 0.125\n", {"sep": " "}),
    ],
)
def test_a_file_without_names_keeps_its_first_series(read, text, options):
    with pytest.raises(UserWarning, match=r"seems to have no header: .* values"):
        read(text, label="0", **options)
    X, y, _, schema, *_ = read(text, label="0", header=False, value=tuple("1234"), **options)
    np.testing.assert_array_equal(X[:, 0], [[0.5, -0.25, 3, 0.125]] * 2)
    assert y.tolist() in (["1", "2"], ["walk, slow", "run"])
    assert schema.header is False
    assert TableSchema.from_dict(json.loads(json.dumps(schema.as_dict()))) == schema


def test_lines_of_separators_at_the_top_are_skipped_and_counted(read):
    options = {"label": "y", "value": ("a", "b", "c")}
    X, y, *_ = read("\n,,,\n,,,\na,b,c,y\n1,2,3,x\n", **options)
    assert (X.tolist(), y.tolist()) == ([[[1, 2, 3]]], ["x"])
    with pytest.raises(ValueError, match="row 5: 'w' in column 'b'"):
        read("\n,,,\n,,,\na,b,c,y\n1,w,3,x\n", **options)
    options = {"value": tuple("123"), "label": "0"}
    with pytest.raises(UserWarning, match="has numbers"):
        read("0,1,2,3\n7,0.5,0.25,1\n", **options)
    X, y, _, schema, *_ = read("0,1,2,3\n7,0.5,0.25,1\n", header=True, **options)
    assert (X.tolist(), y.tolist(), schema.header) == ([[[0.5, 0.25, 1]]], ["7"], True)


@pytest.mark.parametrize(
    ("cells", "named", "expected"),
    [
        ("1 0.5 0.25", "", (False, True)),
        ("1 1 1", "", (False, True)),
        ("0 1 2 3", "", (True, False)),
        ("y 0 1 2", "", (True, True)),
        ("y 2020 2021 2022", "", (True, False)),
        ("walk 0.5 0.25 0.75", "", (False, False)),
        ("y 0.5 0.25 0.75", "y", (True, True)),
        ("y 0.5 0.25 0.75", "0.5", (False, False)),
    ],
)
def test_what_a_first_line_is(cells, named, expected):
    assert has_names(cells.split(), named=named.split()) == expected


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("\n\r\n\n", LONG, r"^x\.csv is empty$"),
        ("id,t,a,y\n", LONG, r"^x\.csv has the names of columns, but no rows"),
        ("id/t/a/y\n1/2/1/x\n", LONG, r"has 'id/t/a/y'; if .* several columns, .* `sep=`"),
        ("1,2,3\n4,5,6\n", LONG | {"header": False}, "no header"),
        ("a,0,0.5,x\n1,2,3,4\n", {"label": "3", "header": True}, "first line has values"),
        ("Id,t,a,class\n1,2,3,4\n", LONG, r"'id', 'y' \(did you mean 'Id'\?\)\. It has"),
        ("id,t,t,y\n1,2,3,4\n", LONG, r"has 2 columns called 't'; rename all but one"),
        ("id,t,a,y\n1,2,1,5,x\n", LONG, "rows have more fields than the first line.*`sep="),
        ("id,t,a,y\n1,2,1,x\n1,3,1,5,x\n", LONG, "Expected 4 fields in line 3, saw 5.*`sep="),
        ("id,t,a,y\n1,2,x,n\n", LONG, r"^x\.csv, row 2: 'x' in column 'a' is not a number; `val"),
        ('id,t,a,y\n1,2,"1,5",n\n1,3,1.5,n\n', LONG, "'1,5' in column 'a' .*decimal commas"),
        ('id,t,a,y\n1,2,"1,234,567.5",n\n', LONG, r"`decimal=,`; remove commas between thousands"),
        ("id,t,a,y\n1,2,1.5,n\n", LONG | {"decimal": ","}, "for decimal points add `decimal=.`"),
        ("id,t,a,y\n1,2,3,n\n1,3,inf,n\n", LONG, "row 3: the value in column 'a' is infinite"),
        ("id,t,a,y\n1,2,,n\n2,2,3,n\n", LONG, r"^x\.csv: series '1' has no value at all; drop it"),
        ("id,t,a,y\n1,2,3,n\n1,3,3,m\n", LONG, r"labels: \['n', 'm'\]; .* column 'id' identifies"),
        ("id,t,a,y\n1,2,3,n\n1,3,3,\n", LONG, "row 3: no label of series '1' in column 'y'"),
        ("id,t,a,y\n1,2,3,n\n1,2,3,n\n", LONG, "two rows for {'id': '1', 't': 2}"),
        ("id,t,a,y\n1,1,3,n\n,1,3,n\n", LONG, "column 'id' has a missing value in row 3"),
        ("id,t,a,y\n1,1,3,n\n1,oops,3,n\n", LONG, "'t': 'oops' in row 3 is neither a number"),
        ("id,t,a,y\n1,9:58,3,n\n1,10:00,3,n\n", LONG, "'9:58' in row 2 .*`time_format="),
        ("id,t,a,y\n1,2024-01-01T10:00Z,3,n\n1,2024-01-01,4,n\n", LONG, "row 3 is without an of"),
        ("id,t,a,y\n1,False,3,n\n1,True,4,n\n", LONG, "times in column 't' must be numbers or dat"),
        ("id,t,a,y\n1,0,3,n\0a\n2,0,4,n\0b\n", LONG, "x.csv is not UTF-8 .* line 2 has a NUL"),
        ("id,t,a,y\n1,1,3,n\n", LONG | {"time_format": "%d/%m/%Y"}, "not a date of `time_format="),
        ("id,t,a,y\n1,01/02/2024,2,x\n1,03/04/2024,1,x\n", LONG, "=%d/%m/%Y` or `time_format=%m"),
        ("id,t,y\n1,2,3\n", LONG, r"has no columns of values: 'id', 't', 'y'"),
        ("id,t,a\n1,2,3\n", LONG | {"channel": "a", "value": ("b", "t")}, "named 2 times"),
        ("id,t,w,a,b,y\n1,2,3,4,5,n\n", LONG | {"channel": "w"}, "has 'a', 'b'"),
        ("t,y\n1,2\n", {"time": "t", "label": "y"}, "`case=`.*`window=`"),
        ("a,y\n1,2\n", {"channel": "a", "label": "y"}, "`channel=` is for long tables"),
        ("id,a,y\n1,2,n\n1,3,n\n", WIDE, "several rows for '1'. In a wide table each row is a"),
        ("id,a,y\n1,2,n\n,3,n\n", WIDE, "row 3: no name in column 'id'"),
        ("id,a,y\n1,2,n\n2,,n\n", WIDE, "row 3 has no value at all"),
        ("id,a,y,who\n1,2,n,\n", WIDE | {"group": "who"}, "row 2: no group of series '1' in"),
        ("id,t0,y\n1,2,n\n", WIDE | {"value": ("t0:t99",)}, "lacks the column: 't99'"),
        ("id,a,y\n1,2,n\n", WIDE | {"value": ("s*",)}, r"lacks the column: 's\*'"),
        ("a,b,c,y\n1,2,3,n\n", {"label": "y", "value": ("c:a",)}, "the range 'c:a' runs backwards"),
        ("id,Age,y\n1,2,n\n", {"label": "y", "drop": ("Agee",)}, r"'Agee' \(did you mean 'Age'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(read, text, columns, message):
    with pytest.raises(ValueError, match=message):
        read(text, **columns)


def test_text_that_is_not_utf_8_and_files_that_are_missing_or_damaged(read):
    for encoding in ("latin-1", "utf-16"):
        with pytest.raises(ValueError, match=r"^x\.csv is not UTF-8 text; save it in UTF-8"):
            read("id,t,a,y\nä,2,3,n\n", encoding=encoding, **LONG)
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(FileNotFoundError, match=name):
            read_table(Path(name), TableSchema(), labelled=False)
    pytest.importorskip("pyarrow")
    for name, kind in (("x.parquet", "Parquet"), ("x.feather", "Feather")):
        Path(name).write_text("id,t")
        with pytest.raises(ValueError, match=rf"^{name} cannot be read as {kind}: "):
            read_table(Path(name), TableSchema(), labelled=False)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,t,a,b,y\n1,2,3,4,x\n", {}, "4 steps: 'id', 't', 'a'"),
        (f"nr,y,{','.join(TWELVE)}\n1,x{',0' * 12}\n", {}, "steps: 'nr'"),
        (f"y,{','.join(sorted(TWELVE))}\nx{',0' * 12}\n", {}, "order.*'t1', 't10', 't11', 't2'"),
        (f",y,{','.join('abcdefghijkl')}\n0,1{',1' * 12}\n", {}, "column 1"),
        ("a,b,c,y\n1,2,3,x\n", {"value": ("a", "b"), "by_model": True}, "left out: 'c'"),
    ],
)
def test_what_is_read_but_may_not_be_meant_is_warned_of(read, text, options, message):
    with pytest.raises(UserWarning, match=message):
        read(text, label="y", **options)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (["a"], "must be an object"),
        ({"cse": "a"}, "'cse': did you mean 'case'"),
        ({"case": 1}, "case must be str or NoneType; got 1"),
        ({"value": "a"}, "value must be tuple"),
        ({"header": "no"}, "header must be bool"),
        ({"sep": "(a+)+"}, "`sep=` is a single character"),
        ({"decimal": "x"}, "`decimal=` is"),
    ],
)
def test_what_is_no_schema(described, message):
    with pytest.raises(ValueError, match=message):
        TableSchema.from_dict(described)


def test_the_group_of_each_series_is_read_and_is_no_value(read):
    text = "id,t,v,who,y\nc,0,1,007,x\nc,1,2,007,x\nb,0,3,8,z\na,0,4,7,z\n"
    found = read(text, group="who", **LONG)
    assert found.groups.tolist() == ["007", "8", "7"], "in the order of the series"
    assert found.schema.value == ("v",)
    found = read("who,y,a\n1,a,1\n2,b,3\n", label="y", group="who", value=("a",))
    assert found.groups.tolist() == ["1", "2"]
    with pytest.raises(ValueError, match=r"series 'a' has several groups: \['7', '8'"):
        read("id,t,v,who,y\na,0,1,7,x\na,1,2,8,x\n", group="who", **LONG)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"value": ("t0:t11",)}, 12),
        ({"value": ("t*",)}, 12),
        ({"value": ("t3:t5", "t0", "t1?")}, 6),
        ({"drop": ("Age", "Sex")}, 12),
        ({"drop": ("[AS]*",)}, 12),
        ({"value": ("Age:t2",), "drop": ("Sex",)}, 4),
    ],
)
def test_ranges_patterns_and_columns_to_leave_out(read, options, expected):
    row = ",".join(map(str, range(12)))
    text = f"id,Age,Sex,{','.join(TWELVE)},y\na,30,m,{row},x\nb,40,f,{row},z\n"
    warnings.simplefilter("ignore", UserWarning)
    found = read(text, case="id", label="y", **options)
    assert found.X.shape == (2, 1, expected)
    again = read(text, labelled=False, **found.schema.as_dict())
    np.testing.assert_array_equal(again.X, found.X)


def test_blank_rows_are_skipped_with_a_note():
    Path("x.csv").write_text("id,t,a,y\n1,0,5,x\n,,,\n1,1,6,x\n,,,\n , , , \n")
    with pytest.warns(UserWarning, match=r"3 blank rows of x\.csv are skipped, such as row 3"):
        found = read_table(Path("x.csv"), TableSchema(**LONG), labelled=True)
    assert found.X[0]["a"].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("id;t;a;y\n1;0;1,5;x\n1;1;-2,25;x\n", "x.csv", ["separated by ';'", "decimal commas"]),
        ("id;t;a;y\n1;0;1.5;x\n1;1;-2.25;x\n", "x.csv", ["separated by ';'"]),
        ("id\tt\ta\ty\n1\t0\t1.5\tx\n1\t1\t-2.25\tx\n", "x.csv", [r"separated by '\\t'"]),
        ("id|t|a|y\n1|0|1.5|x\n1|1|-2.25|x\n", "x.txt", [r"separated by '\|'"]),
        ("id t a y\n1 0 1.5 x\n1 1 -2.25 x\n", "x.txt", ["separated by ' '"]),
        ('id,t,a,y\n1,0,"1,5",x\n1,1,"-2,25",x\n', "x.csv", ["decimal commas"]),
        ('id,t,a,y\n"1;2",0,1.5,x\n"1;2",1,-2.25,x\n', "x.csv", []),
    ],
)
def test_separators_and_decimal_signs_are_recognised_and_said(text, name, said):
    Path(name).write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = read_table(Path(name), TableSchema(**LONG), labelled=True)
    assert found.X[0]["a"].tolist() == [1.5, -2.25]
    assert (found.schema.sep, found.schema.decimal) == (None, None), "other files may differ"
    assert len(caught) == len(said)
    for warning, expected in zip(caught, said, strict=True):
        assert re.search(expected, str(warning.message))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("31/12/2024 10:00", "01/01/2025 09:00", "%d/%m/%Y %H:%M"),
        ("12/31/2024", "01/01/2025", "%m/%d/%Y"),
        ("31.12.24", "01.01.25", "%d.%m.%y"),
        ("2024/12/31 10:00:00.5", "2025/01/01 10:00:00.5", "%Y/%m/%d %H:%M:%S.%f"),
    ],
)
def test_dates_that_begin_with_the_day_or_the_month_are_recognised(first, second, expected):
    Path("x.csv").write_text(f"id,t,a,y\n1,{second},2,x\n1,{first},1,x\n")
    with pytest.warns(UserWarning, match="are read as `time_format="):
        found = read_table(Path("x.csv"), TableSchema(**LONG), labelled=True)
    assert found.X[0]["a"].tolist() == [1, 2]
    assert found.schema.time_format == expected, "a model reads other files alike"


@pytest.mark.parametrize("table", ["wide", "long"])
def test_labels_in_a_second_file_are_joined_by_case(read, table):
    text = "id,a,b\n7,1,2\n07,3,4\n" if table == "wide" else "id,t,a\n7,0,1\n07,0,3\n7,1,2\n"
    options = {"value": ("a", "b")} if table == "wide" else {"time": "t"}
    options |= {"case": "id", "labels": "labels.csv"}
    Path("labels.csv").write_text("id,kind\n07,b\n7,a\n07,b\n")
    found = read(text, **options)
    assert (found.y.tolist(), found.cases) == (["a", "b"], ["7", "07"])
    assert found.schema.label == "kind"
    assert found.schema.labels is None, "a path of this machine is none of the model's"
    Path("labels.csv").write_text("id,kind,who\n07,b,p\n7,a,q\n")
    assert read(text, label="kind", group="who", **options).groups.tolist() == [*"qp"]
    for content, message in {
        "id,kind,who\n07,b,p\n7,a,q\n8,c,r\n": "1 series.*'8'",
        "id,kind\n07,b\n07,a\n7,a\n": "'07'",
        "id,kind\n07,b\n": "row 2: no label of series '7' in column 'kind'",
        "id,kind\n1,b\n": "'7', '07', .*'1'",
        "nr,kind\n1,b\n": r"labels\.csv 'id'",
    }.items():
        Path("labels.csv").write_text(content)
        with pytest.raises((ValueError, UserWarning), match=message):
            read(text, label="kind", **options)
    with pytest.raises(ValueError, match="`case=`"):
        read(text, labels="labels.csv")


def test_a_grid_inserts_missing_rows_of_a_file(read):
    text = "id,t,a,y\n1,2024-01-01T10:00,1,x\n1,2024-01-01T10:03,4,x\n1,2024-01-01T10:01,2,x\n"
    (x,) = read(text, grid="1min", **LONG).X
    np.testing.assert_array_equal(x["a"], [1, 2, np.nan, 4])
    (x,) = read("id,t,a,y\n1,0,1,x\n1,1,3,x\n", grid="0.5", **LONG).X
    np.testing.assert_array_equal(x["a"], [1, np.nan, 3])


def test_a_recording_is_refused_whatever_its_columns_of_times(read):
    n = 600
    labels = np.repeat(["walk", "run"] * 3, n // 6)
    times = pd.date_range("2024", periods=n, freq="s").astype(str)
    values = np.random.default_rng(0).normal(size=(n, 2))
    table = pd.DataFrame(values, columns=["ax", "ay"]).assign(y=labels, time=times, id=1)
    for options in (
        {"drop": ("time", "id")},
        {"value": ("ax", "ay")},
        {"case": "id", "time": "time"},
    ):
        with pytest.raises((ValueError, UserWarning), match=r"data\.windows|steps"):
            read(table.to_csv(index=False), label="y", **options)


def test_a_spreadsheet_is_read_if_openpyxl_is_there(monkeypatch):
    Path("x.xlsx").write_bytes(b"PK")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "openpyxl", None)
        with pytest.raises(ImportError, match="openpyxl"):
            read_table(Path("x.xlsx"), TableSchema(**LONG), labelled=True)
    pytest.importorskip("openpyxl", reason='needs the extra "test"')
    table = pd.DataFrame({"id": ["a", "b"], "y": ["007", 1], "a": [1, None], "b": [2.5, 3]})
    table.to_excel("x.xlsx", index=False)
    found = read_table(Path("x.xlsx"), TableSchema(**WIDE | {"value": ("a", "b")}), labelled=True)
    np.testing.assert_array_equal(found.X[:, 0], [[1, 2.5], [np.nan, 3]])
    assert found.y.tolist() == ["007", "1"]
