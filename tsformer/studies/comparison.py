"""compare(): a study's fits, one after the other, each done only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tsformer._optional import require
from tsformer.plots import encoding_color, plot_comparison
from tsformer.studies.fit import COLUMNS, COUNTS, Problem, fit_cell, read_back, warm_up
from tsformer.studies.progress import Progress, ProgressReporter
from tsformer.studies.report import summary_table, to_csv, to_markdown, write_atomically
from tsformer.studies.study import Cell, Study
from tsformer.tracking import RunStore, TrackedRun, prepare_store

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """What came of a study.

    Attributes
    ----------
    study : Study
        What was asked.
    results : DataFrame
        A row for each fit that ended well: `dataset`, `encoding`, `seed`, the test metrics
        (`accuracy`, `balanced_accuracy`, `f1_macro`, `log_loss`), `fit_seconds`,
        `seconds_per_epoch`, `n_epochs`, `n_parameters`, `n_parameters_encoding`,
        `peak_memory_mb`, `configuration` (hash of the shared parameters), `version` of tsformer
        and `run_id` in MLflow.
    failures : DataFrame
        A row for each fit that raised: `dataset`, `encoding`, `seed`, `error`.
    csv_path : Path
        The results as a file.
    figure_path : Path or None
        The figure; None if no fit ended well.
    ui_command : str
        The shell line that shows the runs; of a tracking server, the address to open.
    """

    study: Study
    results: pd.DataFrame
    failures: pd.DataFrame
    csv_path: Path
    figure_path: Path | None
    ui_command: str

    def summary(self) -> pd.DataFrame:
        """Return the results over seeds, as `summary_table` does."""
        return summary_table(self.results)


def compare(
    study: Study,
    *,
    out: str | Path = "results/compare",
    tracking_uri: str | None = None,
    experiment: str = "tsformer",
    on_progress: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Fit every encoding on every data set with every seed; score each fit once on the test split.

    Each fit is a run in MLflow under a key of its own. What an earlier call left finished is read
    back and not done again, so that the same call goes on after an interruption. A fit that
    raises is recorded as FAILED and the others go on; Ctrl-C ends the current run as KILLED and
    goes through, with the results so far in the CSV. A study has one driver at a time.

    Parameters
    ----------
    study : Study
        What to fit.
    out : path, default="results/compare"
        Folder for ``results.csv``, ``summary.md`` and ``comparison.png``.
    tracking_uri : str, optional
        The MLflow store, as `tsformer.tracking.resolve_uri` takes it.
    experiment : str, default="tsformer"
        The MLflow experiment.
    on_progress : callable, optional
        Called with a Progress at each event.

    Returns
    -------
    Comparison

    Raises
    ------
    tsformer.data.DatasetError
        For a data set that cannot be had; before any fit, as are the next two.
    ConnectionError
        If the store cannot be used.
    ImportError
        If mlflow or matplotlib is missing.
    """
    require("matplotlib.figure", extra="plots", purpose="the figure of a comparison")
    problems = {name: Problem.load(name) for name in study.datasets}
    store = prepare_store(tracking_uri, experiment)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    csv_path = folder / "results.csv"

    cells = study.cells()
    keys = {study.key(*cell): cell for cell in cells}
    ours = {"tsformer.configuration": study.hash}
    rows = {keys[k]: read_back(keys[k], run) for k, run in store.finished(keys, ours).items()}
    store.kill_stale(keys, ours)
    failures: list[dict[str, object]] = []
    write_atomically(to_csv(_frame(rows, cells)), csv_path)
    progress = ProgressReporter(on_progress, cells, skipped=set(rows))
    if len(rows) < len(cells):
        warm_up(problems[study.datasets[0]])  # or the first encoding's fit would look slow
    with store.start(study.name, kind="study", key=study.name, again=True) as parent:
        parent.params(study.as_dict())
        parent.json(study.as_dict(), "study.json")
        for cell in cells:
            if cell in rows:
                continue
            progress.fit_start(cell)
            try:
                row = fit_cell(cell, study, problems[cell.dataset], store, parent, progress)
            except Exception as error:  # one fit that fails must not cost the others
                message = f"{type(error).__name__}: {error}"
                failures.append({**cell._asdict(), "error": message})
                progress.fit_end(error=message)
            else:
                rows[cell] = row
                write_atomically(to_csv(_frame(rows, cells)), csv_path)
                progress.fit_end(accuracy=row["accuracy"])
        results = _frame(rows, cells)
        figure_path = None
        if rows:
            figure_path = folder / "comparison.png"
            _conclude(results, folder, figure_path, parent)
            _summary_runs(study, summary_table(results), store, parent)
        parent.metrics({"fits/finished": len(rows), "fits/failed": len(failures)})
    progress.end()
    return Comparison(
        study=study,
        results=results,
        failures=pd.DataFrame(failures, columns=[*Cell._fields, "error"]),
        csv_path=csv_path,
        figure_path=figure_path,
        ui_command=store.ui_command(),
    )


def _frame(rows: dict[Cell, dict[str, Any]], cells: list[Cell]) -> pd.DataFrame:
    frame = pd.DataFrame([rows[cell] for cell in cells if cell in rows], columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(COUNTS, "Int64"))


def _conclude(results: pd.DataFrame, folder: Path, figure_path: Path, parent: TrackedRun) -> None:
    """Write the table and the figure, and log them with the results."""
    table = to_markdown(summary_table(results))
    write_atomically(table, folder / "summary.md")
    figure = plot_comparison(results)
    figure.savefig(figure_path)
    parent.text(to_csv(results), "results.csv")
    parent.text(table, "summary.md")
    parent.figure(lambda: figure, "comparison.png")


def _summary_runs(study: Study, table: pd.DataFrame, store: RunStore, parent: TrackedRun) -> None:
    """Make one run an encoding that sums up its fits: MLflow's own grouping shows no spread."""
    for encoding in study.encodings:
        part = table[table["encoding"] == encoding]
        if part.empty:  # all its fits failed
            continue
        run = store.start(
            f"{encoding}, mean of its fits",
            kind="encoding",
            key=f"{study.name}/{encoding}",
            parent=parent,
            tags={"mlflow.runColor": encoding_color(encoding)},
            again=True,
        )
        with run:
            run.params({"encoding": encoding, "study": study.name})
            run.metrics(
                {
                    "test/accuracy": part["accuracy"].mean(),
                    "test/accuracy_spread": part["spread"].mean(),
                    "fit_seconds": part["fit_seconds"].mean(),
                    "n_parameters": part["n_parameters"].mean(),
                }
            )
            for dataset, accuracy in zip(part["dataset"], part["accuracy"], strict=True):
                run.metrics({f"test/accuracy/{dataset}": accuracy})
