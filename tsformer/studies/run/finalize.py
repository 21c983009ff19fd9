"""Write table, figure and report of a study, and the MLflow runs that summarise its fits."""

from __future__ import annotations

import importlib.util
import shlex
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pandas as pd

from tsformer._files import replacing
from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.plots import encoding_colors
from tsformer.studies._files import to_csv, write_atomically
from tsformer.studies.analysis.analyse import analyse, default_baseline
from tsformer.studies.analysis.plots import (
    plot_comparison,
    plot_ranking,
)
from tsformer.studies.analysis.ranking import answer, ranking_page
from tsformer.studies.analysis.scores import (
    StudyScores,
    distinct_fits,
    labels,
    read_study,
    variant_scores,
    was_skipped,
)
from tsformer.studies.analysis.statistics import mean_ranks, mean_scores
from tsformer.studies.design.methods import digest
from tsformer.studies.design.study import Study
from tsformer.studies.report.summary_table import summary_table, to_markdown
from tsformer.studies.report.verdict import verdict
from tsformer.studies.report.write import write_findings
from tsformer.studies.run.results import ResultStore
from tsformer.studies.run.trial import name_column, plain
from tsformer.tracking import RunStore, TrackedRun
from tsformer.tracking.views import PLACE_TAG, VARIANT_TAG, view_of_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def study_note(study: Study, store: RunStore) -> str:
    """Describe a study's run in Markdown: purpose, design, view."""
    what = "methods" if study.methods else "encodings"
    counts = {what: study.names, "data sets": study.datasets, "seeds": study.seeds}
    counts |= {f"values of {name}": tuple(values) for name, values in study.varied.items()}
    sizes = {name: len(items) for name, items in counts.items()} | {"resamples": study.resamples}
    design = " × ".join(f"{n} {name}" for name, n in sizes.items() if n > 1) or "one fit"
    side_by_side = f"{what.capitalize()} side by side"
    links = ", ".join(
        f"[{variant or side_by_side}]"
        f"({store.page_of_view(view_of_study(study.name, digest(variant) if variant else ''))})"
        for variant in study.variants
    )
    views = f"{side_by_side}: {links}" if study.varied else links
    lines = (  # links first: MLflow folds long descriptions
        f"{views}; the artifacts have the report and the results.",
        study.description.strip(),
        f"{design}: {len(study.trials())} fits.",
        f"Made by `{store.command}`.",
    )
    return "\n\n".join(filter(None, lines))


#: Scores averaged over the compared fits.
_SCORES = ("balanced_accuracy", "f1_macro", "log_loss")
#: Costs averaged over data sets after the median over fits: one slow fit does not shift it.
_COSTS = (
    *("fit_seconds", "seconds_per_epoch", "n_parameters", "n_parameters_encoding"),
    *("peak_memory_mb", "predict_seconds", "predict_memory_mb"),
)
_NOTE = (
    "Means over {fits} fits on {datasets} data sets.{left_out} `test/accuracy_spread` is the "
    "standard deviation over seeds and resamples of one data set, averaged over data sets. "
    "`test/mean_rank` is 1 for the best method on every data set. The picture of the encoding is "
    "of the fit on {first} with seed {seed}. Part of [this study]({study})."
)


def summary_runs(
    study: Study, scores: StudyScores, store: RunStore, parent: TrackedRun, figure: Figure
) -> list[str]:
    """Create a run per encoding or method and variant that summarises its fits."""
    varied, parts = [*study.varied], {}
    for part in variant_scores(scores):
        parts[tuple(part.rows[varied].iloc[0].map(str))] = part
    made, colors = [], encoding_colors(study.names)
    for variant, values in study.variants.items():
        found = parts.get(tuple(str(plain(value)) for value in values.values()))
        if found is None:  # all its fits failed
            continue
        ranks = mean_ranks(mean_scores(found.used)).sort_values()
        places = {name: f"{place:03d}" for place, name in enumerate(ranks.index, start=1)}
        n_left_out, pictured = len(found.rows) - len(found.used), False
        lacking = f" {n_left_out} fits are left out, since some method lacks that draw."
        for name in study.names:
            # A fit that all seeds share has no spread.
            fits = distinct_fits(found.used[found.used["method"] == name], "dataset")
            if fits.empty:  # all its fits failed
                continue
            note = _NOTE.format(
                fits=len(fits),
                datasets=fits["dataset"].nunique(),
                left_out=lacking if n_left_out else "",
                first=fits.iloc[0]["dataset"],
                seed=fits.iloc[0]["seed"],
                study=store.page_of(parent.run_id),
            )
            run = store.start(
                ", ".join(filter(None, (name, variant))),
                kind="encoding",
                key="/".join(filter(None, (study.name, name, variant))),
                parent=parent,
                tags={
                    "mlflow.runColor": colors[name],
                    "mlflow.note.content": note,
                    "tsformer.study": study.name,
                    VARIANT_TAG: f"|{digest(variant)}|" if variant else "",
                    PLACE_TAG: places[name],
                },
                again=True,
            )
            with run:
                run.params({name_column(study): name, "study": study.name, **values})
                run.metrics(_metrics(fits, rank=float(ranks[name])))
                if not pictured:  # one run of the view has the picture of all
                    run.attempt("the scores", partial(log_scores, scores.rows, figure, run))
                    pictured = True
                source = str(fits.iloc[0]["run_id"])  # of the same draw for all
                run.attempt("the encoding", partial(copy_picture, run, source))
            made.append(run.run_id)
    return made


