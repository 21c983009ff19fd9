"""Optional: saved views of the MLflow UI with encodings side by side, grouped fits, all fits.

A saved view is a tag of the experiment, ``mlflow.sharedViewState.<id>``, that holds the state of
the page as JSON. MLflow documents neither; if a version reads them differently, the view opens as
the plain list of runs. The fields are those of MLflow 3's ``ExperimentPageUIState``. Nothing else
reads what is written here, and `make_views` never raises.

What was found in the pages of MLflow 3.17.2, and shapes the views:

- Bars start at 0, and a card has no option for that: scores are dots, whose axes start near the
  data. An axis of dots may be a parameter, such as the encoding, and has its values as labels.
- A group of runs gets a colour by a hash of its name, kept in the browser: no tag changes it. Only
  the table is grouped, therefore; the charts show runs, which have the colour of their encoding.
- Every metric without a card gets one, in a section that is named by what comes before the slash:
  a card whose ``metricKey`` it is prevents that, even in a section that is closed.
- A metric whose last step is 1 or more gets a line, which of a single step is one dot.
- In a grid of pictures of one key, each has a square as wide as the picture or the name and the
  parameters above it, and at most ten runs are shown.
- Whether an experiment opens as machine-learning runs is decided by ``workflowType`` in the
  address, else by the switch "GenAI / Model training" at the top left, which the browser remembers
  and which is "GenAI" at first. The tag ``mlflow.experimentKind`` is no longer read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tsformer.tracking.messages import warn_untracked
from tsformer.tracking.store import KIND_OF_EXPERIMENT, RunStore

if TYPE_CHECKING:
    from mlflow.entities import Run

__all__ = [
    "PLACE_TAG",
    "VARIANT_TAG",
    "VIEWS",
    "axis_of",
    "make_views",
    "variant_of",
    "view_address",
    "view_of_study",
]

#: Titles of views by id; the id is the last part of the tag and part of the address. That of a
#: study with methods has the id of encodings and a title of its own; that of groups names the
#: parameters that tell fits apart.
VIEWS = {
    "encodings": "Encodings side by side",
    "methods": "Methods side by side",
    "grouped": "Fits grouped by {}",
    "fits": "All fits",
}
#: Tag of summary runs with the hash of their variant, ``|hash|``; the study's run has all of them.
VARIANT_TAG = "tsformer.variant"
#: Tag by which the summary runs of a variant are ordered; the study's run is first.
PLACE_TAG = "tsformer.place"
_TAG = "mlflow.sharedViewState."
_CONFIGURATION = "tsformer.configuration"
#: The MLflow UI loads this many runs, and charts and groups only these.
_RUNS_LOADED = 100
_DESCRIPTION_TAG = "mlflow.note.content"
_DESCRIPTION = """Which positional encoding helps a transformer that classifies time series.

