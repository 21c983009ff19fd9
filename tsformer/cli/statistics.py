"""What can be concluded from a table of scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tsformer.cli.printing import table

if TYPE_CHECKING:
    from tsformer.studies import Statistics

__all__ = ["statistics"]


def statistics(
    results: Annotated[
        Path, typer.Argument(help="CSV with the columns dataset, method, seed and score.")
    ],
    rope: Annotated[float, typer.Option(help="Differences so small count as none.")] = 0.01,
    out: Annotated[
        Path | None, typer.Option(help="A folder for pairs.csv and two figures.")
    ] = None,
) -> None:
    """Say which methods differ over the data sets of a table of scores, and how surely.

    Reads what `tsformer compare` wrote, or any CSV with such columns. Of a study that varied
    another parameter each variant is by itself, and its files in a folder of its own.

    [bold]Example[/bold]

      tsformer statistics results/compare/results.csv --out results/compare
    """
    from tsformer.plots import plot_critical_difference, plot_pairs
    from tsformer.studies import compare_methods
    from tsformer.studies.scores import complete, read_study, variants

    study = read_study(results)
    for label, rows in variants(study.rows).items():
        # Other methods than ours may have been drawn otherwise: their seeds are no pairs.
        used = complete(rows) if study.ours else rows
        found = compare_methods(used, rope=rope)
        if label:
            typer.echo(f"\n{label}\n")
        _show(found)
        if len(used) < len(rows):
            typer.echo(
                f"fits        {len(used)} of {len(rows)}: those whose data set and seed every "
                "method has"
            )
        if out is None:
            continue
        folder = out / label if label else out
        folder.mkdir(parents=True, exist_ok=True)
        found.pairs.to_csv(folder / "pairs.csv", index=False)
        plot_critical_difference(found).savefig(folder / "critical_difference.png", dpi=150)
        plot_pairs(found).savefig(folder / "pairs.png", dpi=150)
        typer.echo(f"figures     {folder}/critical_difference.png, {folder}/pairs.png")


def _show(found: Statistics) -> None:
    names, means = list(found.ranks.index), found.scores.mean().tolist()
    table(
        ("method", " mean rank", " mean score"),
        [
            (name, f"{rank:.2f}", f"{mean:.3f}")
            for name, rank, mean in zip(names, found.ranks, means, strict=True)
        ],
    )
    table(
        ("better", "worse", " by", " wins/ties/losses", " p (Holm)", " better/same/worse"),
        [
            (
                *(pair.better, pair.worse, f"{pair.difference:+.3f}"),
                f"{pair.wins}/{pair.ties}/{pair.loses}",
                f"{pair.p_holm:.3f}",
                f"{pair.p_better:.2f}/{pair.p_same:.2f}/{pair.p_worse:.2f}",
            )
            for pair in found.pairs.itertuples()
        ],
    )
    typer.echo(f"data sets   {len(found.scores)}")
    if found.incomplete:
        typer.echo(f"left out    {', '.join(found.incomplete)}: not every method has a score there")
    if found.friedman_p == found.friedman_p:  # NaN of two methods
        typer.echo(f"all alike?  p = {found.friedman_p:.3g} (Friedman)")
    typer.echo(
        f"pairs differ: {len(found.significant())} of {len(found.pairs)} (p < 0.05 after Holm)"
    )
