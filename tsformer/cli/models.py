"""One model: fit, predict, evaluate."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tsformer._names import unknown
from tsformer.cli import parsing
from tsformer.cli.tracking import Experiment, NoTrack, RunName, TrackingUri, Where, say_where

if TYPE_CHECKING:
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


def fit(
    dataset: Annotated[str, typer.Argument(help="Name of a data set; see `tsformer datasets`.")],
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
    """Train on the train split of a data set and save the model.

    If MLflow is installed, the fit is a tracked run, to which evaluate adds test scores.

    [bold]Examples[/bold]

      tsformer fit BasicMotions --encoding lspe --out model
      tsformer fit ECG200 --encoding tape+erpe --max-epochs 100 --set n_layers=1
      tsformer fit NATOPS --set stem=patch --set encoding_params.d_hidden=32
      tsformer fit FordA --checkpoint state --resume
      torchrun --nproc-per-node=2 -m tsformer fit FordA --checkpoint state
    """
    from tsformer import TSTransformerClassifier, load_dataset
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
            X, y = load_dataset(dataset, "train")
        tracked: AbstractContextManager[ModelRun | None] = nullcontext()
        if where is not None and ranks.leads:
            from tsformer.tracking.model_run import tracked_fit

            tracked = tracked_fit(classifier, X, y, dataset=dataset, **asdict(where))
        with tracked as run:
            classifier.fit(X, y)
        if not ranks.leads:
            return
        save_or_rescue(classifier.save, out)
    history = classifier.history_
    n_parameters = sum(w.numel() for model in classifier.models_ for w in model.parameters())
    typer.echo(
        f"{classifier.encoding} on {dataset}: {len(y)} series, {classifier.n_iter_} epochs in "
        f"{sum(row['seconds'] for row in history):.1f} s, {n_parameters:,} parameters, "
        f"loss {history[-1]['loss']:.3f}"
    )
    typer.echo(f"saved in {out}; next: tsformer evaluate {out} {dataset}")
    say_where(run)
    if history.interrupted:
        raise KeyboardInterrupt


def predict(
    model: Model,
    file: Annotated[Path, typer.Argument(help="Series in .ts format; labels are ignored.")],
    out: Annotated[
        Path | None, typer.Option(help="The CSV file to write; by default standard output.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each class.")
    ] = False,
) -> None:
    """Classify the series of a .ts file, writing one CSV row per series.

    [bold]Examples[/bold]

      tsformer predict model new.ts
      tsformer predict model new.ts --proba --out predictions.csv
    """
    import pandas as pd

    import tsformer
    from tsformer.data.tsfile import read_ts

    classifier = tsformer.load(model)
    series, _ = read_ts(file)
    rows = pd.DataFrame({"label": classifier.predict(series)})
    if proba:
        columns = [f"p({label})" for label in classifier.classes_]
        rows[columns] = classifier.predict_proba(series).round(6)
    rows.to_csv(out or sys.stdout, index_label="series")
    if out:
        typer.echo(f"{len(rows)} predictions written to {out}")


def evaluate(
    model: Model,
    dataset: Annotated[str, typer.Argument(help="The data set whose test split is scored.")],
    no_track: NoTrack = False,
    tracking_uri: TrackingUri = None,
    experiment: Experiment = None,
    run_name: RunName = None,
) -> None:
    """Score a saved model on the test split of a data set.

    The scores are added to the run that the model's fit was tracked in, if it is in the store in
    use or in a file of this machine; else they get a run of their own.

    [bold]Example[/bold]

      tsformer evaluate model BasicMotions
    """
    from sklearn.metrics import classification_report

    import tsformer

    where = Where.asked(no_track, tracking_uri, experiment, run_name)
    classifier = tsformer.load(model)
    X, y = tsformer.load_dataset(dataset, "test")
    typer.echo(f"{classifier.encoding} on the {len(y)} test series of {dataset}")
    typer.echo(classification_report(y, classifier.predict(X), digits=4, zero_division=0))
    if where is not None:
        from tsformer.tracking.model_run import track_evaluation

        say_where(track_evaluation(classifier, X, y, dataset=dataset, **asdict(where)))
