"""MLflow runs that summarise the fits of an encoding or a method."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

from tsformer._optional import require
from tsformer.plots import encoding_color
from tsformer.studies.analysis.scores import (
    StudyScores,
    VariantScores,
    distinct_fits,
    variant_scores,
)
from tsformer.studies.analysis.statistics import mean_ranks, mean_scores
from tsformer.studies.design.study import Study
from tsformer.studies.run.study_run import variant_tag
from tsformer.studies.run.trial import name_column, plain
from tsformer.tracking import RunStore, TrackedRun
from tsformer.tracking.settings import warn
from tsformer.tracking.views import PLACE_TAG, VARIANT_TAG

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
