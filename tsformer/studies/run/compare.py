"""compare(): a study's fits, wherever they are done, each only once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import joblib
import pandas as pd

from tsformer._optional import require
from tsformer.encodings.registry import find
from tsformer.studies import spreading
from tsformer.studies.conclusion import attempt, by_variant, conclude
from tsformer.studies.ledger import Ledger
from tsformer.studies.problem import Problem
from tsformer.studies.progress import Progress, ProgressReporter
from tsformer.studies.report import summary_table, write_atomically
from tsformer.studies.study import Study
from tsformer.studies.work import Outcome, Task
from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.views import make_views, view_address

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """What came of a study.

    Attributes
    ----------
    study : Study
        What was asked.
    results : DataFrame
        A row for each fit that ended well: `dataset`, `encoding`, a column for each varied
        parameter, `seed`, `resample`, the test metrics (`accuracy`, `balanced_accuracy`,
        `f1_macro`, `log_loss`), `fit_seconds`, `seconds_per_epoch`, `n_epochs`, `n_parameters`,
        `n_parameters_encoding`, `peak_memory_mb`, `configuration` (hash of the shared
        parameters), `version` of tsformer, its `commit` in a checkout, and `run_id` in MLflow.
    failures : DataFrame
        A row for each fit that raised: `dataset`, `encoding`, varied parameters, `seed`,
        `resample`, `error`.
    unrecorded : DataFrame
        A row for each fit of which the store has no whole run, as it could not be reached: the
        same columns without `error`. The same call, with the store back, does these again.
    csv_path : Path
        The results as a file.
    figure_path : Path or None
        The figure; None if no fit ended well.
    report_path : Path or None
        The report as a page; None without the extra `statistics`, or if no fit ended well.
    ui_command : str
        The shell line that shows the runs; of a tracking server, the address of the view that
        sets encodings side by side.
    """

    study: Study
    results: pd.DataFrame
    failures: pd.DataFrame
    unrecorded: pd.DataFrame
    csv_path: Path
    figure_path: Path | None
    report_path: Path | None
    ui_command: str

    def summary(self) -> pd.DataFrame:
        """Return the results over seeds and resamples, as `summary_table` does.

        Where a study varied other parameters, `encoding` names encoding and variant.
        """
        return summary_table(by_variant(self.results, self.study))


def compare(
    study: Study,
    *,
    out: str | Path = "results/compare",
    tracking_uri: str | None = None,
    experiment: str = "tsformer",
    jobs: int = 1,
    scheduler: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Fit every encoding on every data set with every seed; score each fit once on the test split.

    Each fit is a run in MLflow under a key of its own. What an earlier call left finished is read
    back and not done again, so that the same call goes on after an interruption, whatever was
    killed: a worker, this process, the tracking server. A fit that raises is recorded as FAILED
    and the others go on, and so is one whose worker process ends three times in its middle. Ctrl-C
    ends current runs as KILLED and goes through, with the results so far in the CSV. A study has
    one driver at a time, and so have studies that share fits.

    Parameters
    ----------
    study : Study
        What to fit.
    out : path, default="results/compare"
        Folder for ``study.json``, ``results.csv``, ``summary.md``, ``comparison.png``, where a
        fit raised ``failures.csv``, and where the extra `statistics` is there ``report/``.
    tracking_uri : str, optional
        The MLflow store, as `tsformer.tracking.resolve_uri` takes it.
    experiment : str, default="tsformer"
        The MLflow experiment.
    jobs : int, default=1
        Fits side by side on this machine, each in a process with its share of the cores; -1 for as
        many as there are cores.
    scheduler : str, optional
        Address of a Dask scheduler, as in ``"tcp://127.0.0.1:8786"``, whose workers then do the
        fits; in place of `jobs`. Needs the extra `dask`.
    on_progress : callable, optional
        Called with a Progress at each event.

    Returns
    -------
    Comparison

    Raises
    ------
    tsformer.data.DatasetError
        For a data set that cannot be had; before any fit, as are the next four.
    ConnectionError
        If the store or the scheduler cannot be used.
    FileExistsError
        If `out` holds results that the store does not know and that would be lost.
    ValueError
        If `jobs` and `scheduler` do not go together with each other or the store.
    ImportError
        If mlflow or matplotlib is missing, or distributed where a scheduler is named.
    """
    require("matplotlib.figure", extra="plots", purpose="the figure of a comparison")
    jobs = _check_jobs(jobs, scheduler)
    modules = _modules(study, elsewhere=jobs > 1 or scheduler is not None)
    for name in study.datasets:
        Problem.load(name)
    with ExitStack() as stack:
        client = stack.enter_context(spreading.cluster(scheduler)) if scheduler else None
        store = prepare_store(tracking_uri, experiment)
        _check_reach(store, scheduler)
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        ledger = Ledger(study, store, folder / "results.csv")
        ledger.open()
        write_atomically(json.dumps(study.as_dict(), indent=2) + "\n", folder / "study.json")
        progress = ProgressReporter(
            on_progress,
            study.cells(),
            skipped=set(ledger.rows),
            workers=(lambda: sum(client.nthreads().values())) if client else (lambda: jobs),
        )
        with store.start(study.name, kind="study", key=study.name, again=True) as parent:
            parent.params(study.as_dict())
            parent.json(study.as_dict(), "study.json")
            session = uuid.uuid4().hex
            tasks = [
                Task(cell, study, store, parent.run_id, session, modules)
                for cell in ledger.waiting()
            ]
            try:
                for outcome in _outcomes(tasks, jobs, client, progress):
                    ledger.add(outcome)
                    progress.fit_end(
                        outcome.cell,
                        seconds=outcome.seconds,
                        accuracy=outcome.row["accuracy"] if outcome.row else None,
                        error=outcome.error,
                    )
            except KeyboardInterrupt:
                attempt(ledger.kill_running, "marking what was under way")
                raise
            attempt(ledger.settle, "looking for runs that are doubled")
            figure_path, report_path = conclude(ledger, folder, parent)
        views = make_views(store, study=study.name, varied=list(study.vary))
        progress.end()
    return Comparison(
        study=study,
        results=ledger.results(),
        failures=ledger.failures(),
        unrecorded=ledger.without_record(),
        csv_path=ledger.path,
        figure_path=figure_path,
        report_path=report_path,
        ui_command=_where_to_look(store, views),
    )


