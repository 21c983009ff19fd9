"""The MLflow run of a study: tags, description, ranks and figures."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pandas as pd

from tsformer.studies._files import to_csv
from tsformer.studies.analysis.analyse import Findings
from tsformer.studies.analysis.plots import (
    plot_boxes,
    plot_by_dataset,
    plot_critical_difference,
    plot_pairs,
)
from tsformer.studies.analysis.scores import labels
from tsformer.studies.design.keys import digest
from tsformer.studies.design.study import Study
from tsformer.tracking import RunStore, TrackedRun
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