The menu at the top right of the runs has three views: *Encodings side by side* (of each study, with
one run per encoding, means and spread over seeds), *Fits grouped by encoding* and *All fits*. The
tag `tsformer.kind` distinguishes runs: `study` holds results, ranks and figures of a whole
comparison, `encoding` summarises the fits of one encoding or method, `fit` is one fit, scored once
on the test split."""
#: Scores that are charted as dots, and costs that are charted as bars, for which 0 means something.
_SCORES = ("test/accuracy", "test/balanced_accuracy", "test/f1_macro", "test/log_loss")
_COSTS = (
    *("fit_seconds", "predict_seconds", "seconds_per_epoch"),
    *("n_parameters", "n_parameters_encoding"),
)
#: Pictures by their key: those of encodings, of fits and summaries, and that of a study.
_IMAGES = ("encoding", "scores")
#: So many letters have room below a chart of half the width, in a window of 1,400 pixels.
_LETTERS = 48
#: Data sets with a card of their own; the figure of the study has all.
_MOST_DATASETS = 24
#: Length of a tag, at which MLflow refuses it.
_TAG_LENGTH = 20_000


def make_views(
    store: RunStore, *, study: str = "", title: str = "", varied: Sequence[str] = ()
) -> list[str]:
    """Create or update the saved views of an experiment; describe it if it has no description.

    - ``encodings``, of each variant of each study its own: the summary runs, one per encoding:
      scores, spread over seeds, mean rank, each data set, cost, and figures.
    - ``grouped``: fits, in the table grouped by encoding, with a dot for each in the charts.
    - ``fits``: dots by data set and encoding, parallel coordinates of all fits, and figures.

    The MLflow UI loads 100 runs and shows only these. If there are more fits, ``grouped`` shows
    those of one data set, and says which; edit the filter above the runs for another one.
    """
    try:
        client = store.client()
        fits = store.runs("FINISHED", {"tsformer.kind": "fit"})
        # By their parameter: those of earlier versions have no tag that names the study.
        summaries = [
            run
            for run in store.runs("FINISHED", {"tsformer.kind": "encoding"})
            if study in ("", run.data.params.get("study"))
        ]
        old = client.get_experiment(store.experiment_id).tags
        made = []
        for name, (shown, state) in _views(fits, summaries, study, title, varied).items():
            if _state_of(old.get(_TAG + name)) != (shown, state):  # otherwise keep its date
                now = int(time.time() * 1000)
                view = {"name": shown, "createdAt": now, "state": json.dumps(state)}
                client.set_experiment_tag(store.experiment_id, _TAG + name, json.dumps(view))
            made.append(name)
        for tag, value in {_DESCRIPTION_TAG: _DESCRIPTION, **KIND_OF_EXPERIMENT}.items():
            if not old.get(tag):
                client.set_experiment_tag(store.experiment_id, tag, value)
    except Exception as error:  # a view must never fail the study that it shows
        warn_untracked("the saved views", error)
        return []
    return made


def view_of_study(study: str, variant: str = "") -> str:
    """Return the id of the view that sets the encodings of a study, or a variant, side by side.

    Examples
    --------
    >>> view_of_study("study-12ab34cd", "56ef")
    'encodings-study-12ab34cd-56ef'
    """
    return "-".join(filter(None, ("encodings", study, variant)))


def variant_of(summary: Run) -> tuple[str, str]:
    """Return the hash and the label of the variant that a run summarises; "" without variants."""
    which = summary.data.tags.get(VARIANT_TAG, "").strip("|")
    return which, summary.info.run_name.partition(", ")[2] if which else ""


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
    fits: Sequence[Run],
    summaries: Sequence[Run],
    study: str,
    title: str,
    varied: Sequence[str],
) -> dict[str, tuple[str, dict[str, Any]]]:
    which = _most_that_load(fits)
    only = ", ".join(f"{name} {value}" for name, value in which.items())
    side_by_side = {}
    for variant, label in dict.fromkeys(map(variant_of, summaries)) or {("", ""): None}:
        runs = [run for run in summaries if variant_of(run)[0] == variant]
        of = ", ".join(filter(None, (title, label)))
        shown = VIEWS["encodings" if axis_of(runs) == "encoding" else "methods"]
        shown += f": {of}" if of else ""
        side_by_side[view_of_study(study, variant)] = (shown, _encodings(runs, study, variant))
    return {
        **side_by_side,
        "grouped": (
            VIEWS["grouped"].format(" and ".join(_axes(fits))) + (f", {only}" if only else ""),
            _grouped(fits, which, _groups(fits, varied)),
        ),
        "fits": (VIEWS["fits"], _fits(fits, varied)),
    }


def _encodings(summaries: Sequence[Run], study: str, variant: str) -> dict[str, Any]:
    axis = axis_of(summaries)
    columns = _columns(summaries, axis)
    found = _metrics(summaries)
    datasets = [name for name in found if name.startswith("test/accuracy/")]
    # A search of scikit-learn has folds of one data set, and no figure of several.
    over = "data sets" if datasets else "folds"
    scores = _section("scores", f"Scores, mean over {over}", columns=columns)
    whole = _section("whole", "Each data set: mean and spread over seeds", columns=1, height=1060)
    each = _section("each", "Each data set: means", columns=columns)
    cost, pictures = _section("cost", "Cost"), _pictures()
    cards = [
        _dots(scores, "test/accuracy", axis),
        _dots(scores, "test/mean_rank", axis),
        _dots(scores, "test/accuracy_spread", axis),
        _card(
            "SCATTER",
            scores,
            xaxis={"key": "fit_seconds", "type": "METRIC"},
            yaxis={"key": "test/accuracy", "type": "METRIC"},
        ),
        *(_dots(scores, metric, axis) for metric in _SCORES[1:]),
        *([_card("IMAGE", whole, imageKeys=["scores"], showRunParams=False)] if datasets else []),
        *(_dots(each, metric, axis) for metric in datasets[:_MOST_DATASETS]),
        *(_card("BAR", cost, metricKey=metric) for metric in _COSTS),
        _card("IMAGE", pictures, imageKeys=["encoding"], showRunParams=False),
    ]
    order = {"orderByKey": "metrics.`test/accuracy`", "orderByAsc": False}
    if all(PLACE_TAG in run.data.tags for run in summaries) and study:
        # With the study's own run, which has the figure of all data sets, and first: a grid of
        # pictures shows only ten runs.
        order = {"orderByKey": f"tags.`{PLACE_TAG}`", "orderByAsc": True}
        runs = f"tags.`tsformer.study` = '{study}'"
        runs += f" and tags.`{VARIANT_TAG}` LIKE '%|{variant}|%'" if variant else ""
    elif study:  # of version 0.1
        runs = f"params.`study` = '{study}' and tags.`tsformer.kind` = 'encoding'"
    else:
        runs = "tags.`tsformer.kind` = 'encoding'"
    sections = [scores, *([whole, each] if datasets else []), cost, pictures]
    # The last are of the study's run.
    metrics = [*found, "fits/failed", "fits/unrecorded"]
    return _state(runs, order, sections, cards, metrics, axis)


def _grouped(
    fits: Sequence[Run], which: dict[str, str], groups: list[dict[str, str]]
) -> dict[str, Any]:
    axes = _axes(fits)
    columns = _columns(fits, axes[0])
    scores = _section("scores", "A dot for each fit", columns=columns)
    cost = _section("cost", "Cost of each fit", columns=columns)
    cards = [
        *(_dots(scores, metric, axis) for metric in _SCORES for axis in axes),
        *_curves(fits, _section("curves", "Training")),
        _dots(cost, "fit_seconds", axes[0]),
        _dots(cost, "n_parameters", axes[0]),
    ]
    sections = [scores, _section("curves", "Training"), cost]
    grouping = {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": groups},
        "useGroupedValuesInCharts": False,  # a group has a colour of its own: see above
    }
    order = {"orderByKey": "params.`seed`", "orderByAsc": True}
    return _state(_of_fits(which), order, sections, cards, _metrics(fits), axes[0]) | grouping


def _fits(fits: Sequence[Run], varied: Sequence[str]) -> dict[str, Any]:
    axes = _axes(fits)
    columns = _columns(fits, axes[0])
    scores = _section("scores", "A dot for each fit", columns=columns, height=420)
    every, pictures = _section("all", "Every fit", columns=1), _pictures()
    cards = [
        _dots(scores, "test/accuracy", "dataset"),
        *(_dots(scores, "test/accuracy", axis) for axis in axes),
        _card(
            "PARALLEL",
            every,
            selectedParams=["dataset", *axes, *varied],
            selectedMetrics=["n_parameters", "fit_seconds", "test/accuracy"],
            showAllRuns=True,
        ),
        *_curves(fits, every),
        _card("IMAGE", pictures, imageKeys=["encoding"], showRunParams=False),
    ]
    # All encodings and data sets of the first seed come before the next seed.
    order = {"orderByKey": "params.`seed`", "orderByAsc": True}
    return _state(_of_fits({}), order, [scores, every, pictures], cards, _metrics(fits), axes[0])


def axis_of(summaries: Sequence[Run]) -> str:
    """Return the parameter by which summary runs are told apart."""
    other = any("encoding" not in run.data.params for run in summaries)
    return "method" if other else "encoding"


def _axes(fits: Sequence[Run]) -> list[str]:
    """Return the parameters by which fits are told apart: those of no study have no method."""
    named = ["method" in run.data.params for run in fits]
    if not any(named):
        return ["encoding"]
    return ["method"] if all(named) else ["method", "encoding"]


def _columns(runs: Sequence[Run], axis: str) -> int:
    """Return how many charts fit beside each other with the names of all encodings below."""
    names = {run.data.params.get(axis, "") for run in runs}
    return 2 if len(names) * max(map(len, names), default=0) <= _LETTERS else 1


def _curves(fits: Sequence[Run], section: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cards of what has several steps in some fit: of one step, a line is a dot."""
    if not any(run.data.metrics.get("n_epochs", 0) > 1 for run in fits):
        return []
    found = _metrics(fits)
    return [
        _card("LINE", section, metricKey=metric, selectedMetricKeys=[metric])
        for metric in ("train/loss", "val/loss", "val/score")
        if metric in found
    ]


