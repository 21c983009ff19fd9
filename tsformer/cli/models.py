"""One model: fit, predict, evaluate."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsformer._names import unknown
from tsformer.cli import parsing
from tsformer.cli.tables import described, with_columns
from tsformer.cli.tracking import Experiment, NoTrack, RunName, TrackingUri, Where, say_where

if TYPE_CHECKING:
    from tsformer.data.sources import Source
    from tsformer.data.table import TableSchema
    from tsformer.tracking.model_run import ModelRun

__all__ = ["Set", "evaluate", "fit", "predict"]

Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A parameter of the classifier, e.g. stem=linear or encoding_params.d_hidden=32; "
        "can be repeated.",
    ),
]
Model = Annotated[Path, typer.Argument(help="A folder written by `tsformer fit`.")]


@with_columns
def fit(
    dataset: Annotated[
        str,
        typer.Argument(
            help="Name of a data set, see `tsformer datasets`; or a table (CSV, Parquet) or .ts "
            "file."
        ),
    ],
    columns: TableSchema,
    encoding: Annotated[
        str, typer.Option(help="A name, or a sum such as tape+erpe; see `tsformer encodings`.")
    ] = "lspe",
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("model"),
    max_epochs: Annotated[
        int | None,
        typer.Option(help="Maximum number of epochs; by default chosen from the size of the data."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder for checkpoints during training.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the checkpoint of an interrupted run.")
    ] = False,
    set_: Set = [],  # noqa: B006  Typer reads the default and gives each call its own list
    no_track: NoTrack = False,
    tracking_uri: TrackingUri = None,
    experiment: Experiment = None,
    run_name: RunName = None,
) -> None:
    """Train on the train split of a data set, or on a file of your own, and save the model.

    A long table has one row per observation, a wide one has one series per
    row. Its columns are kept with the model, for predict and evaluate.
    Labels are text, as written: 007 is not 7.

    If MLflow is installed, the fit is a tracked run, to which evaluate adds test scores.

    [bold]Examples[/bold]

      tsformer fit BasicMotions --encoding lspe --out model
      tsformer fit long.csv --case id --time t --value a,b,c --label y
      tsformer fit wide.csv --label y
      tsformer fit ECG200 --encoding tape+erpe --max-epochs 100 --set n_layers=1
      tsformer fit NATOPS --set stem=patch --set encoding_params.d_hidden=32
      tsformer fit FordA --checkpoint state --resume
      torchrun --nproc-per-node=2 -m tsformer fit FordA --checkpoint state
    """
    from tsformer import TSTransformerClassifier
    from tsformer.data.sources import is_file, read_source
    from tsformer.encodings.registry import find
    from tsformer.estimators.parameters import check_parameters
    from tsformer.persistence import check_destination, save_or_rescue
    from tsformer.training.distributed import process_group
    from tsformer.training.plan import resolve_device

    options = {"encoding": encoding, "random_state": seed, **parsing.settings(set_)}
    if checkpoint is not None:
        options |= {"checkpoint_dir": str(checkpoint), "resume": resume}
    elif resume:
        raise ValueError("--resume continues from a checkpoint; name its folder with --checkpoint")
    if max_epochs is not None:
        options["max_epochs"] = max_epochs
    known = TSTransformerClassifier().get_params()
    for name in options:
        if name not in known:
            raise ValueError(unknown("parameter", name, known))
    where = Where.asked(no_track, tracking_uri, experiment, run_name)
    check_destination(out)  # fail before training rather than after it
    classifier = TSTransformerClassifier(**{"verbose": 1, **options})
    check_parameters(classifier.get_params(deep=False))  # `fit` does so when there is a run already
    for part in str(classifier.encoding).split("+"):
        find(part.strip())
    with process_group(resolve_device(classifier.device)) as ranks:
        with ranks.first():  # download only once
            source = read_source(dataset, columns)
        if is_file(dataset) and ranks.leads:
            typer.echo(described(dataset, source))
        X, y = source.X, source.y
        tracked: AbstractContextManager[ModelRun | None] = nullcontext()
        if where is not None and ranks.leads:
            from tsformer.tracking.model_run import tracked_fit

            tracked = tracked_fit(
                classifier, X, y, dataset=dataset, loader=_loader(dataset), **asdict(where)
            )
        with tracked as run:
            classifier.fit(X, y)
        if source.schema is not None:
            classifier.table_schema_ = source.schema
        if not ranks.leads:
            return
        save_or_rescue(classifier.save, out)
    history = classifier.history_
    n_parameters = sum(w.numel() for model in classifier.models_ for w in model.parameters())
    typer.echo(
        f"{classifier.encoding} on {dataset}: {len(X)} series, {classifier.n_iter_} epochs in "
        f"{sum(row['seconds'] for row in history):.1f} s, {n_parameters:,} parameters, "
        f"loss {history[-1]['loss']:.3f}"
    )
    new = f"predict {out} new{Path(dataset).suffix}"
    following = new if is_file(dataset) else f"evaluate {out} {dataset}"
    typer.echo(f"saved in {out}; next: tsformer {following}")
    say_where(run)
    if history.interrupted:
        raise KeyboardInterrupt


@with_columns
def predict(
    model: Model,
    file: Annotated[
        str, typer.Argument(help="A table (CSV, Parquet) or a .ts file; labels are ignored.")
    ],
    columns: TableSchema,
    out: Annotated[
        Path | None, typer.Option(help="The CSV file to write; by default standard output.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each class.")
    ] = False,
) -> None:
    """Classify the series of a file, writing one CSV row per series.

    A table is read as the one that the model was trained on; options are
    needed only where its columns are called differently. A row begins with
    the name of its series, or else its number.

    [bold]Examples[/bold]

      tsformer predict model new.csv
      tsformer predict model new.ts --proba --out predictions.csv
    """
    import pandas as pd

    classifier, found = _read_for(model, file, columns, labelled=False)
    rows = pd.DataFrame({"label": classifier.predict(found.X)}, index=found.cases)
    if proba:
        names = [f"p({label})" for label in classifier.classes_]
        rows[names] = classifier.predict_proba(found.X).round(6)
    named = found.schema is not None and found.schema.case
    rows.to_csv(out or sys.stdout, index_label=named or "series")
    if out:
        typer.echo(f"{len(rows)} predictions written to {out}")


@with_columns
def evaluate(
    model: Model,
    dataset: Annotated[
        str,
        typer.Argument(
            help="A data set, whose test split is scored; or a table (CSV, Parquet) or .ts file."
        ),
    ],
    columns: TableSchema,
    no_track: NoTrack = False,
    tracking_uri: TrackingUri = None,
    experiment: Experiment = None,
    run_name: RunName = None,
) -> None:
    """Score a saved model on the test split of a data set, or on a file of your own.

    A table is read as the one that the model was trained on. The scores are added to the run that
    the model's fit was tracked in, if it is in the store in use or in a file of this machine; else
    they get a run of their own.

    [bold]Examples[/bold]

      tsformer evaluate model BasicMotions
      tsformer evaluate model test.csv
    """
    import warnings

    import numpy as np
    from sklearn.metrics import classification_report

    from tsformer.data.sources import is_file

    where = Where.asked(no_track, tracking_uri, experiment, run_name)
    classifier, found = _read_for(model, dataset, columns, labelled=True)
    classes = [str(label) for label in classifier.classes_]
    strange = sorted({*(() if found.y is None else found.y.tolist())} - {*classes})
    if strange:
        warnings.warn(
            f"{len(strange)} of the labels are none of the model's classes, and so never right: "
            f"{', '.join(map(repr, strange[:5]))}; it knows {', '.join(map(repr, classes[:20]))}",
            stacklevel=1,
        )
    test = "series" if is_file(dataset) else "test series"
    typer.echo(f"{classifier.encoding} on the {len(found.X)} {test} of {dataset}")
    predicted = np.asarray(classifier.predict(found.X)).astype(str)
    typer.echo(classification_report(found.y, predicted, digits=4, zero_division=0))
    if where is not None:
        from tsformer.tracking.model_run import track_evaluation

        # Files have labels as text; a model that was trained elsewhere may have numbers.
        own = dict(zip(classes, classifier.classes_.tolist(), strict=True))
        y = np.array([own.get(label, label) for label in np.asarray(found.y).tolist()])
        tracked = track_evaluation(
            classifier, found.X, y, dataset=dataset, loader=_loader(dataset), **asdict(where)
        )
        say_where(tracked)


def _loader(dataset: str) -> str:
    """Return where tracking says that data come from; "" for the official split of a problem."""
    from tsformer.data.sources import is_file

    return f"the file {dataset}" if is_file(dataset) else ""


def _read_for(
    model: Path, source: str, columns: TableSchema, *, labelled: bool
) -> tuple[Any, Source]:
    """Load a model, and read series as those that it was trained on."""
    import tsformer
    from tsformer.data.sources import read_source

    classifier = tsformer.load(model)
    trained = getattr(classifier, "table_schema_", None)
    return classifier, read_source(
        source, columns, trained=trained, split="test", labelled=labelled
    )
