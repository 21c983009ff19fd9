"""Saved views: what their tags hold. Whether MLflow shows them is for the tests in a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.views import make_views, view_address

pytest.importorskip("mlflow", reason='needs the extra "tracking"')


@pytest.fixture
def store(uri: str, request: pytest.FixtureRequest) -> RunStore:
    return prepare_store(uri, request.node.name)


def fit(store: RunStore, configuration: str = "c", **params: Any) -> None:
    tags = {"tsformer.configuration": configuration}
    with store.start("fit", kind="fit", tags=tags) as run:
        run.params({"dataset": "A", "seed": 0, **params})


def view(store: RunStore, name: str) -> tuple[str, dict[str, Any]]:
    """Title and state, read as MLflow's pages do: the state is JSON within JSON."""
    tags = store.client().get_experiment(store.experiment_id).tags
    envelope = json.loads(tags[f"mlflow.sharedViewState.{name}"])
    assert isinstance(envelope["createdAt"], int)
    return envelope["name"], json.loads(envelope["state"])


def grouped_by(store: RunStore) -> list[str]:
    return [key["groupByData"] for key in view(store, "grouped")[1]["groupBy"]["groupByKeys"]]


def test_three_views_whose_cards_lie_in_their_sections(store: RunStore) -> None:
    fit(store, encoding="none")
    assert make_views(store, study="study-1") == ["encodings", "grouped", "fits"]
    assert "params.`study` = 'study-1'" in view(store, "encodings")[1]["searchFilter"]
    for name in ("encodings", "grouped", "fits"):
        _, state = view(store, name)
        sections = [section["uuid"] for section in state["compareRunSections"]]
        assert {card["metricSectionId"] for card in state["compareRunCharts"]} == set(sections)
        uuids = [card["uuid"] for card in state["compareRunCharts"]]
        assert len(set(uuids)) == len(uuids)
    described = store.client().get_experiment(store.experiment_id).tags["mlflow.note.content"]
    assert "Encodings side by side" in described


def test_a_view_made_again_keeps_its_date_and_a_description_stays(store: RunStore) -> None:
    client = store.client()
    client.set_experiment_tag(store.experiment_id, "mlflow.note.content", "mine")
    make_views(store)
    before = client.get_experiment(store.experiment_id).tags
    make_views(store)
    assert client.get_experiment(store.experiment_id).tags == before
    assert before["mlflow.note.content"] == "mine"
    client.set_experiment_tag(store.experiment_id, "mlflow.sharedViewState.fits", "{broken")
    make_views(store)
    assert view(store, "fits")[0] == "All fits"


def test_fits_that_differ_in_more_than_the_encoding_have_no_common_mean(store: RunStore) -> None:
    fit(store, "one", encoding="none", stem="conv")
    make_views(store)
    assert grouped_by(store) == ["encoding"]
    fit(store, "two", encoding="none", stem="linear")
    make_views(store, varied=["stem"])
    assert grouped_by(store) == ["encoding", "stem"]
    fit(store, "three", encoding="none", stem="linear")
    make_views(store, varied=["stem"])
    assert grouped_by(store) == ["encoding", "stem", "tsformer.configuration"]


def test_means_are_never_over_some_of_the_fits(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's pages load a hundred runs; five, for the time that a hundred fits would take."""
    monkeypatch.setattr("tsformer.tracking.views._RUNS_LOADED", 5)
    for dataset in ("A", "B"):
        fit(store, encoding="none", dataset=dataset)
        fit(store, encoding="lspe", dataset=dataset)
    make_views(store)
    assert view(store, "grouped")[0] == "Fits grouped by encoding"
    for seed in (1, 2):
        fit(store, encoding="none", seed=seed)
    make_views(store)
    title, state = view(store, "grouped")
    assert title == "Fits grouped by encoding, dataset A"
    assert "params.`dataset` = 'A'" in state["searchFilter"]
    for seed in (3, 4):
        fit(store, encoding="none", seed=seed)
    make_views(store)
    assert view(store, "grouped")[0] == "Fits grouped by encoding, dataset A, seed 0"


def test_a_store_that_is_gone_costs_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.warns(UserWarning, match="the saved views stopped"):
        assert make_views(RunStore("http://127.0.0.1:9", "1")) == []


def test_the_address_names_experiment_and_view() -> None:
    address = view_address("http://127.0.0.1:5000/", "7", "grouped")
    assert address.startswith("http://127.0.0.1:5000/#/experiments/7/runs?compareRunsMode=CHART&")
    assert "viewStateShareKey=grouped" in address
