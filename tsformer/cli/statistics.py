"""Statistics and the report of a study's scores."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsformer._files import check_output
from tsformer.cli import parsing
from tsformer.cli.printing import Json, table

if TYPE_CHECKING:
    from tsformer.studies import Statistics

_FILES = ("pairs.csv", "critical_difference.png", "pairs.png")

Rope = Annotated[float, typer.Option(help="Scores no further apart than this count as equal.")]
Vary = Annotated[
    list[str],
    typer.Option(
        metavar="A,B",
        help="Columns that distinguish variants; by default those in study.json beside the CSV.",
    ),
]
Published = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE|FOLDER",
        help="Published accuracies to set beside the study; can be repeated.",
    ),
]


def statistics(
    results: Annotated[
        Path,
        typer.Argument(help="A CSV with the columns dataset, method, seed and score, or a folder."),
    ],
    rope: Rope = 0.01,
    vary: Vary = [],  # noqa: B006  Typer reads the default and gives each call its own list
    published: Published = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="A folder for pairs.csv and two figures.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Test which methods differ across the data sets of a table of scores.

    Each variant of a study is analysed separately, in a subfolder of --out.

    [bold]Example[/bold]

      tsformer statistics results/compare --out figures
    """
    from tsformer.studies._files import check_folder
    from tsformer.studies.analysis.analyse import analyse
    from tsformer.studies.analysis.plots import plot_critical_difference, plot_pairs
    from tsformer.studies.analysis.scores import read_study
    from tsformer.studies.report.content import published as about_published

    study = read_study(results, vary=parsing.columns(vary), published=published or None)
    findings = analyse(study, rope=rope)
    for each in findings:
        if each.statistics is None:
            continue
        if not as_json:
            typer.echo(f"\n{each.label}\n" if each.label else "", nl=False)
            _show(each.statistics)
        if len(each.used) < len(each.rows):
            typer.echo(
                f"fits        {len(each.used)} of {len(each.rows)}: those whose data set and seed "
                "every method has",
                err=as_json,
            )
        if out is None:
            continue
        folder = out / each.label if each.label else out
        files = [path for path in (results, *published) if path.is_file()]
        check_output(folder / _FILES[0], files)
        check_folder(folder, _FILES, sign=_FILES[0], text="better,worse,")
        folder.mkdir(parents=True, exist_ok=True)
        each.statistics.pairs.to_csv(folder / "pairs.csv", index=False)
        plot_critical_difference(each.statistics).savefig(
            folder / "critical_difference.png", dpi=150
        )
        plot_pairs(each.statistics).savefig(folder / "pairs.png", dpi=150)
        typer.echo(f"figures     {folder}/critical_difference.png, {folder}/pairs.png", err=as_json)
    for line in about_published(study, findings):
        typer.echo(f"published   {line}", err=as_json)
    if as_json:
        shown = [_as_json(each.label, each.statistics) for each in findings if each.statistics]
        typer.echo(json.dumps(shown, indent=2))
    obstacles = [f"{each.label}: {each.obstacle}".removeprefix(": ") for each in findings]
    missing = [
        said for said, each in zip(obstacles, findings, strict=True) if each.statistics is None
    ]
    if missing:
        raise ValueError("; ".join(missing))


def report(
    study: Annotated[
        Path, typer.Argument(help="The folder that `compare` wrote, or a CSV of scores.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; by default, report beside the scores.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="The method to compute gains over; by default none, or else tsformer, if it was "
            "compared."
        ),
    ] = None,
    rope: Rope = 0.01,
    vary: Vary = [],  # noqa: B006
    published: Published = [],  # noqa: B006
) -> None:
    """Write a study's report as one HTML page, and as Markdown with figures beside it.

    The page is self-contained. An unfinished study is reported as far as it has come.

    [bold]Example[/bold]

      tsformer report results/compare --baseline none --out page
    """
    from tsformer.studies.report.write import write_report
    from tsformer.tracking.store import command_line

    if out is not None:
        check_output(out)
    files = write_report(
        study,
        out,
        baseline=baseline,
        rope=rope,
        vary=parsing.columns(vary),
        published=published or None,
        command=command_line(),
    )
    typer.echo(f"page      {files.html}")
    typer.echo(f"markdown  {files.markdown}, with {len(files.figures)} figures")


def _as_json(label: str, found: Statistics) -> dict[str, Any]:
    """Return statistics as lists and numbers; NaN becomes None."""
    means = found.scores.mean().to_dict()
    return {
        "variant": label,
        "datasets": list(found.scores.index),
        "friedman_p": None if math.isnan(found.friedman_p) else found.friedman_p,
        "methods": [
            {"method": name, "mean_rank": rank, "mean_score": means[name]}
            for name, rank in found.ranks.items()
        ],
        "pairs": found.pairs.to_dict("records"),
    }


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
        ("method", "against", " by", " wins/ties/losses", " p (Holm)", " P better/same/worse"),
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
        typer.echo(f"left out    {', '.join(found.incomplete)}: some method has no score there")
    if found.friedman_p == found.friedman_p:  # NaN for two methods
        typer.echo(f"all alike?  p = {found.friedman_p:.3g} (Friedman)")
    typer.echo(
        f"pairs differ: {len(found.significant())} of {len(found.pairs)} (p < 0.05 after Holm)"
    )
