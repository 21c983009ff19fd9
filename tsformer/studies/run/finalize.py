"""Write table, figure and report of a study, and the MLflow runs that summarise its fits."""

from __future__ import annotations

import importlib.util
import shlex
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tsformer._files import replacing
from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.plots import encoding_colors
from tsformer.studies._output import to_csv, write_atomically
from tsformer.studies.analysis import study_scores as analysis
from tsformer.studies.analysis.plots import plot_comparison, plot_ranking
from tsformer.studies.analysis.ranking import answer, ranking_page
from tsformer.studies.analysis.statistics import mean_ranks, mean_scores
from tsformer.studies.analysis.study_scores import StudyScores
from tsformer.studies.design.methods import digest
from tsformer.studies.design.study import Study
from tsformer.studies.report.summary_table import summary_table, to_markdown
from tsformer.studies.report.write import write_report
from tsformer.studies.run.results import ResultStore
from tsformer.studies.run.trial import COST_COLUMNS, SCORE_COLUMNS, name_column, plain
from tsformer.tracking import RunStore, TrackedRun
from tsformer.tracking.views import PLACE_TAG, VARIANT_TAG, view_of_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def study_note(study: Study, store: RunStore) -> str:
    """Describe a study's run in Markdown: views, purpose, size, command."""
    kind = "Methods" if study.methods else "Encodings"
    views = {v: view_of_study(study.name, digest(v) if v else "") for v in study.variants}
    links = ", ".join(  # first: MLflow folds long descriptions
        f"[{v or f'{kind} side by side'}]({store.page_of_view(view)})" for v, view in views.items()
    )
    made = f"{len(study.trials())} fits. Made by `{store.command}`."
    return f"{links}\n\n{study.description.strip()}\n\n{made}"


#: Costs averaged over data sets after the median over fits: one slow fit does not shift it.
_AVERAGED = [name for name in COST_COLUMNS if name not in ("fit_cpu_seconds", "n_epochs")]
_NOTE = (
    "Means over {} fits on {} data sets. `test/accuracy_spread` is the standard deviation over "
    "seeds and resamples of one data set, averaged over data sets. `test/mean_rank` is 1 for the "
    "best method on every data set. Part of [this study]({})."
)


def summary_runs(
    study: Study, scores: StudyScores, store: RunStore, parent: TrackedRun, figure: Figure
) -> list[str]:
    """Create a run per encoding or method and variant that summarises its fits."""
    varied, made, colors = [*study.varied], [], encoding_colors(study.names)
    tables = analysis.variant_scores(scores)
    used = {tuple(table.rows[varied].iloc[0].map(str)): table.used for table in tables}
    for variant, values in study.variants.items():
        rows = used.get(tuple(str(plain(value)) for value in values.values()))
        if rows is None:  # every fit failed
            continue
        ranks = mean_ranks(mean_scores(rows)).sort_values()
        for position, name in enumerate(ranks.index, 1):
            # A fit that all seeds share has no spread.
            fits = analysis.distinct_fits(rows[rows["method"] == name], "dataset")
            counts = len(fits), fits["dataset"].nunique()
            tags = {
                "mlflow.runColor": colors[name],
                "mlflow.note.content": _NOTE.format(*counts, store.page_of(parent.run_id)),
                "tsformer.study": study.name,
                VARIANT_TAG: f"|{digest(variant)}|" if variant else "",
                PLACE_TAG: f"{position:03d}",
            }
            label, key = ", ".join(filter(None, (name, variant))), f"{study.name}/{name}/{variant}"
            options: dict[str, Any] = {"parent": parent, "tags": tags, "again": True}
            with store.start(label, kind="encoding", key=key, **options) as run:
                run.params({name_column(study): name, "study": study.name, **values})
                run.metrics({"test/mean_rank": ranks[name], **_metrics(fits)})
                if position == 1:  # MLflow's view of the study shows all fits in one run
                    source = digest(scores.rows.to_csv(index=False))
                    draw = partial(run.figure, lambda: figure, "comparison.png", key="scores")
                    _once(run, "scores", source, partial(draw, size=900))
                source = str(fits["run_id"].iloc[0])  # of the same draw for all
                _once(run, "encoding", source, partial(_copy_picture, run, source))
            made.append(run.run_id)
    return made


def _once(run: TrackedRun, name: str, source: str, log: Callable[[], object]) -> None:
    """Log a picture unless the run has it from this source: MLflow would add another."""
    tag, stored = f"tsformer.{name}_of", run.read()
    if source and stored is not None and stored.data.tags.get(tag) != source:
        run.attempt(f"the {name}", log)
        run.tags({tag: source})


