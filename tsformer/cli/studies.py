"""Compare encodings and other methods across data sets and seeds, and report it."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsformer._files import check_output
from tsformer.cli import parsing
from tsformer.cli.models import MaxEpochs
from tsformer.cli.parsing import argument, option
from tsformer.cli.printing import Json, as_typed, print_markdown, table
from tsformer.cli.tables import described
from tsformer.cli.tracking import TrackingUri

if TYPE_CHECKING:
    from tsformer.data.table import TableSchema
    from tsformer.studies import Comparison, Study

# Flags that define a study; other flags choose where and how it runs.
_DATA = ("datasets", "data", "folds", "seeds", "resamples", "train_sizes")
_OF_A_STUDY = (*_DATA, "encodings", "methods", "max_epochs", "vary", "set_")
#: They come with sktime, so that nothing is downloaded; short series first.
DATASETS = ("ItalyPowerDemand", "ArrowHead")
ENCODINGS = "none,fixed,learnable,lspe"
SEEDS = (0, 1)
#: Accuracies this close are called equal: two seeds cannot tell them apart.
EQUAL = 0.02


def compare(
    context: typer.Context,
    columns: TableSchema,
    datasets: Annotated[str, option("Data sets; see `tsformer datasets`.", "A,B")] = "",
    data: Annotated[str | None, option("A file of your own, to cross-validate.", "FILE")] = None,
    folds: Annotated[int, option("Number of folds of --data.")] = 5,
    encodings: Annotated[
        str, option("See `tsformer encodings`; or classes.", "A,B|all")
    ] = ENCODINGS,
    methods: Annotated[str, option("Classifiers; see `tsformer methods`.", "A,B")] = "",
    allow_import: parsing.AllowImport = False,
    seeds: Annotated[str, option("Number or list of seeds; 1 with --data.", "N|A,B")] = "3",
    max_epochs: MaxEpochs = None,
    vary: Annotated[list[str], option("Values of a parameter.", "NAME=A,B")] = [],  # noqa: B006
    resamples: Annotated[int, option("Splits per data set, the official first.")] = 1,
    train_sizes: Annotated[str, option("Parts of the train split, as in 50,10%.", "N,P%")] = "",
    study: Annotated[Path | None, option("A file of the options above.", "FILE.toml")] = None,
    name: Annotated[str, option("Name in MLflow; by default of the --study file.")] = "",
    out: Annotated[Path, option("The folder for results and report.")] = Path("results/compare"),
    jobs: Annotated[int, option("Number of parallel fits; -1 for one per core.")] = 1,
    scheduler: Annotated[str | None, option("Dask scheduler that runs fits.", "ADDRESS")] = None,
    fit_time_limit: Annotated[float | None, option("Fail longer fits.", "SECONDS")] = None,
    budget: Annotated[str | None, option("Rank on --data in, say, 10min.", "TIME")] = None,
    tracking_uri: TrackingUri = None,
    experiment: Annotated[str, option("Name of the MLflow experiment.")] = "tsformer",
    as_json: Json = False,
    set_: parsing.Set = [],  # noqa: B006
) -> None:
    """Compare encodings or methods across data sets and seeds.

    Every fit is a tracked run. To resume an interrupted comparison, run the command again. Under
    one seed, the parts of --train-sizes are nested. Progress goes to standard error; --json prints
    every fit and the paths of the files.

      tsformer compare --datasets BasicMotions,ECG200 --encodings none,lspe --jobs 2
      tsformer compare --data my.csv --label y --encodings all --set stem=linear --budget 10min
    """
    from tsformer.baselines import BASELINES, find
    from tsformer.data.sources import is_file, read_source
    from tsformer.studies import Study
    from tsformer.studies.analysis.ranking import ranking_page
    from tsformer.studies.report.summary_table import to_markdown
    from tsformer.studies.run.halving import seconds_of
    from tsformer.studies.run.problem import own_problem

    for file in ("results.csv", "failures.csv"):
        check_output(out / file, [] if data is None else [Path(data)])
    limit = None if budget is None else seconds_of(budget)  # before any data are written
    origins = {option: context.get_parameter_source(option) for option in _OF_A_STUDY}
    typed = {option for option, origin in origins.items() if origin and origin.name != "DEFAULT"}
    flags = ", ".join(f"--{option.strip('_').replace('_', '-')}" for option in sorted(typed))
    twice = data and (datasets or resamples > 1)
    of_data = columns or "folds" in typed or (budget and study is None)
    texts = {"methods": methods, "train_sizes": train_sizes}
    empty = [name for name in texts if name in typed and not parsing.names(texts[name])]
    for wrong, message in (
        (study and typed, f"--study defines the whole study; remove {flags}, or put it there"),
        (data is None and of_data, "--folds, --budget and columns are for a file, --data FILE"),
        (twice, "--data has splits of its own: remove --datasets, --resamples"),
        (not (study or datasets or data), "name --datasets A,B, --data FILE or --study FILE.toml"),
        (empty, f"--{' '.join(empty).replace('_', '-')} names none; leave it out"),
        (data and not is_file(data), f"--data takes a file; use --datasets {data} for a data set"),
    ):
        if wrong:
            raise ValueError(message)
    if study is not None:
        sys.path.append(os.getcwd())  # for classes in files of this folder
        design = Study.from_toml(study)
    else:
        options = parsing.settings(set_)
        options |= {} if max_epochs is None else {"max_epochs": max_epochs}
        named: dict[str, dict[str, Any]] = {}
        for path in parsing.names(methods):
            find(path)
            foreign = path not in BASELINES and not path.startswith("tsformer.")
            parsing.allow_imports([path] * foreign, allowed=allow_import)
            if (method := path.rpartition(".")[2]) in named:
                raise ValueError(f"--methods names {method!r} twice; name it once")
            named[method] = {} if method == path else {"estimator": path}
        paths = [name for name in parsing.names(encodings) if "." in name]
        parsing.import_allowed(paths, allowed=allow_import)
        design = Study(
            parsing.names(datasets) if data is None else (data,),
            parsing.names(encodings) if not named or "encodings" in typed else (),
            parsing.seeds("1" if data is not None and "seeds" not in typed else seeds),
            options,
            parsing.varied(vary),
            resamples,
            named,
            train_sizes=parsing.names(train_sizes),
        )
        if data is not None:
            design.check()  # before any data are written
            source = read_source(data, columns)
            typer.echo(described(data, source), err=as_json)
            times = options.get("timestamps")
            problem = own_problem(Path(data).stem, source, n_folds=folds, timestamps=times)
            of = "" if source.groups is None else f" of {len(set(source.groups))} groups"
            typer.echo(f"{len(source.X)} series{of} in {folds} folds: {problem.home}", err=as_json)
            split: dict[str, Any] = {"splits": {problem.name: problem.split}, "resamples": folds}
            design = dataclasses.replace(design, datasets=(problem.name,), **split)
    where = {"out": out, "tracking_uri": tracking_uri, "experiment": experiment}
    how = {"jobs": jobs, "scheduler": scheduler, "fit_time_limit": fit_time_limit}
    design = dataclasses.replace(design, title=name) if name else design
    comparison = run(design, budget=limit, **where, **how)
    ranking, outputs = comparison.ranking, comparison.places()
    outputs["runs"] = as_typed(comparison.ui_command)
    if as_json:
        tables = {name: getattr(comparison, name) for name in ("results", "failures", "unrecorded")}
        tables |= {} if ranking is None else {"ranking": ranking}
        plain = {name: t.astype(object).where(t.notna(), None) for name, t in tables.items()}
        rows = {name: table.to_dict("records") for name, table in plain.items()}
        typer.echo(json.dumps(rows | outputs, indent=2, default=os.fspath))
    else:
        page = to_markdown(comparison.summary()) if budget is None else ""
        print_markdown(page if ranking is None else ranking_page(ranking))
        for label, address in outputs.items():
            if address is not None:
                typer.echo(f"{label:<8}{address}")
    if budget is not None and ranking is None:
        typer.echo("no ranking: no fit ended within the budget", err=True)
    finish(comparison, err=as_json)


def report(
    study: Annotated[Path, argument("The folder that `compare` wrote, or a CSV of scores.")],
    out: Annotated[Path | None, option("By default, report beside the scores.", "FOLDER")] = None,
    baseline: Annotated[str | None, option("Method of no gain: `none` or `tsformer`.")] = None,
    rope: Annotated[float, option("Score differences up to this count as equal.")] = 0.01,
    vary: Annotated[list[str], option("Columns of variants, if not known.", "A,B")] = [],  # noqa: B006
) -> None:
    """Write a study's report: one HTML page, and Markdown with figures.

    The page is self-contained. The study may be unfinished.

      tsformer report results/compare --baseline none --out page
    """
    from tsformer.studies.report.write import write_report
    from tsformer.tracking.store import command_line

    if out is not None:
        check_output(out)
    columns = [name for text in vary for name in parsing.names(text)] or None
    options: Any = {"baseline": baseline, "rope": rope, "vary": columns}
    files = write_report(study, out, command=command_line(), **options)
    typer.echo(f"page      {files.html}")
    typer.echo(f"markdown  {files.markdown}, with {len(files.figures)} figures")


def run(study: Study, **options: Any) -> Comparison:
    """Run a study with a line per fit on standard error; pass options to `studies.compare`."""
    from tsformer.studies import compare

    # MLflow's log of new tables and its own bars would interrupt ours.
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    try:
        return compare(study, verbose=1, **options)
    except KeyboardInterrupt:
        command = as_typed(shlex.join(["tsformer", *sys.argv[1:]]))
        typer.echo(f"finished fits are kept; to resume:\n  {command}", err=True)
        raise


def finish(comparison: Comparison, *, err: bool = False) -> None:
    """List the fits that have no score; exit with 2 if there are any."""
    from tsformer.studies.analysis.study_scores import was_skipped

    skipped = was_skipped(comparison.failures["error"])
    lost = "not recorded, since the tracking store was unreachable"
    kinds = [*skipped.map({True: "skipped", False: "failed"}), *[lost] * len(comparison.unrecorded)]
    tables = (comparison.failures, comparison.unrecorded)
    fits = [fit for table in tables for fit in table.to_dict("records")]
    for kind, fit in zip(kinds, fits, strict=True):
        error = " ".join(fit.pop("error", "").split())
        bare = ("dataset", "encoding", "method", "seed")
        words = [
            str(v) if k in bare else f"{k}={v}" for k, v in fit.items() if k != "resample" or v
        ]
        typer.echo("  ".join(filter(None, (f"{kind}: {words[0]}", *words[1:], error))), err=err)
    if len(comparison.unrecorded):
        typer.echo("run the same command once the store is back to repeat these", err=err)
    if not skipped.all() or len(comparison.unrecorded) or comparison.results.empty:
        raise typer.Exit(2)


def demo(
    max_epochs: Annotated[int, option("Epochs per fit.")] = 40,
    jobs: Annotated[int, option("Number of parallel fits; -1 for one per core.")] = 2,
    out: Annotated[Path, option("The folder for results and report.")] = Path("results/demo"),
) -> None:
    """Compare six encodings on real data: run this first.

    With the linear stem, one token per step, only the encoding knows the order of steps. Short
    series give the first picture, then longer ones join it. Downloads nothing.

      tsformer demo
    """
    from tsformer.studies import Study

    check_output(out)
    encodings = parsing.names(f"{ENCODINGS},rope,erpe")
    for number, dataset in enumerate(DATASETS, 1):
        step = f"Step {number} of {len(DATASETS)}: {len(encodings)} encodings on {dataset}"
        typer.echo(f"{step}, {len(SEEDS)} seeds, {max_epochs} epochs.")
        parameters = {"stem": "linear", "max_epochs": max_epochs}
        study = Study(DATASETS[:number], encodings, SEEDS, parameters, title="demo")
        compared = run(study, out=out, jobs=jobs)
        finish(compared)
        fits = compared.results[compared.results["dataset"] == dataset]
        means = fits.groupby("encoding")["accuracy"].mean().sort_values(ascending=False)
        typer.echo()
        table(("encoding", " accuracy"), ((name, f"{mean:.3f}") for name, mean in means.items()))
        score, control = means.iloc[0], means["none"]
        answer = "Yes" if score - control >= EQUAL else "No"
        typer.echo(
            f'\nDoes the encoding matter here? {answer}: "{means.index[0]}" scores {score:.2f}, '
            f'without one ("none") {control:.2f}.\npicture  {compared.figure_path}\n'
        )
    if compared.report_path:
        typer.echo(f"report   {compared.report_path}")
    typer.echo(f"runs     {as_typed(compared.ui_command)}")
    typer.echo(f"yours    {as_typed('tsformer compare --data my.csv --label y --set stem=linear')}")
