"""MLflow runs of a study, and runs that summarise the fits of an encoding or a method."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from tsformer._optional import require
from tsformer.plots import encoding_color
from tsformer.studies._files import to_csv
from tsformer.studies.analysis.analyse import Findings
from tsformer.studies.analysis.plots import (
    plot_boxes,
    plot_by_dataset,
    plot_critical_difference,
    plot_pairs,
)
from tsformer.studies.analysis.scores import (
    StudyScores,
    VariantScores,
    distinct_fits,
    labels,
    variant_scores,
)
from tsformer.studies.analysis.statistics import mean_ranks, mean_scores
from tsformer.studies.design.methods import digest
from tsformer.studies.design.study import Study
from tsformer.studies.run.trial import name_column, plain
from tsformer.tracking import RunStore, TrackedRun
from tsformer.tracking.settings import warn
from tsformer.tracking.views import PLACE_TAG, VARIANT_TAG, view_of_study


def variant_tag(variants: Iterable[str]) -> str:
    """Return the tag that MLflow's views filter by; "" without variants."""
    found = [digest(variant) for variant in variants if variant]
    return f"|{'|'.join(found)}|" if found else ""


def study_tags(study: Study) -> dict[str, str]:
    """Return the tags of a study's run, which place it in each variant's view."""
    return {
        "tsformer.study": study.name,
        VARIANT_TAG: variant_tag(study.variants),
        PLACE_TAG: "000",
        "mlflow.runColor": "#000000",
    }


def study_note(study: Study, store: RunStore) -> str:
    """Describe a study's run in Markdown: purpose, design, view."""
    side_by_side = f"{'Methods' if study.methods else 'Encodings'} side by side"
    counts = {
        "methods" if study.methods else "encodings": study.names,
        "data sets": study.datasets,
        "seeds": study.seeds,
        **{f"values of {name}": values for name, values in study.varied.items()},
        "resamples": range(study.resamples),
    }
    design = " × ".join(f"{len(items)} {what}" for what, items in counts.items() if len(items) > 1)
    links = ", ".join(
        f"[{variant or side_by_side}]({_view(study, variant, store)})" for variant in study.variants
    )
    views = f"{side_by_side}: {links}" if study.varied else links
    lines = (  # links first: MLflow folds long descriptions
        f"{views}; the artifacts have the report, ranks and figures.",
        study.description.strip(),
        f"{design or 'one fit'}: {len(study.trials())} fits.",
        f"Made by `{store.command}`.",
    )
    return "\n\n".join(filter(None, lines))


def _view(study: Study, variant: str, store: RunStore) -> str:
    """Return the link to the view of a variant, relative to the server."""
    view = view_of_study(study.name, digest(variant) if variant else "")
    return store.page_of_view(view)


def log_scores(results: pd.DataFrame, study: Study, run: TrackedRun) -> None:
    """Log ``scores.png``, every encoding on every data set, for MLflow's grid of pictures too."""
    tag, which = "tsformer.picture_of", digest(results.to_csv(index=False))
    if run.client is None or run.client.get_run(run.run_id).data.tags.get(tag) == which:
        return  # already there: another one would be added, not replace it
    panels = labels(results, study.varied) if study.varied else None
    named = results.rename(columns={"method": "encoding"})
    draw = functools.partial(plot_by_dataset, named, panels=panels)
    run.figure(draw, "scores.png", key="scores", size=900)
    run.tags({tag: which})