def _copy_picture(run: TrackedRun, source: str) -> None:
    """Copy the picture of the encoding, if there is one, from another run."""
    if "encoding.png" in {file.path for file in run.client.list_artifacts(source)}:
        with tempfile.TemporaryDirectory() as folder:
            path = run.client.download_artifacts(source, "encoding.png", folder)
            image = require("PIL.Image", extra="plots", purpose="figures in MLflow")
            with image.open(path) as picture:
                run.image(picture.convert("RGB"), "encoding")
            run.client.log_artifact(run.run_id, path)


def _metrics(fits: pd.DataFrame) -> dict[str, float]:
    by_dataset = fits.groupby("dataset", sort=False)
    means, spreads = by_dataset["score"].mean(), by_dataset["score"].std()
    return {
        "test/accuracy": means.mean(),
        "test/accuracy_spread": spreads.mean(),
        "fits/finished": len(fits),
        **{f"test/{name}": fits[name].mean() for name in SCORE_COLUMNS[1:4] if name in fits},
        **by_dataset[[name for name in _AVERAGED if name in fits]].median().mean(),
        **means.add_prefix("test/accuracy/"),
        **spreads.add_prefix("test/accuracy_spread/"),
    }


def finalize(
    store: ResultStore, folder: Path, parent: TrackedRun, ranking: pd.DataFrame | None, ranked: bool
) -> dict[str, Any]:
    """Write and log failures, table or ranking, figure and report; return paths and verdict."""
    study, results, failures = store.study, store.results(), store.failures()
    counts = len(store.rows), len(store.errors), len(store.unrecorded)
    names = ("fits/finished", "fits/failed", "fits/unrecorded")
    parent.metrics(dict(zip(names, counts, strict=True)))
    parent.text(to_csv(results), "results.csv")
    (folder / "failures.csv").unlink(missing_ok=True)  # of an earlier call
    texts = {} if failures.empty else {"failures.csv": to_csv(failures)}
    figure, path = None, folder / ("ranking.png" if ranked else "comparison.png")
    written: dict[str, Any] = {"figure_path": None, "report_path": None, "verdict": ""}
    if ranking is not None:
        page, figure = ranking_page(ranking), plot_ranking(ranking)
        texts |= {"ranking.md": page, "ranking.csv": to_csv(ranking)}
        note = f"{page}\n{study_note(study, store.store)}"
        written["verdict"] = answer(ranking)
        parent.tags({"tsformer.answer": answer(ranking), "mlflow.note.content": note})
    elif not ranked and not results.empty:
        shown = by_variant(results, study)
        texts["summary.md"] = to_markdown(summary_table(shown, by_variant(failures, study)))
        figure = plot_comparison(shown.rename(columns={"method": "encoding"}))
    for name, text in texts.items():
        write_atomically(text, folder / name)
        parent.text(text, name)
    if figure is None:
        return written
    with replacing(path) as file:  # another call may be writing to the same folder
        figure.savefig(file, format="png", dpi=150 if ranked else "figure")
    drawn, written["figure_path"] = figure, path
    parent.figure(lambda: drawn, path.name, key="ranking" if ranked else "", size=900)
    if not ranked:
        if all(map(importlib.util.find_spec, ("scikit_posthocs", "baycomp", "jinja2"))):
            written |= attempt(partial(report_of, folder, parent), "writing the report") or {}
        summary_runs(study, analysis.read_study(store.path), store.store, parent, figure)
    return written


def report_of(folder: Path, parent: TrackedRun) -> dict[str, Any]:
    """Write and log the report; return its page and its first sentences."""
    here = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    files = write_report(folder, command=shlex.join(["tsformer", "report", str(here)]))
    page = files.html
    parent.attempt(page.name, lambda: parent.client.log_artifact(parent.run_id, str(page)))
    return {"report_path": page, "verdict": files.verdict}


def by_variant(results: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the results with varied values in the names of encodings or methods."""
    if results.empty or not study.varied:
        return results
    name = name_column(study)
    return results.assign(**{name: results[name] + ", " + analysis.labels(results, study.varied)})


def attempt(do: Callable[[], Any], label: str) -> Any:
    """Call `do`; if it raises, warn and return None: nothing after the fits may fail them."""
    try:
        return do()
    except Exception as error:
        warn_caller(f"{label} failed: {type(error).__name__}: {error}")
        return None
