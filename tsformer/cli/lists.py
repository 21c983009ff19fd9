"""Lists of the encodings, methods and data sets to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from tsformer.cli.printing import table

__all__ = ["datasets", "encodings", "methods"]


def encodings() -> None:
    """List the positional encodings.

    The hook is where an encoding acts: embed adds to the tokens, rotate
    rotates queries and keys, bias adds to the scores before the softmax,
    mix adds to the output after it. Names combine into sums: tape+erpe.

    Parameters are counted for 64 tokens, a width of 64, 4 heads and 2 layers.
    Beyond the training length an encoding extends, clamps or interpolates.
    Cost is the time per training step with 1,024 tokens on a CPU, relative to none.

    [bold]Example[/bold]

      tsformer encodings
    """
    from tsformer.encodings import EncodingStack, available
    from tsformer.encodings.cost import time_ratios

    cost = time_ratios(1024)
    rows = []
    for row in available():
        stack = EncodingStack(str(row["name"]), n_layers=2, d_model=64, n_heads=4, max_len=64)
        rows.append(
            (
                row["name"],
                row["kind"],
                f"{sum(parameter.numel() for parameter in stack.parameters()):,}",
                row["extrapolation"],
                "symmetric" if row["symmetric"] else "",
                f"{cost[row['name']]:.2f}" if row["name"] in cost else "-",
                row["reference"],
            )
        )
    table(["name", "hook", " params", "extrapolation", "", " cost", "reference"], rows)


def methods() -> None:
    """List the classifiers that `tsformer compare --methods` knows by name.

    Series that a method cannot read as they are, of unequal lengths or with
    missing values, are padded and interpolated for it; results say so.
    Any other class that follows scikit-learn's contract can be named in a file
    for --study, or with --allow-import.

    [bold]Example[/bold]

      tsformer methods
    """
    import importlib.util

    from tsformer.baselines import BASELINES

    rows = []
    lacking: dict[str, list[str]] = {}
    for name, each in BASELINES.items():
        missing = [needed for needed in each.needs if importlib.util.find_spec(needed) is None]
        reads = [word for word, can in (("lengths", each.unequal), ("gaps", each.gaps)) if can]
        if missing:
            lacking.setdefault(f"{missing[0]}: {each.install}", []).append(name)
        class_name = each.path.rpartition(".")[2]
        random = "yes" if each.random else "no"
        rows.append((name, class_name, ", ".join(reads), random, "no" if missing else "yes"))
    table(["name", "class", "reads", "random", "installed"], rows)
    for need, names in lacking.items():
        typer.echo(f"\n{', '.join(names)}: needs {need}")


def datasets(
    available: Annotated[
        bool, typer.Option("--available", help="List only those found on this machine.")
    ] = False,
) -> None:
    """List the classification data sets of the UCR and UEA archives, and your own after them.

    A data set is read from the folder $TSFORMER_DATA, from data/, from
    those bundled with sktime, or else downloaded into data/. Your own are
    NAME/NAME_TRAIN.ts and NAME/NAME_TEST.ts there; tsformer convert writes them.
    So are .tsv files of the UCR archive, with a label first in each line.

    [bold]Examples[/bold]

      tsformer datasets --available
      TSFORMER_DATA=/my/archive tsformer datasets
    """
    from tsformer.data import list_datasets

    catalogue = list_datasets()
    if available:
        catalogue = catalogue[catalogue["available"] != ""]
    shown = catalogue.astype(object).where(catalogue.notna(), "?")  # unknown in the catalogue
    table(
        ["name", " train", " test", " dims", " length", " classes", "available"],
        (
            (
                row.name,
                row.train_size,
                row.test_size,
                row.channels,
                _between(row.length_min, row.length_max),
                row.classes,
                row.available,
            )
            for row in shown.itertuples(index=False)
        ),
    )


def _between(low: object, high: object) -> str:
    return str(low) if low == high else f"{low}-{high}"
