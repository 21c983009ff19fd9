"""Write table, figure, report and summary runs of a study."""

from __future__ import annotations

import importlib.util
import shlex
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pandas as pd

from tsformer._files import replacing
from tsformer.plots import plot_learning_curves
from tsformer.studies._files import to_csv, write_atomically
from tsformer.studies.analysis.analyse import analyse, default_baseline
from tsformer.studies.analysis.plots import plot_comparison, plot_ranking
from tsformer.studies.analysis.ranking import answer, ranking_page
from tsformer.studies.analysis.scores import StudyScores, labels, read_study, was_skipped
from tsformer.studies.design.study import Study
from tsformer.studies.report.summary import summary_table, to_markdown
from tsformer.studies.report.write import write_findings
from tsformer.studies.run.results import ResultStore
from tsformer.studies.run.summary_runs import log_findings, log_scores, study_note, summary_runs
from tsformer.studies.run.trial import name_column
from tsformer.tracking import TrackedRun

T = TypeVar("T")


def finalize(
    store: ResultStore, folder: Path, parent: TrackedRun
) -> tuple[Path | None, Path | None]:
    """Write table, figure and report, and log them in the study's run."""
    results, failures = _results(store, folder, parent)
    if results.empty:
        return None, None
    shown = by_variant(results, store.study)
    table = to_markdown(summary_table(shown, by_variant(failures, store.study)))
    n_failed = int((~was_skipped(failures["error"])).sum())
    if n_failed:
        table += f"\nFits that are not in the table: {n_failed} failed (failures.csv).\n"
    write_atomically(table, folder / "summary.md")
    figure_path = folder / "comparison.png"
    figure = plot_comparison(shown.rename(columns={"method": "encoding"}))
    with replacing(figure_path) as file:  # another call may be writing to the same folder
        figure.savefig(file, format="png")
    parent.text(to_csv(results), "results.csv")
    parent.text(table, "summary.md")
    parent.figure(lambda: figure, "comparison.png")
    attempt(lambda: log_scores(results, store.study, parent), "logging the scores")
    if len(store.study.train_sizes) > 1:
        named = _labelled(results, store.study, store.study.vary)
        parent.figure(lambda: plot_learning_curves(named), "learning_curves.png")
    scores = read_study(store.path)
    report_path = None
    if all(map(importlib.util.find_spec, ("scikit_posthocs", "baycomp", "jinja2"))):
        report_path = attempt(lambda: _report(scores, folder, parent), "writing the report")
    summary_runs(store.study, scores, store.store, parent)
    return figure_path, report_path


def finalize_ranking(
    ranking: pd.DataFrame | None, store: ResultStore, folder: Path, parent: TrackedRun
) -> tuple[Path | None, None]:
    """Write ranking and figure, and log them in the study's run, where its description begins."""
    results, _ = _results(store, folder, parent)
    parent.text(to_csv(results), "results.csv")
    if ranking is None:
        return None, None
    page, figure = ranking_page(ranking), plot_ranking(ranking)
    write_atomically(page, folder / "ranking.md")
    write_atomically(to_csv(ranking), folder / "ranking.csv")
    figure_path = folder / "ranking.png"
    with replacing(figure_path) as file:
        figure.savefig(file, format="png", dpi=150)
    parent.text(page, "ranking.md")
    parent.text(to_csv(ranking), "ranking.csv")
    parent.figure(lambda: figure, "ranking.png", key="ranking", size=900)
    note = f"{page}\n{study_note(store.study, store.store)}"
    parent.tags({"tsformer.answer": answer(ranking), "mlflow.note.content": note})
    return figure_path, None


def _results(
    store: ResultStore, folder: Path, parent: TrackedRun
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return results and failures; log their numbers, and the failures."""
    results, failures = store.results(), store.failures()
    failed = folder / "failures.csv"
    if failures.empty:
        failed.unlink(missing_ok=True)  # of an earlier call
    else:
        write_atomically(to_csv(failures), failed)
        parent.text(to_csv(failures), failed.name)
    counts = {"fits/finished": len(store.rows), "fits/failed": len(store.errors)}
    parent.metrics({**counts, "fits/unrecorded": len(store.unrecorded)})
    return results, failures


def _report(scores: StudyScores, folder: Path, parent: TrackedRun) -> Path:
    baseline = default_baseline(scores)
    findings = analyse(scores, baseline=baseline)
    log_findings(findings, parent)
    here = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    command = shlex.join(["tsformer", "report", str(here)])
    files = write_findings(scores, findings, folder / "report", baseline=baseline, command=command)
    parent.text(files.html.read_text(encoding="utf-8"), files.html.name)
    return files.html


def by_variant(results: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the results with the variant in the names of encodings or methods."""
    return _labelled(results, study, study.varied)


def _labelled(results: pd.DataFrame, study: Study, varied: Iterable[str]) -> pd.DataFrame:
    if results.empty or not list(varied):
        return results
    name = name_column(study)
    return results.assign(**{name: results[name] + ", " + labels(results, varied)})


def attempt(do: Callable[[], T], what: str) -> T | None:
    """Call `do`; if it raises, warn and return None: nothing after the fits may fail them."""
    try:
        return do()
    except Exception as error:  # the fits are done and must not fail
        warnings.warn(f"{what} failed: {type(error).__name__}: {error}", stacklevel=3)
        return None
