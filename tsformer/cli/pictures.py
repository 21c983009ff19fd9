"""Figures of encodings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsformer.cli import parsing
from tsformer.cli.models import Options


def plot_encoding(
    encoding: Annotated[
        str, typer.Argument(metavar="NAME", help="A name or a sum; see `tsformer encodings`.")
    ],
    length: Annotated[int, typer.Option(min=1, max=4096, help="Number of positions.")] = 128,
    d_model: Annotated[int, typer.Option(min=1, help="Width of the model.")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="Number of heads.")] = 4,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="The file to write; by default encoding_NAME.png."),
    ] = None,
    set_: Options = [],  # noqa: B006  Typer reads the default and gives each call its own list
) -> None:
    """Draw an encoding before training.

    [bold]Example[/bold]

      tsformer plot-encoding fixed --length 256 --set base=100 --out fixed.png
    """
    from tsformer.plots import plot_encoding

    options = parsing.settings(set_)
    for name, flag in {"max_len": "length", "d_model": "d-model", "n_heads": "heads"}.items():
        if name in options:
            raise ValueError(
                f"--set is for options of the encoding; set {name} with --{flag} {options[name]}"
            )
    out = parsing.picture(out or Path(f"encoding_{encoding}.png"))
    parsing.check_file(out)
    figure = plot_encoding(encoding, length, d_model=d_model, n_heads=heads, **options)
    figure.savefig(out)
    typer.echo(f"{encoding} drawn to {out}")
