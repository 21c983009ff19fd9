"""Options that assign the columns of a table, and `tsformer convert`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsformer._files import check_output
from tsformer.cli import parsing
from tsformer.cli.parsing import argument, option

if TYPE_CHECKING:
    from tsformer.data.table import Source, TableSchema

_HELP = {
    "case": ("NAME", "Column that identifies a series."),
    "time": ("NAME", "Column of times; the table has one row per observation."),
    "value": ("A,B", "Columns of values, t0:t29 or t*; by default all without another role."),
    "drop": ("A,B", "Columns to leave out, likewise."),
    "channel": ("NAME", "Column that names the channel, if one --value column holds all."),
    "label": ("NAME", "Column of class labels."),
    "labels": ("FILE", "Second table, of labels or groups, joined by --case."),
    "group": ("NAME", "Column of groups, such as patients."),
    "grid": ("STEP", "Insert missing rows of --time as missing values, as in 1min or 0.5."),
    "window": ("TIME", "Cut recordings into windows of this length: steps, or a time such as 10s."),
    "stride": ("TIME", "From one window to the next; by default the length."),
    "header": ("", "Whether the first line names the columns; if not, they are 0, 1, ..."),
    "sep": ("CHARACTER", "Separator; recognised by default."),
    "decimal": ("CHARACTER", "Decimal sign, '.' (default) or ','."),
    "time_format": ("FORMAT", "Format of dates, as in %d/%m/%Y; by default ISO 8601."),
}


def column_roles(**roles: Any) -> TableSchema:
    """Return the roles of the columns of a table."""
    from tsformer.data.table import TableSchema

    for name in ("value", "drop"):
        roles[name] = None if roles[name] is None else parsing.names(roles[name])
    roles["sep"] = {"tab": "\t", "\\t": "\t", "space": " "}.get(roles["sep"], roles["sep"])
    return TableSchema(**roles)


def _option(name: str, metavar: str, text: str) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    flags = flag if metavar else f"{flag}/--no-{name}"
    described = option(text, metavar or None, flags, rich_help_panel="Columns of a table")
    return inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[(str if metavar else bool) | None, described],
    )


column_roles.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [_option(name, *texts) for name, texts in _HELP.items()]
)


def described(name: str, source: Source) -> str:
    """Return a line about the series that were read from a file."""
    import numpy as np

    from tsformer.data.series import SeriesSource

    X, y, cut, schema = source.X, source.y, source.windows, source.schema
    if isinstance(X, SeriesSource):
        lengths = X.lengths.tolist()
    else:
        lengths = [np.shape(x)[-1 if isinstance(x, np.ndarray) else 0] for x in X]
    steps = " to ".join(map(str, sorted({min(lengths), max(lengths)})))
    kind = "series" if cut is None else f"windows of {len(cut.recordings)} recordings"
    words = [f"{len(lengths)} {kind}", f"{steps} steps"]
    if schema is not None and (cut is not None or schema.time is not None):
        names = X[0].columns if cut is None else schema.value or ()
        words.append(f"channels {', '.join(names[:10])}{', ...' * (len(names) > 10)}")
    if y is not None:
        numbers = y.dtype.kind == "f"
        words.append(f"targets from {y.min():g}" if numbers else f"{len(set(y))} classes")
    return f"{name}: {', '.join(words)}"


def convert(
    files: Annotated[
        list[str], argument("To read, and without --out to write.", "FILE... [TARGET]")
    ],
    columns: TableSchema,
    out: Annotated[Path | None, option("For data larger than memory.", "FOLDER")] = None,
    split: Annotated[str, option("The split of a data set to convert: train or test.")] = "train",
) -> None:
    """Convert series between tables and .ts files, or write them to a folder.

    Reads tables (CSV, Parquet), .ts files, folders of Parquet files, or data sets; writes .ts, .csv
    or .parquet. Every command reads data/NAME/NAME_TRAIN.ts and data/NAME/NAME_TEST.ts as the data
    set NAME. A folder (--out) holds float32 values and no times.

      tsformer convert long.csv data/My/My_TRAIN.ts --case id --time t --label y
    """
    from tsformer.data.sources import convert_to_folder, read_source, write_series

    target = out or Path(files[-1])
    check_output(target, map(Path, files if out else files[:-1]), replaces=out is not None)
    if out is not None:
        n, labelled = convert_to_folder(files, out, columns, split=split)
        typer.echo(f"{n} series with{'' if labelled else 'out'} labels written to {out}")
        return
    if len(files) != 2:
        raise ValueError(f"name a file to read and one to write, or --out FOLDER; got {files}")
    name, target = files[0], Path(files[1])
    source = read_source(name, columns, split=split, labelled=None)
    write_series(target, source, comment=f"Converted by tsformer from {name}.")
    typer.echo(f"{described(name, source)}; written to {target}")