def _metrics(runs: Sequence[Run]) -> list[str]:
    """Return the names of all metrics of the runs, in the order of the alphabet."""
    return sorted({name for run in runs for name in run.data.metrics})


def _of_fits(params: dict[str, str]) -> str:
    conditions = [f"params.`{name}` = '{value}'" for name, value in params.items()]
    return " and ".join(["tags.`tsformer.kind` = 'fit'", *conditions])


def _groups(fits: Sequence[Run], varied: Sequence[str]) -> list[dict[str, str]]:
    """Return what to group by: fits of different configurations must not be averaged."""
    names = (*_axes(fits), *varied)
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
    runs: str,
    order: dict[str, Any],
    sections: Iterable[dict[str, Any]],
    cards: list[dict[str, Any]],
    metrics: Iterable[str],
    axis: str,
) -> dict[str, Any]:
    shown = {card.get("metricKey") for card in cards}
    pictured = {key for card in cards for key in card.get("imageKeys", ())}
    others = _section("others", "Everything else", display=False)
    cards = [
        *cards,
        *(_card("IMAGE", others, imageKeys=[key]) for key in _IMAGES if key not in pictured),
    ]
    state = {
        "searchFilter": f"{runs} and attributes.status = 'FINISHED'",
        **order,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": cards,
        "compareRunSections": [*sections, others],
        "isAccordionReordered": True,  # otherwise MLflow sorts the sections by name
        "hideEmptyCharts": True,
        "groupBy": None,
    }
    for name in metrics:
        more = [] if name in shown else [_dots(others, name, axis)]
        if len(json.dumps(json.dumps(state))) + 500 * len(more) > _TAG_LENGTH:
            break  # MLflow itself makes a card of each of the others, in an open section
        cards += more
    used = {card["metricSectionId"] for card in cards}
    state["compareRunSections"] = [part for part in (*sections, others) if part["uuid"] in used]
    return state


def _section(
    uuid: str, name: str, *, columns: int = 2, height: int = 320, display: bool = True
) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": name,
        "display": display,
        "isReordered": True,  # otherwise MLflow sorts the cards by name
        "deleted": False,
        "columns": columns,
        "cardHeight": height,
    }


def _pictures() -> dict[str, Any]:
    return _section("pictures", "The encodings, before and after training", columns=1, height=760)


def _dots(section: dict[str, Any], metric: str, param: str) -> dict[str, Any]:
    """Return a card with a dot for each run: the metric upwards, the parameter to the right.

    Names are to the right because the margin on the left has room for four letters.
    """
    return _card(
        "SCATTER",
        section,
        metricKey=metric,  # unused by the card; MLflow makes no other for this metric
        xaxis={"key": param, "type": "PARAM"},
        yaxis={"key": metric, "type": "METRIC"},
    )


def _card(kind: str, section: dict[str, Any], **options: Any) -> dict[str, Any]:
    axes = (options[axis]["key"] for axis in ("xaxis", "yaxis") if axis in options)
    what = (options.get("metricKey", ""), *options.get("imageKeys", ()), *axes)
    return {
        "uuid": "-".join(dict.fromkeys(filter(None, (section["uuid"], kind.lower(), *what)))),
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
