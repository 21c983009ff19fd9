"""compare() and which_encoding(): run the trials of a study, each of them once."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import joblib
import numpy.typing as npt
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets

from tsformer._checks import check_number
from tsformer._optional import require
from tsformer.data.containers import to_arrays, to_items, to_source
from tsformer.data.layout import check_ids, refuse_recording
from tsformer.data.table import Source
from tsformer.encodings import find
from tsformer.estimators.groups import read_groups
from tsformer.estimators.targets import check_length, read_targets
from tsformer.studies._output import check_folder, write_atomically
from tsformer.studies.analysis.ranking import answer
from tsformer.studies.analysis.statistics import mean_ranks
from tsformer.studies.design.study import Study
from tsformer.studies.report.summary_table import summary_table
from tsformer.studies.run.events import Progress, listener_of
from tsformer.studies.run.finalize import attempt, by_variant, finalize, study_note
from tsformer.studies.run.fits import Fits, cluster
from tsformer.studies.run.halving import Halving, seconds_of
from tsformer.studies.run.lock import DRIVER_TAG, exclusive, this_process
from tsformer.studies.run.problem import Problem, fold_sizes, n_train, own_problem
from tsformer.studies.run.results import ResultStore
from tsformer.studies.run.trial import name_column
from tsformer.tracking import prepare_store
from tsformer.tracking.options import without_credentials
from tsformer.tracking.views import make_views


@dataclass(frozen=True)
class Comparison:
    """The outcome of a study.

    Attributes
    ----------
    study : Study
        The design.
    results : DataFrame
        One row per successful fit: `dataset`, `encoding` (or `method`, in a study with methods),
        varied parameters, `n_train` with train sizes, `seed`, `resample`, scores, costs (memory in
        MB), `helped` (conversions), `configuration` (a hash), `version`, `commit`, `run_id`.
    failures : DataFrame
        One row per fit that raised: the columns up to `resample`, and `error`.
    unrecorded : DataFrame
        One row per fit that the store lacks: it was out of reach. The same call repeats these.
    csv_path, figure_path, report_path : Path or None
        The results, the figure, and the HTML report, which needs the extra `statistics`.
    ui_command : str
        The shell command that shows the runs; for a tracking server, the address of their view.
    ranking : DataFrame or None
        With a budget, one row per encoding, the best first: `encoding`, `folds` (their number),
        `accuracy` (mean), `behind` (the leader), `margin` (half-width of its 95 % interval),
        `outcome`, `fit_seconds` (median).
    verdict : str
        The first sentences of the report as Markdown, or `answer`; empty without either.
    """

    study: Study
    results: pd.DataFrame
    failures: pd.DataFrame
    unrecorded: pd.DataFrame
    csv_path: Path
    figure_path: Path | None
    report_path: Path | None
    ui_command: str
    ranking: pd.DataFrame | None = None
    verdict: str = ""

    def __repr__(self) -> str:
        """Return counts, ranks, verdict and paths."""
        lost = {"failed": len(self.failures), "not recorded": len(self.unrecorded)}
        counts = [f"{len(self.results)} fits", *(f"{n} {fate}" for fate, n in lost.items() if n)]
        if self.ranking is not None:
            ranks = self.ranking.set_index("encoding")[["folds", "accuracy", "outcome"]]
        else:  # over the data sets with all methods, the best first
            name = name_column(self.study)
            table = self.summary().pivot(index="dataset", columns=name, values="accuracy")
            table = table.dropna() if len(table.dropna()) else table
            ranks = pd.DataFrame({"mean rank": mean_ranks(table), "accuracy": table.mean()})
            ranks = ranks.sort_values(["mean rank", "accuracy"], ascending=[True, False])
        shown = ranks.to_string(max_rows=20, float_format="%.3f") if len(ranks) else ""
        paths = "\n".join(f"{name:<8}{path}" for name, path in self.places().items() if path)
        head = f"{self.study.label}: {', '.join(counts)}"
        return "\n\n".join(filter(None, (head, shown, self.verdict, paths)))

    def places(self) -> dict[str, Path | str | None]:
        """Return where table, figure, report and runs are."""
        files = {"table": self.csv_path, "figure": self.figure_path, "report": self.report_path}
        return {**files, "runs": self.ui_command}

    def answer(self) -> str:
        """Return the ranking in one sentence of Markdown; ValueError without a ranking."""
        if self.ranking is None:
            raise ValueError("no ranking: there was no budget, or no fit within it; see `failures`")
        return answer(self.ranking)

    def summary(self) -> pd.DataFrame:
        """Summarise results and skipped fits over seeds and resamples: `summary_table`.

        If the study varies parameters, a name has the encoding and the variant.
        """
        tables = (by_variant(table, self.study) for table in (self.results, self.failures))
        return summary_table(*tables)


def compare(
    study: Study,
    *,
    out: str | Path = "results/compare",
    tracking_uri: str | None = None,
    experiment: str = "tsformer",
    jobs: int = 1,
    scheduler: str | None = None,
    fit_time_limit: float | None = None,
    budget: float | str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    verbose: int | bool | None = None,
) -> Comparison:
    """Fit every encoding or method on every data set with every seed; score each once.

    Each fit is an MLflow run. The same call resumes after any interruption: it reads finished fits
    back and repeats those that failed. A fit that raises, or whose worker process ends, is FAILED
    and the others continue. Ctrl-C ends current runs as KILLED and raises KeyboardInterrupt.

    Parameters
    ----------
    study : Study
        The design.
    out : path, default="results/compare"
        Folder for ``results.csv``, ``study.json``, table, figure, failures and ``report/``.
    tracking_uri, experiment : str, optional
        The MLflow store, as `tsformer.tracking.resolve_uri` takes it, and the experiment in it.
    jobs : int, default=1
        Number of parallel fits on this machine, each in a process with its share of the cores; -1
        for one per core. With 1, only methods of other libraries have a process of their own.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``"tcp://127.0.0.1:8786"``; replaces `jobs`.
    fit_time_limit : float, optional
        Seconds, without imports and compilation, after which a fit fails and its process ends.
    budget : float or str, optional
        Seconds, or a time such as ``"10min"``, for the successive halving of `which_encoding`.
    on_progress : callable, optional
        Called with a Progress at every event.
    verbose : int or bool, optional
        1 prints a line for each fit on standard error; default on a terminal without `on_progress`.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError, ImportError, tsformer.data.DatasetError
        Before any fit: for options that do not suit the study, missing data or libraries.
    ConnectionError, StudyBusyError, FileExistsError
        If the store or scheduler cannot be used, another call runs this study in the store, or
        `out` has results that the store does not know and that would be lost.
    """
    require("matplotlib.figure", extra="plots", purpose="the figure of a comparison")
    listener = listener_of(verbose, on_progress)
    check_number("jobs", jobs, 1, whole=True, also=(-1,))
    check_number("fit_time_limit", fit_time_limit, 0, excluded=True, also=(None,))
    if scheduler is not None and (jobs != 1 or fit_time_limit is not None):
        options = f"jobs={jobs} and fit_time_limit={fit_time_limit}"
        raise ValueError(f"{options} are for this machine, and scheduler for others: give only one")
    jobs = int(joblib.effective_n_jobs(jobs))
    limit = None if budget is None else seconds_of(budget)
    varies = study.datasets[1:] or study.seeds[1:] or study.methods or study.varied
    several = study.encodings[1:] and study.resamples > 1
    if limit and (varies or not (several and fold_sizes(study.datasets[0]))):
        raise ValueError(
            f"budget={budget!r} chooses between two encodings or more, with one seed, by the folds "
            "of your own data set: use which_encoding, without methods, vary and train_sizes"
        )
    if jobs > 1 or scheduler is not None or fit_time_limit is not None:
        for name in study.names:
            modules = [find(term).__module__ for term in study.terms_of(name)]
            if "__main__" in (study.method(name).estimator.partition(".")[0], *modules):
                problem = f"{name!r} is in the main script, which other processes cannot import"
                raise ValueError(f"{problem}; move it to a module of its own, or use jobs=1")
    study.check()
    for name in study.datasets:
        Problem.load(name, study.resamples - 1)  # folds limit the resamples
        for number, size in itertools.product(range(study.resamples), study.train_sizes):
            n_train(name, number, size)
    folder = Path(out)
    if not (folder / "results.csv").exists():  # ResultStore checks an existing file
        names = ("study.json", "summary.md", "failures.csv", "comparison.png", "ranking.md")
        check_folder(folder, names, sign="study.json", text='"datasets"')
    with ExitStack() as stack:
        client = stack.enter_context(cluster(scheduler)) if scheduler else None
        store = prepare_store(tracking_uri, experiment)
        remote = scheduler and urlsplit(scheduler).hostname not in ("127.0.0.1", "localhost", "::1")
        if remote and store.uri.startswith("sqlite:"):
            problem = f"workers at {scheduler} cannot write to {store.uri}, a file of this machine"
            raise ValueError(f"{problem}; pass the address of an `mlflow server` as tracking_uri")
        stack.enter_context(exclusive(store, study.name))
        results = ResultStore(study, store, folder / "results.csv").open()
        write_atomically(json.dumps(study.as_dict(), indent=2) + "\n", folder / "study.json")
        tags = {DRIVER_TAG: this_process(), "tsformer.study": study.name}
        tags |= {"mlflow.runColor": "#000000", "mlflow.note.content": study_note(study, store)}
        parent = store.start(study.label, kind="study", key=study.name, tags=tags, again=True)
        with parent:
            parent.params(study.as_dict())
            parent.json(study.as_dict(), "study.json")
            fits, ranking = Fits(parent.run_id, listener, jobs, fit_time_limit, client), None
            try:
                with closing(fits):
                    if limit is None:
                        deque(fits.run(study.trials(), results), maxlen=0)
                    else:
                        (name,) = study.datasets
                        length = max(x.shape[-1] for x in Problem.load(name).X_train)
                        sizes, n_jobs = fold_sizes(name), fits.n_parallel()
                        halving = Halving(study, results, fits.run, limit, sizes, length, n_jobs)
                        halving.run()
                        ranking = halving.ranking()
            except BaseException:
                attempt(results.release, "marking the running fits as killed")
                raise
            attempt(results.settle, "checking for duplicate runs")
            written = finalize(results, folder, parent, ranking, limit is not None)
        views = make_views(store, study.name)
        fits.progress.send("end")
    where = store.ui_command()
    if views and not store.uri.startswith("sqlite:"):
        server = without_credentials(store.uri).rstrip("/")
        where = f"{server}/{store.page_of_view(next(iter(views)))}"
    tables = results.results(), results.failures(), results.without_record()
    return Comparison(
        study, *tables, csv_path=results.path, ui_command=where, ranking=ranking, **written
    )


def which_encoding(
    X: Any,
    y: npt.ArrayLike,
    *,
    budget: float | str,
    groups: npt.ArrayLike | None = None,
    encodings: str | Sequence[str] = "all",
    n_folds: int = 5,
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    name: str = "own",
    **options: Any,
) -> Comparison:
    """Rank encodings on one's own series by successive halving within a time budget.

    All encodings are fitted on the first fold. Round by round the next fold is fitted with the
    better half, at least two encodings, and with any other within two standard errors of the best
    if the budget suffices for all its folds. The budget counts training and predicting; no fit
    begins that is expected to exceed it, and the cheapest come first. The same call resumes, with a
    larger budget it continues. The lead of the best of several is optimistic. Intervals are of
    paired differences over the folds, by the corrected resampled t-test (Nadeau and Bengio, Machine
    Learning 2003), and are not corrected for the number of encodings.

    Parameters
    ----------
    X, y : series and labels
        As `TSTransformerClassifier.fit` takes them. Keep the series for the final test out.
    budget : float or str
        Seconds, or a time such as ``"10min"`` or ``"2h"``.
    groups : array-like (n_cases,), optional
        Groups, such as patients, that no fold separates.
    encodings : str or sequence of str, default="all"
        Names, or sums such as ``"tape+erpe"``; ``"all"`` for every registered encoding.
    n_folds : int, default=5
        Number of stratified folds.
    seed : int, default=0
        The seed of all fits.
    parameters : mapping, optional
        Parameters of `TSTransformerClassifier`, as in ``{"stem": "linear"}``.
    name : str, default="own"
        Name of the data: they are written to ``data/NAME-HASH``, where fits find them.
    **options
        Passed to `compare`.

    Returns
    -------
    Comparison

    References
    ----------
    Jamieson and Talwalkar, "Non-stochastic Best Arm Identification", AISTATS 2016.

    Examples
    --------
    >>> X, y = tsformer.load_dataset("ItalyPowerDemand", "train")  # doctest: +SKIP
    >>> found = which_encoding(X, y, budget="2min", parameters={"stem": "linear"})  # doctest: +SKIP
    >>> print(found.answer())  # doctest: +SKIP
    `erpe` leads `rope` by 0.8 ± 0.5 points over 5 folds; `none` was dropped after round 1.
    """
    seconds_of(budget)  # None would mean no budget to `compare`
    check_ids(X, y, "y")
    refuse_recording(X, y)
    # The checks of `fit`: the problem would have text for labels, and every fit would fail.
    timestamps = (parameters or {}).get("timestamps")
    source = to_source(X, index=timestamps == "index")
    series = to_arrays(source) if timestamps is None else to_items(X)
    labels = read_targets(y, "y")
    check_classification_targets(labels)
    check_length(len(series), labels, "y")
    if groups is not None:
        groups = read_groups(groups, X, len(series)).astype(str)
    data = Source(series, labels.astype(str), groups=groups)
    problem = own_problem(name, data, n_folds=n_folds, timestamps=timestamps)
    study = Study(
        (problem.name,),
        encodings,  # type: ignore[arg-type]  # a name stands for the list with it
        seeds=(seed,),
        parameters=parameters or {},
        resamples=n_folds,
        splits={problem.name: problem.split},
    )
    return compare(study, budget=budget, **options)