def _outcomes(
    tasks: list[Task], jobs: int, client: Any, progress: ProgressReporter
) -> Iterator[Outcome]:
    if not tasks:
        return iter(())
    if client is not None:
        return spreading.on_cluster(tasks, client)
    if jobs > 1:
        return spreading.in_processes(tasks, jobs)
    return spreading.in_this_process(tasks, progress)


def _where_to_look(store: RunStore, views: list[str]) -> str:
    if views and not store.uri.startswith("sqlite:"):
        return view_address(store.uri, store.experiment_id)
    return store.ui_command()


def _check_jobs(jobs: int, scheduler: str | None) -> int:
    if not isinstance(jobs, int) or isinstance(jobs, bool) or (jobs < 1 and jobs != -1):
        raise ValueError(f"jobs must be an int >= 1, or -1 for all cores; got {jobs!r}")
    if scheduler is not None and jobs != 1:
        raise ValueError(
            f"jobs={jobs} is of this machine; with scheduler={scheduler!r} there are as many fits "
            "side by side as its workers have threads. Give one of them"
        )
    return int(joblib.effective_n_jobs(jobs)) if jobs == -1 else jobs


def _check_reach(store: RunStore, scheduler: str | None) -> None:
    if scheduler is None or not store.uri.startswith("sqlite:"):
        return
    host = urlsplit(scheduler).hostname
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise ValueError(
            f"workers at {scheduler} cannot write to a file here, {store.uri}; start `mlflow "
            "server`, and give its address as tracking_uri or in MLFLOW_TRACKING_URI"
        )


def _modules(study: Study, *, elsewhere: bool) -> tuple[str, ...]:
    """Return the modules that register the study's encodings, for other processes to import."""
    parts = {part.strip() for encoding in study.encodings for part in encoding.split("+")}
    modules = {part: find(part).__module__ for part in parts}
    for part, module in modules.items():
        if elsewhere and module == "__main__":
            raise ValueError(
                f"the encoding {part!r} is defined in the script that runs, which other processes "
                "do not run; move it to a module of its own, or use jobs=1"
            )
    return tuple(sorted(set(modules.values()))) if elsewhere else ()