def log_findings(findings: list[Findings], run: TrackedRun) -> None:
    """Log box plots of all fits and, where methods could be compared, their statistics."""
    for each in findings:
        folder = f"{each.label}/" if each.label else ""
        fits = each.rows.rename(columns={"method": "encoding", "score": "accuracy"})
        run.figure(functools.partial(plot_boxes, fits), f"{folder}boxes.png")
        found = each.statistics
        if found is None:
            continue
        ranks = pd.DataFrame({"mean_rank": found.ranks, "mean_score": found.scores.mean()})
        run.text(ranks.to_csv(index_label="encoding", lineterminator="\n"), f"{folder}ranks.csv")
        run.text(to_csv(found.pairs), f"{folder}pairs.csv")
        diagram = functools.partial(plot_critical_difference, found)
        run.figure(diagram, f"{folder}critical_difference.png")
        run.figure(functools.partial(plot_pairs, found), f"{folder}pairs.png")


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
    "`test/mean_rank` is 1 for the best method on every data set. The figure is of the "
    "fit on {dataset} with seed {seed}. Part of [this study]({study})."
)


def summary_runs(
    study: Study, scores: StudyScores, store: RunStore, parent: TrackedRun
) -> list[str]:
    """Create a run per encoding or method and variant that summarises its fits."""
    parts = variant_scores(scores)
    made = []
    for variant, values in study.variants.items():
        part = _of_variant(parts, values)
        if part is None:  # all its fits failed
            continue
        ranks = mean_ranks(mean_scores(part.used))
        places = {name: 1 + i for i, name in enumerate(ranks.sort_values().index)}
        for name in study.names:
            # A fit that all seeds share has no spread.
            fits = distinct_fits(part.used[part.used["method"] == name], "dataset")
            if fits.empty:  # all its fits failed
                continue
            run = store.start(
                ", ".join(filter(None, (name, variant))),
                kind="encoding",
                key="/".join(filter(None, (study.name, name, variant))),
                parent=parent,
                tags={
                    "mlflow.runColor": encoding_color(name),
                    "tsformer.study": study.name,
                    VARIANT_TAG: variant_tag([variant]),
                    PLACE_TAG: f"{places[name]:03d}",
                },
                again=True,
            )
            with run:
                run.params({name_column(study): name, "study": study.name, **values})
                run.metrics(_metrics(fits, rank=float(ranks[name])))
                left_out = len(part.rows) - len(part.used)
                note = _note(fits, left_out, store.page_of(parent.run_id))
                run.tags({"mlflow.note.content": note})
                copy_picture(run, str(fits.iloc[0]["run_id"]))  # of the same draw for all
            made.append(run.run_id)
    return made


def _of_variant(parts: list[VariantScores], values: dict[str, object]) -> VariantScores | None:
    for part in parts:
        first = part.rows.iloc[0]
        if all(str(first[name]) == str(plain(value)) for name, value in values.items()):
            return part
    return None


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
        **{f"test/accuracy/{name}": mean for name, mean in means.items()},
        **{f"test/accuracy_spread/{name}": spread for name, spread in spreads.items()},
    }


def _note(fits: pd.DataFrame, left_out: int, study: str) -> str:
    first = fits.iloc[0]
    return _NOTE.format(
        fits=len(fits),
        datasets=fits["dataset"].nunique(),
        dataset=first["dataset"],
        seed=first["seed"],
        study=study,
        left_out=f" {left_out} fits are left out, since some method lacks that draw."
        if left_out
        else "",
    )


#: Tag of a summary run: the fit whose picture it has.
_COPIED_FROM = "tsformer.picture_of"


def copy_picture(run: TrackedRun, source: str) -> None:
    """Copy the picture of the encoding, if there is one, from another run."""
    if run.client is None or run.lost or not source:
        return
    try:
        if run.client.get_run(run.run_id).data.tags.get(_COPIED_FROM) == source:
            return  # MLflow would add another
        if not any(each.path == "encoding.png" for each in run.client.list_artifacts(source)):
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(run.client.download_artifacts(source, "encoding.png", folder))
            image = require("PIL.Image", extra="plots", purpose="figures in MLflow")
            with image.open(path) as picture:
                run.image(picture.convert("RGB"), "encoding")
            run.client.log_artifact(run.run_id, str(path))
    except Exception as error:  # tracking never fails a fit
        warn(f"no figure of the encoding in {run.run_id}: {type(error).__name__}: {error}")
    else:
        run.tags({_COPIED_FROM: source})
