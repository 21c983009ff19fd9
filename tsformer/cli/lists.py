"""The encodings, methods and data sets to choose from: lists, and pictures of encodings."""

from pathlib import Path
from typing import Annotated

import typer

from tsformer.cli import parsing
from tsformer.cli.parsing import argument, option
from tsformer.cli.printing import Json, table


def encodings(as_json: Json = False) -> None:
    """List the positional encodings.

    The hook is where an encoding acts: embed (tokens), rotate (queries and keys), bias (scores),
    mix (output of attention). Parameters are for 64 tokens, d_model 64, 4 heads, 2 layers. Cost is
    the time of a training step of 1,024 tokens on a CPU, relative to none. Ranks are mean ranks by
    accuracy behind the linear, the patch and the conv stem, in a study of 12 encodings.

      tsformer encodings
    """
    from tsformer.encodings import EncodingStack, available
    from tsformer.encodings.measured import measured_ranks, time_ratios

    cost = time_ratios(1024)
    ranks = {stem: measured_ranks(stem) for stem in ("linear", "patch", "conv")}
    rows = []
    for row in available():
        name, symmetric = str(row["name"]), "symmetric" if row["symmetric"] else ""
        stack = EncodingStack(name, n_layers=2, d_model=64, n_heads=4, max_len=64)
        n_parameters = sum(parameter.numel() for parameter in stack.parameters())
        places = {stem: by_name.get(name) for stem, by_name in ranks.items()}
        first = (name, row["kind"], n_parameters, row["extrapolation"], symmetric)
        rows.append((*first, cost.get(name), places, row["reference"]))
    header = ["name", "hook", " params", "extrapolation", "", " cost", "ranks", "reference"]
    table(header, rows, as_json=as_json)


def methods(as_json: Json = False) -> None:
    """List the classifiers that `tsformer compare --methods` knows by name.

    Series are padded for methods that cannot read unequal lengths, and interpolated for methods
    that cannot read gaps.

      tsformer methods
    """
    import importlib.util

    from tsformer._optional import install_command
    from tsformer.baselines import BASELINES

    libraries = dict.fromkeys(name for baseline in BASELINES.values() for name in baseline.needs)
    rows, lacking = [], [name for name in libraries if importlib.util.find_spec(name) is None]
    for name, baseline in BASELINES.items():
        reads = ["lengths"] * baseline.unequal + ["gaps"] * baseline.gaps
        class_name, here = baseline.path.rpartition(".")[2], not {*baseline.needs} & {*lacking}
        rows.append((name, class_name, ", ".join(reads), baseline.random, here))
    table(["name", "class", "reads", "random", "installed"], rows, as_json=as_json)
    if lacking:
        install = install_command("baselines")
        typer.echo(f"\n{', '.join(lacking)}: not installed; {install}", err=as_json)


def datasets(
    available: Annotated[bool, option("Only those found here.", None, "--available")] = False,
    as_json: Json = False,
) -> None:
    """List the data sets of the UCR and UEA archives, and your own.

    A data set is read from $TSFORMER_DATA, data/ or sktime, or downloaded into data/. Yours are
    NAME/NAME_TRAIN.ts (or .tsv) and NAME/NAME_TEST.ts in $TSFORMER_DATA or data/.

      tsformer datasets --available
    """
    from tsformer.data import list_datasets

    catalogue = list_datasets()
    if available:
        catalogue = catalogue[catalogue["available"] != ""]
    shown = catalogue.astype(object).where(catalogue.notna(), None)  # unknown in the catalogue
    ends = zip(shown["length_min"], shown["length_max"], strict=True)
    shown["length"] = ["-".join(dict.fromkeys(map(str, filter(None, pair)))) for pair in ends]
    columns = ["name", "train_size", "test_size", "channels", "length", "classes", "available"]
    header = ["name", " train", " test", " dims", " length", " classes", "available"]
    table(header, shown[columns].itertuples(index=False, name=None), as_json=as_json)


def plot_encoding(
    encoding: Annotated[str, argument("A name or a sum; see `tsformer encodings`.", "NAME")],
    length: Annotated[int, option("Number of positions.", min=1, max=4096)] = 128,
    d_model: Annotated[int, option("Width of the model.", min=1)] = 64,
    heads: Annotated[int, option("Number of heads.", min=1)] = 4,
    out: Annotated[Path | None, option("Default: encoding_NAME.png.", "FILE.png")] = None,
    set_: parsing.Set = [],  # noqa: B006
    allow_import: parsing.AllowImport = False,
) -> None:
    """Draw an encoding before training.

    tsformer plot-encoding fixed --length 256 --set base=100 --out fixed.png
    """
    from tsformer.plots import plot_encoding

    out = parsing.output(out or Path(f"encoding_{encoding}.png"), ending=".png")
    parsing.import_allowed([encoding], allowed=allow_import)
    options = {"d_model": d_model, "n_heads": heads, **parsing.settings(set_)}
    plot_encoding(encoding, length, **options).savefig(out)
    typer.echo(f"{encoding} drawn to {out}")
