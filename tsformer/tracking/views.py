"""The MLflow UI on this machine, and its saved views: of a study's encodings, and of all fits.

A view is a tag of the experiment in undocumented JSON: ``ExperimentPageUIState`` of MLflow 3.17.
`make_views` never raises: if MLflow reads the tags differently, the plain list of runs opens.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsformer._checks import unknown
from tsformer.tracking.options import reason, warn_untracked, without_credentials
from tsformer.tracking.store import SQLITE, RunStore, resolve_uri

if TYPE_CHECKING:
    from mlflow.entities import Run

#: Without job execution and with one worker the server takes half a gigabyte, not several.
SERVER_ENVIRONMENT = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
#: Tag of summary runs with the hash of their variant, ``|hash|``.
VARIANT_TAG = "tsformer.variant"
#: Tag that orders the runs of a study by rank.
PLACE_TAG = "tsformer.place"
_MOST_CARDS = 48  # MLflow takes a tag of 20,000 characters
_SCORES = ("test/accuracy", "test/mean_rank", "test/accuracy_spread", "test/balanced_accuracy")
_COSTS = ("fit_seconds", "seconds_per_epoch", "n_parameters", "n_parameters_encoding")
_PICTURES = "The encodings, before and after training"
Section = tuple[str, int, list[dict[str, Any]]]  # name, height, cards


def make_views(store: RunStore, study: str) -> dict[str, str]:
    """Write a view for each variant of a study, and of all fits; return their titles by id."""
    try:
        views = _views(store, study)
        for view, (title, state) in views.items():
            saved = {"name": title, "createdAt": int(time.time() * 1000), "state": state}
            tag = f"mlflow.sharedViewState.{view}", json.dumps(saved)
            store.client().set_experiment_tag(store.experiment_id, *tag)
        return {view: title for view, (title, _) in views.items()}
    except Exception as error:  # a view never fails the study that it shows
        warn_untracked("the saved views", error)
        return {}


def view_of_study(study: str, variant: str = "") -> str:
    """Return the id of the view of a study, or of the variant with this hash."""
    return "-".join(filter(None, ("encodings", study, variant)))


def _views(store: RunStore, study: str) -> dict[str, tuple[str, str]]:
    views, of_study = {}, {"tsformer.study": study}
    summaries = store.runs("FINISHED", {"tsformer.kind": "encoding", **of_study})
    parents = store.runs(tags={"tsformer.kind": "study", **of_study})
    for variant in dict.fromkeys(run.data.tags.get(VARIANT_TAG, "") for run in summaries):
        runs = [run for run in summaries if run.data.tags.get(VARIANT_TAG, "") == variant]
        label = runs[0].info.run_name.partition(", ")[2] if variant else ""
        names = ", ".join(filter(None, (parents[-1].info.run_name if parents else "", label)))
        title = ": ".join(filter(None, (f"{_axis(runs).capitalize()}s side by side", names)))
        where = f"tags.`tsformer.kind` = 'encoding' and tags.`tsformer.study` = '{study}'"
        where += f" and tags.`{VARIANT_TAG}` LIKE '%{variant}%'" if variant else ""
        state = _state(where, f"tags.`{PLACE_TAG}`", runs, _side_by_side(runs))
        views[view_of_study(study, variant.strip("|"))] = title, state
    fits = store.runs("FINISHED", {"tsformer.kind": "fit"})
    state = _state("tags.`tsformer.kind` = 'fit'", "params.`seed`", fits, _all_fits(fits))
    return {**views, "fits": ("All fits", state)}


def _side_by_side(runs: Sequence[Run]) -> list[Section]:
    axis = _axis(runs)
    datasets = [name for name in _metrics(runs) if name.startswith("test/accuracy/")]
    cost, score = ({"key": key, "type": "METRIC"} for key in ("fit_seconds", "test/accuracy"))
    costly = _card("SCATTER", xaxis=cost, yaxis=score)
    return [
        ("Scores", 320, [*(_dots(axis, name) for name in _SCORES), costly]),
        ("Each data set: mean and spread over seeds", 1060, [_image("scores")] * bool(datasets)),
        ("Each data set: means", 320, [_dots(axis, name) for name in datasets[:16]]),
        ("Cost", 320, [_card("BAR", metricKey=name) for name in _COSTS]),
        (_PICTURES, 760, [_image("encoding")]),
    ]


def _all_fits(fits: Sequence[Run]) -> list[Section]:
    axis, metrics = _axis(fits), ["n_parameters", "fit_seconds", "test/accuracy"]
    lines = {"selectedParams": ["dataset", axis], "selectedMetrics": metrics, "showAllRuns": True}
    curves = [name for name in ("train/loss", "val/loss", "val/score") if name in _metrics(fits)]
    curve_cards = [_card("LINE", metricKey=name, selectedMetricKeys=[name]) for name in curves]
    return [
        ("A dot for each fit", 320, [_dots(name, "test/accuracy") for name in ("dataset", axis)]),
        ("Every fit", 520, [_card("PARALLEL", **lines), *curve_cards]),
        (_PICTURES, 760, [_image("encoding")]),
    ]


def _state(where: str, order: str, runs: Sequence[Run], sections: list[Section]) -> str:
    """Return the JSON of a view; further metrics are folded."""
    axis, shown = _axis(runs), {card.get("metricKey") for *_, cards in sections for card in cards}
    rest = [_dots(axis, name) for name in _metrics(runs) if name not in shown]
    rest = [_image("scores"), *rest[: _MOST_CARDS - len(shown)]]
    names = {run.data.params.get(axis, "") for run in runs}
    narrow = len(names) * max(map(len, names), default=0) <= 48  # letters below half a window
    filled = [section for section in (*sections, ("Everything else", 320, rest)) if section[2]]
    return json.dumps({  # charts reverse the order of the runs: descending ranks put the best first
        "searchFilter": f"{where} and attributes.status = 'FINISHED'",
        "orderByKey": order, "orderByAsc": False, "startTime": "ALL", "lifecycleFilter": "Active",
        "datasetsFilter": [], "modelVersionFilter": "All Runs", "runsHiddenMode": "SHOW_ALL",
        "isAccordionReordered": True, "hideEmptyCharts": True, "groupBy": None,
        "compareRunSections": [
            {"uuid": name, "name": name, "display": cards is not rest, "cardHeight": height,
             "columns": 2 if narrow and height < 500 else 1, "isReordered": True, "deleted": False}
            for name, height, cards in filled
        ],
        "compareRunCharts": [
            {**card, "uuid": f"{name}-{i}", "metricSectionId": name}
            for name, _, cards in filled for i, card in enumerate(cards)
        ],
    })  # fmt: skip


def _axis(runs: Sequence[Run]) -> str:
    """Return the parameter that tells runs apart."""
    named = {name for run in runs for name in run.data.params}
    return next((name for name in ("candidate", "method") if name in named), "encoding")


def _metrics(runs: Sequence[Run]) -> list[str]:
    return sorted({name for run in runs for name in run.data.metrics})


def _image(key: str) -> dict[str, Any]:
    return _card("IMAGE", imageKeys=[key], showRunParams=False)


def _dots(param: str, metric: str) -> dict[str, Any]:
    """Return a chart of dots: the bars of MLflow start at 0."""
    axes = {"xaxis": {"key": param, "type": "PARAM"}, "yaxis": {"key": metric, "type": "METRIC"}}
    return _card("SCATTER", metricKey=metric, **axes)  # without the key MLflow adds a card


def _card(kind: str, **options: Any) -> dict[str, Any]:
    card = {"type": kind, "deleted": False, "isGenerated": False}
    return {**card, "runsCountToCompare": 100, **options}  # MLflow loads no more


def find_experiment(uri: str | None = None, name: str | None = None) -> RunStore:
    """Return an experiment that has runs; creates nothing."""
    uri = resolve_uri(uri)
    file, shown = Path(uri.removeprefix(SQLITE)), without_credentials(uri)
    if uri.startswith(SQLITE) and not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}; go to the folder of the runs, or name their --tracking-uri"
        )
    client = RunStore(uri, "").client()
    try:
        ids = {stored.name: stored.experiment_id for stored in client.search_experiments()}
        wanted, newest_first = [ids[name]] if name in ids else [*ids.values()], "start_time DESC"
        newest = client.search_runs(wanted, max_results=1, order_by=[newest_first])
    except Exception as error:
        raise ConnectionError(f"{shown} cannot be read {reason(error)}") from error
    if name is not None and name not in ids:
        raise ValueError(unknown("experiment", name, ids))
    if not newest:
        raise ValueError(f"{name or shown!r} has no runs; `tsformer compare` makes some")
    return RunStore(uri, newest[0].info.experiment_id)


def pages_of(store: RunStore, server: str) -> dict[str, str]:
    """Return the addresses of the views of the newest study, and of all fits, by title."""
    summaries = store.runs("FINISHED", {"tsformer.kind": "encoding"})
    newest = max(summaries, key=lambda run: run.info.end_time or 0, default=None)
    study = newest.data.tags.get("tsformer.study", "") if newest is not None else ""
    views = make_views(store, study).items()
    return {title: f"{server.rstrip('/')}/{store.page_of_view(view)}" for view, title in views}


def server_command(store: RunStore, port: int) -> list[str]:
    """Return the command that serves a SQLite store; needs `SERVER_ENVIRONMENT`."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        message = f"port {port} is not available ({error.strerror}); choose another with --port"
        raise ConnectionError(message) from error
    here = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store.uri, *here]
