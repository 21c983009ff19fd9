"""The first minutes: a small comparison on real problems, and where to go from there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tsformer._files import check_output
from tsformer.cli.invocation import as_typed
from tsformer.cli.studies import run_and_show

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["demo"]

#: They come with sktime, so that nothing is downloaded.
DATASETS = ("BasicMotions", "ItalyPowerDemand", "JapaneseVowels")
ENCODINGS = ("none", "fixed", "learnable", "lspe")
SEEDS = (0, 1)
#: CPU time of an epoch of all fits, and of all else. It was measured beside other programs, which
#: makes it longer: a quiet machine is done sooner.
SECONDS_PER_EPOCH = 11.0
SECONDS_BESIDE = 30.0


def demo(
    max_epochs: Annotated[int, typer.Option(help="Epochs of each fit.")] = 40,
    jobs: Annotated[int, typer.Option(help="Number of parallel fits; -1 for one per core.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder for results and report.")] = Path(
        "results/demo"
    ),
) -> None:
    """Compare four encodings on three real problems: the first thing to run.

    Says what it does and how long it takes; ends with the best method, the page
    to open, and the command to try on a table of your own. Nothing is downloaded.
    """
    from tsformer.studies import Study

    check_output(out)
    budget = {"max_epochs": max_epochs}
    study = Study(DATASETS, ENCODINGS, seeds=SEEDS, parameters=budget, title="demo")
    minutes = max(1, round((SECONDS_BESIDE + SECONDS_PER_EPOCH * max_epochs) / 60))
    typer.echo(
        f"{len(study.trials())} fits of {max_epochs} epochs, each tracked in MLflow: the encodings "
        f"{', '.join(ENCODINGS)}\non the problems {', '.join(DATASETS)}, with {len(SEEDS)} seeds.\n"
        f"That takes up to {minutes} minute{'s' * (minutes > 1)} on one core. Ctrl-C loses no fit "
        "that has ended: the same command goes on."
    )
    comparison = run_and_show(study, out=out, jobs=jobs)
    report = comparison.report_path
    typer.echo()
    typer.echo(f"best    {_best(comparison.summary())}")
    page = "" if report is None else f"{report.resolve().as_uri()} or run: "
    typer.echo(f"open    {page}{as_typed(comparison.ui_command)}")
    typer.echo(f"yours   {as_typed('tsformer fit my.csv --case id --time t --label y')}")


def _best(summary: pd.DataFrame) -> str:
    """Name the method with the best mean accuracy, and the next one."""
    means = summary.groupby("encoding", sort=False)["accuracy"].mean()
    (best, accuracy), (after, less) = means.sort_values(ascending=False, kind="stable")[:2].items()
    return (
        f"{best}: mean test accuracy {accuracy:.3f} on {len(DATASETS)} problems; next is {after}, "
        f"{less:.3f}. With {len(SEEDS)} seeds, small differences are chance."
    )
