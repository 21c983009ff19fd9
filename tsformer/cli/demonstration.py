"""The first minutes: does the encoding matter, and how good is the default model?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tsformer._files import check_output
from tsformer.cli.printing import as_typed, table
from tsformer.cli.studies import finish, run

if TYPE_CHECKING:
    import pandas as pd

#: They come with sktime, so that nothing is downloaded.
DATASETS = ("ItalyPowerDemand", "ArrowHead")
ENCODINGS = ("none", "fixed", "learnable", "lspe", "rope", "erpe")
SEEDS = (0, 1)
#: For the default model, whose stem already sees order.
DEFAULT_DATASET = "GunPoint"
METHODS = ("tsformer", "random-convolutions")
#: Accuracies this close are called equal: two seeds cannot tell them apart.
EQUAL = 0.02


def demo(
    max_epochs: Annotated[int, typer.Option(help="Epochs per fit of an encoding.")] = 40,
    jobs: Annotated[int, typer.Option(help="Number of parallel fits; -1 for one per core.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder for results and report.")] = Path(
        "results/demo"
    ),
) -> None:
    """Compare six encodings on real data, then the default model: run this first.

    With the linear stem, one token per step, only the encoding knows the order of steps. Takes
    three to eight minutes on one core and downloads nothing.

    [bold]Example[/bold]

      tsformer demo
    """
    from tsformer.studies import Study

    check_output(out)
    encodings = Study(
        DATASETS,
        ENCODINGS,
        seeds=SEEDS,
        parameters={"stem": "linear", "max_epochs": max_epochs},
        title="demo",
    )
    default = Study(
        (DEFAULT_DATASET,),
        (),
        seeds=(0,),
        methods={name: {} for name in METHODS},
        title="demo-default",
    )
    typer.echo(
        f"Step 1 of 2: {len(ENCODINGS)} encodings behind the linear stem on "
        f"{' and '.join(DATASETS)}, {len(SEEDS)} seeds, {max_epochs} epochs."
    )
    compared = run(encodings, out=out, jobs=jobs)
    finish(compared)
    typer.echo(
        f"Step 2 of 2: the default transformer and random convolutions on {DEFAULT_DATASET}."
    )
    models = run(default, out=out / "default", jobs=jobs)
    finish(models)
    scores = compared.results.pivot_table("accuracy", "encoding", "dataset")
    ranked = scores.assign(mean=scores.mean(axis=1)).sort_values("mean", ascending=False)
    typer.echo()
    table(
        ("encoding", *(f" {name}" for name in ranked)),
        ((name, *(f"{score:.3f}" for score in row)) for name, *row in ranked.itertuples()),
    )
    typer.echo()
    typer.echo(_answer(ranked["mean"]))
    for _, fit in models.results.iterrows():
        typer.echo(
            f"{DEFAULT_DATASET}, {fit['method']}: accuracy {fit['accuracy']:.3f} in "
            f"{fit['fit_cpu_seconds']:.0f} processor seconds."
        )
    typer.echo()
    typer.echo(f"picture  {compared.figure_path}")
    if compared.report_path:
        typer.echo(f"report   {compared.report_path}")
    typer.echo(f"runs     {as_typed(compared.ui_command)}")
    typer.echo(f"yours    {as_typed('tsformer compare --data my.csv --label y --set stem=linear')}")


def _answer(means: pd.Series[float]) -> str:
    """Say whether the encoding matters, from mean accuracies, best first."""
    best, score, control = means.index[0], means.iloc[0], means["none"]
    question = "Does the encoding matter here?"
    if score - control < EQUAL:
        return (
            f'{question} No: "{best}" scores {score:.2f}, and without one ("none") {control:.2f}.'
        )
    close = [f'"{name}"' for name, mean in means.iloc[1:].items() if score - mean < EQUAL]
    ties = f" {' and '.join(close)} within two points of it." if close else ""
    return f'{question} Yes: "{best}" scores {score:.2f}, without one ("none") {control:.2f}.{ties}'
