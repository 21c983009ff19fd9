"""The first minutes: does the encoding matter?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tsformer._files import check_output
from tsformer.cli.parsing import option
from tsformer.cli.printing import as_typed, table
from tsformer.cli.studies import finish, run

if TYPE_CHECKING:
    import pandas as pd

#: They come with sktime, so that nothing is downloaded; short series first.
DATASETS = ("ItalyPowerDemand", "ArrowHead")
ENCODINGS = ("none", "fixed", "learnable", "lspe", "rope", "erpe")
SEEDS = (0, 1)
#: Accuracies this close are called equal: two seeds cannot tell them apart.
EQUAL = 0.02


def demo(
    max_epochs: Annotated[int, option("Epochs per fit.")] = 40,
    jobs: Annotated[int, option("Number of parallel fits; -1 for one per core.")] = 2,
    out: Annotated[Path, option("The folder for results and report.")] = Path("results/demo"),
) -> None:
    """Compare six encodings on real data: run this first.

    With the linear stem, one token per step, only the encoding knows the order of steps. Short
    series give the first picture, then longer ones join it. Downloads nothing.

    [bold]Example[/bold]

      tsformer demo
    """
    from tsformer.studies import Study

    check_output(out)
    for number, dataset in enumerate(DATASETS, 1):
        typer.echo(
            f"Step {number} of {len(DATASETS)}: {len(ENCODINGS)} encodings behind the linear stem "
            f"on {dataset}, {len(SEEDS)} seeds, {max_epochs} epochs."
        )
        study = Study(
            DATASETS[:number],
            ENCODINGS,
            seeds=SEEDS,
            parameters={"stem": "linear", "max_epochs": max_epochs},
            title="demo",
        )
        compared = run(study, out=out, jobs=jobs)
        finish(compared)
        fits = compared.results[compared.results["dataset"] == dataset]
        means = fits.groupby("encoding")["accuracy"].mean().sort_values(ascending=False)
        typer.echo()
        table(("encoding", " accuracy"), ((name, f"{mean:.3f}") for name, mean in means.items()))
        typer.echo(f"\n{_answer(means)}\npicture  {compared.figure_path}\n")
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
