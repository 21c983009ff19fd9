"""The run of each encoding that sums up its fits, which MLflow's pages then set side by side."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from tsformer._optional import require
from tsformer.plots import encoding_color
from tsformer.studies.fit import plain
from tsformer.studies.scores import complete
from tsformer.studies.study import Study
from tsformer.tracking import RunStore, TrackedRun

__all__ = ["summary_runs"]

#: Column of the results -> metric of a summary run: the mean over all fits that count.
_MEANS = {
    "balanced_accuracy": "test/balanced_accuracy",
    "f1_macro": "test/f1_macro",
    "log_loss": "test/log_loss",
}
#: The same of what a fit costs: the mean over data sets of the median over their fits, which one
#: that was held up does not move.
_COSTS = {
    "fit_seconds": "fit_seconds",
    "seconds_per_epoch": "seconds_per_epoch",
    "n_parameters": "n_parameters",
    "n_parameters_encoding": "n_parameters_encoding",
    "peak_memory_mb": "peak_memory_mb",
}
_NOTE = (
    "Means over {fits} fits on {datasets} data sets.{left_out} `test/accuracy_spread` is the "
    "standard deviation over seeds and resamples of one data set, averaged over data sets. "
    "`test/mean_rank` is 1 for an encoding that is best on every data set. The picture is of the "
    "fit on {dataset} with seed {seed}."
)


def summary_runs(
    study: Study, results: pd.DataFrame, store: RunStore, parent: TrackedRun
) -> list[str]:
    """Make one run an encoding that sums up its fits: MLflow's own grouping shows no spread.

    Where a study varied other parameters, there is one for each encoding and variant. Draws, a data
    set and a seed, that some encoding has no fit of are left out: all are averaged over the same.

    Parameters
    ----------
    study : Study
        What was asked.
    results : DataFrame
        A row a fit.
    store : RunStore
        Where the runs go.
    parent : TrackedRun
        The study's own run.

    Returns
    -------
    list of str
        The ids of the runs, "" of one that could not be made.
    """
    rows = results.rename(columns={"encoding": "method", "accuracy": "score"})
    made = []
    for variant, values in study.variants.items():
        same = [rows[name].map(str) == str(plain(value)) for name, value in values.items()]
        part = rows[np.logical_and.reduce(same)] if same else rows
        whole = complete(part)
        # Means over seeds that are equal on paper differ in the last bit: they are ties.
        means = whole.groupby(["method", "dataset"], sort=False)["score"].mean().round(9)
        ranks = means.unstack("method").rank(axis=1, ascending=False).mean()
        for encoding in study.encodings:
            fits = whole[whole["method"] == encoding]
            if fits.empty:  # all its fits failed
                continue
            run = store.start(
                ", ".join(filter(None, (encoding, variant))),
                kind="encoding",
                key="/".join(filter(None, (study.name, encoding, variant))),
                parent=parent,
                tags={"mlflow.runColor": encoding_color(encoding)},
                again=True,
            )
            with run:
                run.params({"encoding": encoding, "study": study.name, **values})
                run.metrics(_metrics(fits, rank=float(ranks[encoding])))
                run.tags({"mlflow.note.content": _note(fits, len(part) - len(whole))})
                _picture(run, fits)
            made.append(run.run_id)
    return made


def _metrics(fits: pd.DataFrame, *, rank: float) -> dict[str, float]:
    by_dataset = fits.groupby("dataset", sort=False)["score"]
    means, spreads = by_dataset.mean(), by_dataset.std()
    return {
        "test/accuracy": means.mean(),
        "test/accuracy_spread": spreads.mean(),
        "test/mean_rank": rank,
        "fits/finished": len(fits),
        **{metric: fits[column].mean() for column, metric in _MEANS.items() if column in fits},
        **{
            metric: fits.groupby("dataset")[column].median().mean()
            for column, metric in _COSTS.items()
            if column in fits
        },
        **{f"test/accuracy/{name}": mean for name, mean in means.items()},
        **{f"test/accuracy_spread/{name}": spread for name, spread in spreads.items()},
    }


def _note(fits: pd.DataFrame, left_out: int) -> str:
    first = fits.iloc[0]
    return _NOTE.format(
        fits=len(fits),
        datasets=fits["dataset"].nunique(),
        dataset=first["dataset"],
        seed=first["seed"],
        left_out=f" {left_out} fits without a partner of every encoding are left out."
        if left_out
        else "",
    )


def _picture(run: TrackedRun, fits: pd.DataFrame) -> None:
    """Copy the encoding's picture, before and after, of the first fit: of all the same draw."""
    fit = str(fits.iloc[0]["run_id"])
    if run.client is None or not fit:
        return
    tag = "tsformer.picture_of"
    try:
        if run.client.get_run(run.run_id).data.tags.get(tag) == fit:
            return  # it is there: each one logged would stay
        with tempfile.TemporaryDirectory() as folder:
            path = Path(run.client.download_artifacts(fit, "encoding.png", folder))
            image = require("PIL.Image", extra="plots", purpose="pictures in MLflow")
            with image.open(path) as picture:
                run.image(picture.convert("RGB"), "encoding")
            run.client.log_artifact(run.run_id, str(path))
    except Exception as error:  # a picture is never worth the study
        warnings.warn(
            f"no picture of the encoding in {run.run_id}: {type(error).__name__}: {error}",
            stacklevel=3,
        )
    else:
        run.tags({tag: fit})