def copy_picture(run: TrackedRun, source: str) -> None:
    """Copy the picture of the encoding, if there is one, from another run."""
    client, tag = run.client, "tsformer.picture_of"
    if not source or client.get_run(run.run_id).data.tags.get(tag) == source:
        return  # MLflow would add another
    if not any(each.path == "encoding.png" for each in client.list_artifacts(source)):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = client.download_artifacts(source, "encoding.png", folder)
        image = require("PIL.Image", extra="plots", purpose="figures in MLflow")
        with image.open(path) as picture:
            run.image(picture.convert("RGB"), "encoding")
        client.log_artifact(run.run_id, path)
    run.tags({tag: source})


def log_scores(results: pd.DataFrame, figure: Figure, run: TrackedRun) -> None:
    """Log ``comparison.png`` of all fits, which MLflow's view of the study shows."""
    tag, which = "tsformer.scores_of", digest(results.to_csv(index=False))
    if run.client.get_run(run.run_id).data.tags.get(tag) != which:  # MLflow would add another
        run.figure(lambda: figure, "comparison.png", key="scores", size=900)
        run.tags({tag: which})


def _metrics(fits: pd.DataFrame, *, rank: float) -> dict[str, float]:
    by_dataset = fits.groupby("dataset", sort=False)["score"]
    means, spreads = by_dataset.mean(), by_dataset.std()
    return {
        "test/accuracy": means.mean(),
        "test/accuracy_spread": spreads.mean(),
        "test/mean_rank": rank,
        "fits/finished": len(fits),
        **{f"test/{name}": fits[name].mean() for name in _SCORES if name in fits},
        **fits.groupby("dataset")[[name for name in _COSTS if name in fits]].median().mean(),
        **means.add_prefix("test/accuracy/"),
        **spreads.add_prefix("test/accuracy_spread/"),
    }


T = TypeVar("T")


class Written(NamedTuple):
    """What a finished study wrote."""

    figure: Path | None = None
    report: Path | None = None
    verdict: str = ""


def finalize(store: ResultStore, folder: Path, parent: TrackedRun) -> Written:
    """Write table, figure and report, and log them in the study's run."""
    results, failures = _results(store, folder, parent)
    if results.empty:
        return Written()
    shown = by_variant(results, store.study)
    table = to_markdown(summary_table(shown, by_variant(failures, store.study)))
    if n_failed := int((~was_skipped(failures["error"])).sum()):
        table += f"\nFits that are not in the table: {n_failed} failed (failures.csv).\n"
    write_atomically(table, folder / "summary.md")
    figure_path = folder / "comparison.png"
    figure = plot_comparison(shown.rename(columns={"method": "encoding"}))
    with replacing(figure_path) as file:  # another call may be writing to the same folder
        figure.savefig(file, format="png")
    parent.text(to_csv(results), "results.csv")
    parent.text(table, "summary.md")
    parent.figure(lambda: figure, "comparison.png")
    scores = read_study(store.path)
    report = None
    if all(map(importlib.util.find_spec, ("scikit_posthocs", "baycomp", "jinja2"))):
        noun = name_column(store.study)
        report = attempt(lambda: report_of(scores, folder, parent, noun), "writing the report")
    summary_runs(store.study, scores, store.store, parent, figure)
    return Written(figure_path, *(report or ()))


def finalize_ranking(
    ranking: pd.DataFrame | None, store: ResultStore, folder: Path, parent: TrackedRun
) -> Written:
    """Write ranking and figure, and log them in the study's run, where its description begins."""
    results, _ = _results(store, folder, parent)
    parent.text(to_csv(results), "results.csv")
    if ranking is None:
        return Written()
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
    return Written(figure_path, verdict=answer(ranking))


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


def report_of(scores: StudyScores, folder: Path, parent: TrackedRun, noun: str) -> tuple[Path, str]:
    """Write and log the report; return its page and its first sentences."""
    baseline = default_baseline(scores)
    findings = analyse(scores, baseline=baseline)
    here = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    command = shlex.join(["tsformer", "report", str(here)])
    files = write_findings(scores, findings, folder / "report", baseline=baseline, command=command)
    parent.text(files.html.read_text(encoding="utf-8"), files.html.name)
    return files.html, "\n".join(verdict(each, baseline, noun) for each in findings)


def by_variant(results: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the results with varied values in the names of encodings or methods."""
    if results.empty or not study.varied:
        return results
    name = name_column(study)
    return results.assign(**{name: results[name] + ", " + labels(results, study.varied)})


def attempt(do: Callable[[], T], what: str) -> T | None:
    """Call `do`; if it raises, warn and return None: nothing after the fits may fail them."""
    try:
        return do()
    except Exception as error:  # the fits are done and must not fail
        warn_caller(f"{what} failed: {type(error).__name__}: {error}")
        return None
