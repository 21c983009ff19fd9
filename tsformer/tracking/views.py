"""Optional: saved views of the MLflow UI with encodings side by side, grouped fits, all fits.

A saved view is a tag of the experiment, ``mlflow.sharedViewState.<id>``, that holds the state of
the page as JSON. MLflow documents neither; if a version reads them differently, the view opens as
the plain list of runs. The fields are those of MLflow 3's ``ExperimentPageUIState``. Nothing else
reads what is written here, and `make_views` never raises.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tsformer.tracking.run import warn_untracked
from tsformer.tracking.store import RunStore

if TYPE_CHECKING:
    from mlflow.entities import Run

__all__ = ["VIEWS", "make_views", "view_address"]

#: Views by id; the id is the last part of the tag and part of the address.
VIEWS = {
    "encodings": "Encodings side by side",
    "grouped": "Fits grouped by encoding",
    "fits": "All fits",
}
_TAG = "mlflow.sharedViewState."
_CONFIGURATION = "tsformer.configuration"
#: The MLflow UI loads this many runs, and charts and groups only these.
_RUNS_LOADED = 100
_DESCRIPTION_TAG = "mlflow.note.content"
_DESCRIPTION = """Which positional encoding helps a transformer that classifies time series.

The menu at the top right of the runs has three views: *Encodings side by side* (one run per
encoding, with means and spread over seeds), *Fits grouped by encoding* and *All fits*. The tag
`tsformer.kind` distinguishes runs: `study` holds results, ranks and figures of a whole comparison,
`encoding` summarises the fits of one encoding, `fit` is one fit, scored once on the test split."""


def make_views(store: RunStore, *, study: str = "", varied: Sequence[str] = ()) -> list[str]:
    """Create or update the saved views of an experiment; describe it if it has no description.

    - ``encodings``: the summary runs, one per encoding: accuracy, spread over seeds, mean rank,
      accuracy against time, and figures of the encodings.
    - ``grouped``: fits grouped by encoding: mean accuracy and mean curves.
    - ``fits``: parallel coordinates of all fits, and figures of the encodings.

    The MLflow UI loads 100 runs and averages only these. If there are more fits, ``grouped`` shows
    those of one data set, and says which; edit the filter above the runs for another one.

    Parameters
    ----------
    store : RunStore
        The experiment. If it fails, a warning is issued and no view is made.
    study : str, optional
        Name of the study whose summary runs ``encodings`` shows; by default of all.
    varied : sequence of str
        Parameters that the study varied beside the encoding, such as ``["stem"]``; ``grouped``
        groups by them, as it does by configurations that differ in anything else.

    Returns
    -------
    list of str
        Ids of the views made.
    """
    try:
        client = store.client()
        fits = store.runs("FINISHED", {"tsformer.kind": "fit"})
        old = client.get_experiment(store.experiment_id).tags
        made = []
        for name, (title, state) in _views(fits, study, varied).items():
            if _state_of(old.get(_TAG + name)) != (title, state):  # otherwise keep its date
                now = int(time.time() * 1000)
                view = {"name": title, "createdAt": now, "state": json.dumps(state)}
                client.set_experiment_tag(store.experiment_id, _TAG + name, json.dumps(view))
            made.append(name)
        if not old.get(_DESCRIPTION_TAG):
            client.set_experiment_tag(store.experiment_id, _DESCRIPTION_TAG, _DESCRIPTION)
    except Exception as error:  # a view must never fail the study that it shows
        warn_untracked("the saved views", error)
        return []
    return made


def view_address(server: str, experiment_id: str, view: str = "encodings") -> str:
    """Return the address of a saved view on the server at `server`.

    Examples
    --------
    >>> view_address("http://127.0.0.1:5000", "1", "fits").partition("#")[2][:19]
    '/experiments/1/runs'
    """
    return (
        f"{server.rstrip('/')}/#/experiments/{experiment_id}/runs?compareRunsMode=CHART"
        f"&viewStateShareKey={view}&workflowType=machine_learning"
    )


def _views(
    fits: Sequence[Run], study: str, varied: Sequence[str]
) -> dict[str, tuple[str, dict[str, Any]]]:
    which = _most_that_load(fits)
    only = ", ".join(f"{name} {value}" for name, value in which.items())
    return {
        "encodings": (VIEWS["encodings"], _encodings(study)),
        "grouped": (
            VIEWS["grouped"] + (f", {only}" if only else ""),
            _grouped(which, _groups(fits, varied)),
        ),
        "fits": (VIEWS["fits"], _fits(varied)),
    }


def _encodings(study: str) -> dict[str, Any]:
    summary, pictures = _section("summary", "All data sets"), _pictures()
    cards = [
        _card("BAR", summary, metricKey="test/accuracy"),
        _card(
            "SCATTER",
            summary,
            xaxis={"key": "fit_seconds", "type": "METRIC"},
            yaxis={"key": "test/accuracy", "type": "METRIC"},
            runsCountToCompare=_RUNS_LOADED,
        ),
        _card("BAR", summary, metricKey="test/mean_rank"),
        _card("BAR", summary, metricKey="test/accuracy_spread"),
        _card("BAR", summary, metricKey="fit_seconds"),
        _card("BAR", summary, metricKey="n_parameters_encoding"),
        _card("IMAGE", pictures, imageKeys=["encoding"]),
    ]
    # Order by a metric, or MLflow would nest the runs under the study's.
    order = {"orderByKey": "metrics.`test/accuracy`", "orderByAsc": False}
    return _state(
        ("encoding", {"study": study} if study else {}), order, [summary, pictures], cards
    )


def _grouped(which: dict[str, str], groups: list[dict[str, str]]) -> dict[str, Any]:
    means = _section("means", "Means of the fits")
    cards = [
        _card("BAR", means, metricKey="test/accuracy"),
        _card("BAR", means, metricKey="fit_seconds"),
        _card("LINE", means, metricKey="train/loss", selectedMetricKeys=["train/loss"]),
        _card("BAR", means, metricKey="test/log_loss"),
        _card("BAR", means, metricKey="test/f1_macro"),
        _card("BAR", means, metricKey="n_parameters"),
    ]
    grouping = {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": groups},
        "useGroupedValuesInCharts": True,
    }
    order = {"orderByKey": "params.`seed`", "orderByAsc": True}
    return _state(("fit", which), order, [means], cards) | grouping


def _fits(varied: Sequence[str]) -> dict[str, Any]:
    fits, pictures = _section("all", "Every fit", columns=1), _pictures()
    cards = [
        _card(
            "PARALLEL",
            fits,
            selectedParams=["dataset", "encoding", *varied],
            selectedMetrics=["n_parameters", "fit_seconds", "test/accuracy"],
            showAllRuns=True,
        ),
        _card("LINE", fits, metricKey="train/loss", selectedMetricKeys=["train/loss"]),
        _card("IMAGE", pictures, imageKeys=["encoding"]),
    ]
    # All encodings and data sets of the first seed come before the next seed.
    order = {"orderByKey": "params.`seed`", "orderByAsc": True}
    return _state(("fit", {}), order, [fits, pictures], cards)


def _groups(fits: Sequence[Run], varied: Sequence[str]) -> list[dict[str, str]]:
    """Return what to group by: fits of different configurations must not be averaged."""
    names = ("encoding", *varied)
    configurations: dict[tuple[str | None, ...], set[str | None]] = {}
    for run in fits:
        group = tuple(run.data.params.get(name) for name in names)
        configurations.setdefault(group, set()).add(run.data.tags.get(_CONFIGURATION))
    keys = [{"mode": "param", "groupByData": name} for name in names]
    if any(len(found) > 1 for found in configurations.values()):
        keys.append({"mode": "tag", "groupByData": _CONFIGURATION})
    return keys


def _most_that_load(fits: Sequence[Run]) -> dict[str, str]:
    """Return the parameters that select few enough fits to load; {} if all load."""
    which: dict[str, str] = {}
    for name in ("dataset", "seed"):
        if len(fits) <= _RUNS_LOADED:
            break
        which[name] = fits[0].data.params.get(name, "")
        fits = [run for run in fits if run.data.params.get(name) == which[name]]
    return which


def _state(
    runs: tuple[str, dict[str, str]],
    order: dict[str, Any],
    sections: Iterable[dict[str, Any]],
    cards: list[dict[str, Any]],
) -> dict[str, Any]:
    kind, params = runs
    conditions = [f"tags.`tsformer.kind` = '{kind}'"]
    conditions += [f"params.`{name}` = '{value}'" for name, value in params.items()]
    return {
        "searchFilter": " and ".join([*conditions, "attributes.status = 'FINISHED'"]),
        **order,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": cards,
        "compareRunSections": list(sections),
        "isAccordionReordered": True,  # otherwise MLflow sorts the sections by name
        "hideEmptyCharts": True,
        "groupBy": None,
    }


def _section(uuid: str, name: str, *, columns: int = 3, height: int = 360) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": name,
        "display": True,
        "isReordered": True,  # otherwise MLflow sorts the cards by name
        "deleted": False,
        "columns": columns,
        "cardHeight": height,
    }


def _pictures() -> dict[str, Any]:
    return _section("pictures", "The encodings, before and after training", columns=1, height=600)


def _card(kind: str, section: dict[str, Any], **options: Any) -> dict[str, Any]:
    what = options.get("metricKey", "")
    return {
        "uuid": "-".join(filter(None, (section["uuid"], kind.lower(), what))),
        "type": kind,
        "metricSectionId": section["uuid"],
        "runsCountToCompare": _RUNS_LOADED,
        "deleted": False,
        "isGenerated": False,
        **options,
    }


def _state_of(tag: str | None) -> tuple[Any, Any] | None:
    """Return title and state of a view from its tag; None if it is missing or malformed."""
    try:
        view = json.loads(tag or "null")
        return view["name"], json.loads(view["state"])
    except (ValueError, TypeError, KeyError):
        return None
