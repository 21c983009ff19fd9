"""One model: fit, predict, evaluate, explain."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsformer._checks import check_known
from tsformer._files import check_output, csv_cell
from tsformer._warnings import warn_caller
from tsformer.cli import parsing
from tsformer.cli.parsing import argument, option
from tsformer.cli.printing import Json
from tsformer.cli.tables import described
from tsformer.cli.tracking import say_where

if TYPE_CHECKING:
    from tsformer.data.table import Source, TableSchema

MaxEpochs = Annotated[int | None, option("Maximum number of epochs; by default by data size.")]
#: From this number of series on, a label for each series is an error.
_SEVERAL = 9
Model = Annotated[Path, argument("A folder written by `tsformer fit`.")]
Data = Annotated[str, argument("A data set, a table (CSV, Parquet), a .ts file or a folder.")]
TestData = Annotated[str, argument("A data set (its test split), a table or a .ts file.")]
Tracking = dict[str, str | None] | None


def training(
    encoding: Annotated[str, option("One of `tsformer encodings`, a sum or a class.")] = "lspe",
    max_epochs: MaxEpochs = None,
    seed: Annotated[int, option("Random seed.")] = 0,
    checkpoint: Annotated[Path | None, option("Save checkpoints here.", "FOLDER")] = None,
    resume: Annotated[bool, option("Resume from the checkpoint.", None, "--resume")] = False,
    set_: parsing.Set = [],  # noqa: B006  Typer reads the default and gives each call its own list
    allow_import: parsing.AllowImport = False,
) -> dict[str, Any]:
    """Return the parameters of an estimator from options of training."""
    parameters = {"verbose": 1, "encoding": encoding, "random_state": seed, "resume": resume}
    parameters |= parsing.settings(set_)
    parameters |= {} if checkpoint is None else {"checkpoint_dir": str(checkpoint)}
    parameters |= {} if max_epochs is None else {"max_epochs": max_epochs}
    parsing.import_allowed([str(parameters["encoding"])], allowed=allow_import)
    return parameters


def fit(
    dataset: Data,
    columns: TableSchema,
    training: dict[str, Any],
    where: Tracking,
    out: Annotated[Path, option("The folder to write.")] = Path("model"),
    init_from: Annotated[Path | None, option("Start from a folder of `pretrain` or `fit`.")] = None,
) -> None:
    """Train a transformer on a data set or a file, and save it.

    Reads the train split of a data set. A table has one series per row or, with --case and --time,
    one observation per row. With --window, its rows are the steps of recordings. A folder is of
    `tsformer convert` or, with --window, of tables. If MLflow is installed, the fit is a run.

      tsformer fit long.csv --case id --time t --label y --out model
      tsformer fit recording.csv --window 10s --stride 5s --label activity --group person
    """
    from tsformer import TSTransformerClassifier

    training |= {} if init_from is None else {"init_from": str(init_from)}
    _train(TSTransformerClassifier(**training), dataset, columns, out, where)


def pretrain(
    dataset: Data,
    columns: TableSchema,
    training: dict[str, Any],
    where: Tracking,
    objective: Annotated[str, option("masked or contrastive.")] = "masked",
    out: Annotated[Path, option("The folder to write.")] = Path("encoder"),
) -> None:
    """Pretrain an encoder on series without labels, and save it.

    Reads the train split of a data set, or a folder of files. Labels are ignored. The loss of
    masked is the squared error of hidden values, about 1 before learning.

      tsformer pretrain FordA --out encoder && tsformer fit FordA --init-from encoder
    """
    from tsformer import TSTransformerEncoder

    encoder = TSTransformerEncoder(**{"objective": objective, **training})
    _train(encoder, dataset, columns, out, where)


def _train(estimator: Any, dataset: str, columns: TableSchema, out: Path, where: Tracking) -> None:
    """Fit and save an estimator; print a summary."""
    from tsformer._devices import resolve_device
    from tsformer.data.sources import is_file, read_source
    from tsformer.persistence import removed_on_failure, save_or_rescue
    from tsformer.training.distributed import process_group

    labelled, state = hasattr(estimator, "predict"), estimator.checkpoint_dir
    inputs = [*_paths(dataset), *_paths(estimator.get_params().get("init_from"))]
    check_output(out, inputs, replaces=True)
    if state is not None:
        check_output(Path(state), inputs)
        if Path(state).resolve().is_relative_to(out.resolve()):
            raise ValueError(f"--checkpoint {state} is in --out {out}, which is replaced")
    estimator.check_parameters()  # before there is a run
    # Checks that a model can be saved there, before training.
    with removed_on_failure(out), process_group(resolve_device(estimator.device)) as ranks:
        with ranks.first():  # download only once
            source = read_source(dataset, columns, labelled=labelled)
        X, y = source.X, source.y if labelled else None
        if (is_file(dataset) or source.windows is not None) and ranks.leads:
            typer.echo(described(dataset, source))
        if y is not None and len(set(y)) == len(X) > _SEVERAL:
            raise ValueError(
                f"each of the {len(X)} series of {dataset} has its own label: name another --label"
            )
        tracked: Any = nullcontext()
        if where is not None and ranks.leads:
            from tsformer.tracking.autologging import tracked_fit

            tracked = tracked_fit(estimator, dataset=dataset, **where)
        with tracked as run:
            estimator.fit(X, y, **({} if source.groups is None else {"groups": source.groups}))
        if source.schema is not None:  # groups of series are for training alone
            group = None if source.windows is None else source.schema.group
            estimator.table_schema_ = replace(source.schema, group=group)
        if not ranks.leads:
            return
        save_or_rescue(estimator.save, out)
    history = estimator.history_
    seconds, loss = sum(row["seconds"] for row in history), history[-1]["loss"]
    took = f"{estimator.n_iter_} epochs in {seconds:.1f} s, loss {loss:.3f}"
    typer.echo(f"{estimator.encoding} on {dataset}: {len(X)} series, {took}\nsaved in {out}")
    say_where(run)
    if history.interrupted:
        raise KeyboardInterrupt


def predict(
    model: Model,
    file: Annotated[str, argument("A table, a .ts file or a folder; labels are ignored.")],
    columns: TableSchema,
    out: Annotated[Path | None, option("CSV file to write; by default standard output.")] = None,
    proba: Annotated[bool, option("Add the probability of each class.", None, "--proba")] = False,
    novelty: Annotated[bool, option("Add novelty scores.", None, "--novelty")] = False,
    least_duration: Annotated[str | None, option("Join shorter intervals.", "TIME")] = None,
    allow_import: parsing.AllowImport = False,
) -> None:
    """Classify the series of a file; print one CSV row per series.

    A table needs the columns of the training table. A row begins with the name or number of its
    series. A model that was fitted with --window reads recordings, and prints a row per interval
    with one label: recording, start, end, label, confidence.

      tsformer predict model new.csv --proba --out predictions.csv
    """
    import numpy as np
    import pandas as pd

    from tsformer._devices import resolve_device
    from tsformer.data.series import SeriesSource
    from tsformer.data.table import steps_or_time
    from tsformer.training.distributed import process_group

    out = None if out is None else parsing.output(out, [model, *_paths(file)])
    with process_group(resolve_device("auto")) as ranks:
        classifier, source = _read_for(model, file, columns, allow_import, labelled=False)
        cut, named = source.windows, (source.schema is not None and source.schema.case) or "series"
        if cut is not None and (proba or novelty):
            raise ValueError("--proba and --novelty are for series; intervals have a confidence")
        if cut is None and least_duration is not None:
            raise ValueError("--least-duration is for a model that was fitted with --window")
        cases = pd.RangeIndex(len(source.X)) if source.cases is None else pd.Index(source.cases)
        shard = ranks.shard(len(source.X))
        stored = isinstance(source.X, SeriesSource)
        X = source.X.part(np.arange(len(cases))[shard]) if stored else source.X[shard]
        rows = pd.DataFrame(index=cases[shard])
        if cut is None:
            rows["label"] = classifier.predict(X)
        if proba or cut is not None:
            rows[[f"p({label})" for label in classifier.classes_]] = classifier.predict_proba(X)
        if novelty:
            rows["novelty"] = classifier.novelty_score(X)
        rows = pd.concat(ranks.gather(rows))
    if not ranks.leads:
        return
    if cut is not None:
        named = "recording"
        steps = cut.steps(rows.to_numpy(), classes=classifier.classes_)
        rows = cut.events(steps, steps_or_time(least_duration or "1")).set_index(named)
    rows = rows.round({name: 6 for name in rows if name not in ("start", "end")})
    rows = rows.assign(label=rows["label"].map(csv_cell)).rename(index=csv_cell)
    rows.to_csv(out or sys.stdout, index_label=csv_cell(named))
    if out:
        typer.echo(f"{len(rows)} predictions written to {out}")


def evaluate(
    model: Model,
    dataset: TestData,
    columns: TableSchema,
    where: Tracking,
    explanations: Annotated[int, option("Series per class to explain in the run.", min=0)] = 0,
    as_json: Json = False,
    allow_import: parsing.AllowImport = False,
) -> None:
    """Score a model on the test split of a data set, or on a file.

    A table needs the columns of the training table. Of recordings, the scores of steps and of
    intervals follow the scores of windows. The scores are added to the run of the fit or, if there
    is none, to a new run.

      tsformer evaluate model BasicMotions
    """
    import numpy as np
    from sklearn.metrics import classification_report

    if explanations and where is None:
        raise ValueError("--explanations needs a run of MLflow; or use `tsformer explain`")
    classifier, source = _read_for(model, dataset, columns, allow_import, labelled=True)
    classes = [str(label) for label in classifier.classes_]
    assert source.y is not None
    if extra := sorted({*source.y.tolist()} - {*classes}):
        unknown = f"{len(extra)} labels are unknown to the model and count as errors"
        listed = ", ".join(map(repr, extra[:5]))
        warn_caller(f"{unknown}: {listed}; its classes are {classes[:20]}")
    name = getattr(classifier, "encoding", type(classifier).__name__)
    typer.echo(f"{name} on the {len(source.X)} series of {dataset}", err=as_json)
    predicted = np.asarray(classifier.predict(source.X)).astype(str)
    options: dict[str, Any] = {"digits": 4, "zero_division": 0, "output_dict": as_json}
    scores = classification_report(source.y, predicted, **options)
    if source.windows is not None:  # also windows of several labels
        cut: Any = _read_for(model, dataset, columns, allow_import, labelled=False)[1].windows
        of_steps = cut.scores(cut.steps(classifier.predict_proba(cut.X), classes=classes))
        listed = ", ".join(f"{name} {score:.4f}" for name, score in of_steps.items())
        scores = scores | {"recordings": of_steps} if as_json else f"{scores}\nrecordings: {listed}"
    typer.echo(json.dumps(scores, indent=2) if as_json else scores)
    if where is not None:
        from tsformer.tracking.autologging import track_evaluation

        # Files have labels as text; a model that was trained elsewhere may have numbers.
        trained = dict(zip(classes, classifier.classes_.tolist(), strict=True))
        y = np.array([trained.get(label, label) for label in source.y.tolist()])
        options = {"dataset": dataset, "explanations": explanations, **where}
        tracked = track_evaluation(classifier, source.X, y, **options)
        say_where(tracked, err=as_json)


def explain(
    model: Model,
    dataset: TestData,
    columns: TableSchema,
    series: Annotated[str, option("The series: its name, or its number from 0.", "NAME|N")] = "0",
    method: Annotated[str | None, option("Default: integrated_gradients, or occlusion.")] = None,
    target: Annotated[str | None, option("The class; by default the predicted.", "CLASS")] = None,
    baseline: Annotated[str, option("Reference of each channel: mean, zero or a number.")] = "mean",
    out: Annotated[Path, option("The file to write.", "FILE.png")] = Path("why.png"),
    set_: parsing.Set = [],  # noqa: B006
    allow_import: parsing.AllowImport = False,
) -> None:
    """Draw a series coloured by the relevance of each value for a class.

    Methods: integrated_gradients (of transformers), occlusion, gradient_x_input,
    shapley_sampling, attention_rollout; --set n_steps=16 sets an option of one.

      tsformer explain model BasicMotions --series 3 --out why.png
    """
    import numpy as np

    from tsformer.data.containers import times_of
    from tsformer.data.series import SeriesSource
    from tsformer.explain import most_relevant_windows
    from tsformer.plots.explanations import plot_relevance_of

    out = parsing.output(out, [model, *_paths(dataset)], ending=".png")
    classifier, source = _read_for(model, dataset, columns, allow_import, labelled=False)
    names = [*map(str, source.cases or ()), *map(str, range(len(source.X)))]  # or its number
    check_known("series", series, names)
    row, method = names.index(series) % len(source.X), method or classifier.default_method
    panel = classifier.read_series(source.X)
    panel = panel.part(np.arange(len(panel)) == row)
    labels = {str(label): label for label in classifier.classes_.tolist()}
    probabilities = classifier.predict_proba(panel)[0]
    predicted = str(classifier.classes_[probabilities.argmax()])
    shown = predicted if target is None else target
    check_known("class", shown, labels)
    reference, options = parsing.value(baseline), parsing.settings(set_)
    explained = classifier.explain(panel, method, labels[shown], reference, method_params=options)
    known = "" if source.y is None else f", labelled {source.y[row]}"
    case = row if source.cases is None else source.cases[row]  # --series may be a number
    title = f"{dataset}, series {case}{known}: predicted {predicted} ({probabilities.max():.0%})"
    title += f"; {method.replace('_', ' ')} for {shown}"
    x = None if isinstance(source.X, SeriesSource) else source.X[row]
    plot_relevance_of(panel, explained[0], title, x).savefig(out)
    typer.echo(title)
    relevance, clock = explained[0][:, : int(panel.lengths[0])], times_of(x)
    for rank, (channel, begin, end) in enumerate(most_relevant_windows(relevance), 1):
        name = channel if panel.channels is None else panel.channels[channel]
        times = (f"steps {begin}", end - 1) if clock is None else (clock[begin], clock[end - 1])
        total = relevance[channel, begin:end].sum()
        typer.echo(f"{rank}. channel {name}, {times[0]} to {times[1]}: {total:+.3f}")
    typer.echo(f"drawn to {out}")


def _paths(source: str | None) -> list[Path]:
    """Return the path of a source, or the folder of a data set."""
    from tsformer.data.archive import folder_of
    from tsformer.data.sources import is_file

    if source is None:
        return []
    path = Path(source) if is_file(source) or Path(source).exists() else folder_of(source)
    return [] if path is None else [path]


def _read_for(
    model: Path, source: str, columns: TableSchema, allow_import: bool, *, labelled: bool
) -> tuple[Any, Source]:
    """Load a classifier and read series with its columns."""
    import tsformer
    from tsformer.data.sources import read_source
    from tsformer.estimators.series_estimator import SeriesEstimator
    from tsformer.persistence import read_folder

    parameters = read_folder(model)[0].get("parameters")
    encoding = parameters.get("encoding") if isinstance(parameters, dict) else None
    named = [encoding] if isinstance(encoding, str) else []
    parsing.import_allowed(named, allowed=allow_import)
    classifier = tsformer.load(model)
    kind, target = type(classifier).__name__, getattr(classifier, "target_", None)
    for wrong, problem in (
        (not hasattr(classifier, "classes_"), f"is a {kind}, which has no classes to predict"),
        (not isinstance(classifier, SeriesEstimator), f"is an {kind}"),
        (getattr(target, "shape", ()), "predicts several labels per series"),
    ):
        if wrong:
            raise ValueError(f"{model} {problem}; use it from Python")
    trained = getattr(classifier, "table_schema_", None)
    data = read_source(source, columns, trained=trained, split="test", labelled=labelled)
    return classifier, data
