"""One run for each candidate of a search: mean and spread of its scores over the folds."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tsformer.plots import encoding_color
from tsformer.tracking.pictures import copy_picture
from tsformer.tracking.run import TrackedRun
from tsformer.tracking.store import RunStore

__all__ = ["summarise"]

_COSTS = ("fit_seconds", "seconds_per_epoch", "n_parameters", "n_parameters_encoding")
_NOTE = (
    "Means over {n} folds. Metrics ending in `_spread` are standard deviations over folds; "
    "`test/mean_rank` is 1 for what is best in every fold."
)
_VALUE_NOTE = (
    "Means over the {n} candidates with this value, in each of {folds} folds. Metrics ending in "
    "`_spread` are standard deviations over folds; `test/mean_rank` is that of the candidates."
)


def summarise(store: RunStore, parent: TrackedRun, study: str) -> list[str]:
    """Make summary runs of a search from the runs of its fits.

    There is one for each candidate. If several parameters were searched, there is also one for each
    value of each: over all candidates that have it, so that encodings are compared whatever else
    was searched. Of a halving search each candidate is summarised by the last round that it has
    reached, and values, whose candidates differ in that, are not.
    """
    fits = _fits(store, parent)
    parent.tags({"tsformer.study": study})
    parent.metrics({"fits/finished": len(fits)})
    if fits.empty:
        return []
    scores = _scores(fits)
    means = fits.groupby("candidate", sort=False)[scores].mean()
    if scores:
        means = means.sort_values(by=scores[0], ascending=False)
    if len(means) == 1:  # a cross-validation: the run itself says what came of it
        parent.metrics(_metrics(fits, scores))
    made = []
    for candidate in means.index:
        own = fits[fits["candidate"] == candidate]
        first = own.iloc[0]["run"]
        encoding = first.data.params.get("encoding", first.data.tags.get("tsformer.estimator", ""))
        tags = {"mlflow.runColor": encoding_color(encoding), "tsformer.study": study}
        run = store.start(candidate, kind="encoding", parent=parent, tags=tags)
        with run:
            searched = _searched(first)
            run.params({"encoding": encoding, "method": candidate, "study": study, **searched})
            run.metrics(_metrics(own, scores))
            run.tags({"mlflow.note.content": _NOTE.format(n=len(own))})
            copy_picture(run, first.info.run_id)
        made.append(run.run_id)
    if fits["iteration"].max() == 0:
        _summarise_values(store, parent, study, fits, scores)
    return made


def _summarise_values(
    store: RunStore, parent: TrackedRun, study: str, fits: pd.DataFrame, scores: list[str]
) -> None:
    """Make a run for each value of each parameter, if several parameters were searched."""
    values = pd.DataFrame([_searched(run) for run in fits["run"]], index=fits.index)
    varied = [name for name in values if values[name].nunique(dropna=False) > 1]
    if len(varied) < 2:
        return
    for name in varied:
        for value, own in fits.groupby(values[name], sort=False):
            color = encoding_color(str(value)) if name == "encoding" else "#7F7F7F"
            tags = {"mlflow.runColor": color, "tsformer.study": study}
            run = store.start(f"{name}={value}", kind="value", parent=parent, tags=tags)
            folds = own.groupby("fold")[[*scores, *(["rank"] if "rank" in own else [])]].mean()
            costs = {cost: own[cost].median() for cost in _COSTS if cost in own}
            with run:
                run.params({str(name): value, "study": study})
                run.metrics(_metrics(folds, scores) | costs | {"fits/finished": len(own)})
                n = own["candidate"].nunique()
                run.tags({"mlflow.note.content": _VALUE_NOTE.format(n=n, folds=len(folds))})


def _fits(store: RunStore, parent: TrackedRun) -> pd.DataFrame:
    """Return a row for each finished fit of the last round of its candidate."""
    found = store.runs("FINISHED", {"mlflow.parentRunId": parent.run_id, "tsformer.kind": "fit"})
    rows: list[dict[str, Any]] = []
    for run in found:
        tags, params = run.data.tags, run.data.params
        row = {"run": run, "candidate": tags.get("tsformer.candidate", run.info.run_name)}
        rows.append(
            {
                **row,
                "fold": int(params.get("fold", 0)),
                "iteration": int(params.get("iteration", 0)),
                **{k: v for k, v in run.data.metrics.items() if k.startswith("test/")},
                **{k: run.data.metrics[k] for k in _COSTS if k in run.data.metrics},
            }
        )
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    last = table.groupby("candidate")["iteration"].transform("max")
    table = table[table["iteration"] == last].sort_values("fold", kind="stable")
    scores = _scores(table)
    if scores and table["candidate"].nunique() > 1:
        table["rank"] = table.groupby(["iteration", "fold"])[scores[0]].rank(ascending=False)
    return table


def _scores(fits: pd.DataFrame) -> list[str]:
    return [name for name in map(str, fits.columns) if name.startswith("test/")]


def _searched(run: Any) -> dict[str, str]:
    """Return the parameters that were searched, of the run of a fit."""
    names = [name for name in run.data.tags.get("tsformer.searched", "").split(",") if name]
    return {name: run.data.params[name] for name in names if name in run.data.params}


def _metrics(fits: pd.DataFrame, scores: list[str]) -> dict[str, float]:
    values: dict[str, float] = {"fits/finished": len(fits)}
    for name in scores:
        values[name] = fits[name].mean()
        values[f"{name}_spread"] = fits[name].std()
    if "rank" in fits:
        values["test/mean_rank"] = fits["rank"].mean()
    return values | {name: fits[name].median() for name in _COSTS if name in fits}
