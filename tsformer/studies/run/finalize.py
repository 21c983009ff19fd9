"""What a study leaves when its fits are done: table, figure, report, and runs that sum them up."""

from __future__ import annotations

import importlib.util
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pandas as pd

from tsformer.plots import plot_comparison
from tsformer.studies.ledger import Ledger
from tsformer.studies.report import summary_table, to_csv, to_markdown, write_atomically
from tsformer.studies.scores import labels
from tsformer.studies.study import Study
from tsformer.studies.study_pictures import log_statistics
from tsformer.studies.study_report import write_report
from tsformer.studies.summary_runs import summary_runs
from tsformer.tracking import TrackedRun

__all__ = ["attempt", "by_variant", "conclude"]

T = TypeVar("T")


def conclude(ledger: Ledger, folder: Path, parent: TrackedRun) -> tuple[Path | None, Path | None]:
    """Write the table, the figure and the report, and log all that the study's run is to show.

    Returns
    -------
    figure, report : Path or None
        None of no results; the report is None without the extra `statistics`, too.
    """
    results, failures = ledger.results(), ledger.failures()
    failed = folder / "failures.csv"
    if failures.empty:
        failed.unlink(missing_ok=True)  # of an earlier call
    else:
        write_atomically(to_csv(failures), failed)
        parent.text(to_csv(failures), failed.name)
    counts = {"fits/finished": len(ledger.rows), "fits/failed": len(ledger.errors)}
    parent.metrics({**counts, "fits/unrecorded": len(ledger.unrecorded)})
    if results.empty:
        return None, None
    shown = by_variant(results, ledger.study)
    table = to_markdown(summary_table(shown))
    if not failures.empty:
        table += f"\n{len(failures)} fits failed and are not in the table: {failed.name}.\n"
    write_atomically(table, folder / "summary.md")
    figure_path = folder / "comparison.png"
    figure = plot_comparison(shown)
    figure.savefig(figure_path)
    parent.text(to_csv(results), "results.csv")
    parent.text(table, "summary.md")
    parent.figure(lambda: figure, "comparison.png")
    report_path = None
    if all(map(importlib.util.find_spec, ("scikit_posthocs", "baycomp", "jinja2"))):
        log_statistics(results, parent)
        report_path = attempt(lambda: _report(folder, parent), "writing the report")
    summary_runs(ledger.study, results, ledger.store, parent)
    return figure_path, report_path


def _report(folder: Path, parent: TrackedRun) -> Path:
    here = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    command = shlex.join(["tsformer", "report", str(here)])
    files = write_report(folder, command=command)
    parent.text(files.html.read_text(encoding="utf-8"), files.html.name)
    return files.html


def by_variant(results: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the results with names in `encoding` that tell variants apart."""
    if not study.vary or results.empty:
        return results
    return results.assign(encoding=results["encoding"] + ", " + labels(results, study.vary))


def attempt(do: Callable[[], T], what: str) -> T | None:
    """Do it, or warn: what comes after the fits never fails them."""
    try:
        return do()
    except Exception as error:  # whatever it is: the fits are done
        warnings.warn(f"{what} failed: {type(error).__name__}: {error}", stacklevel=3)
        return None
