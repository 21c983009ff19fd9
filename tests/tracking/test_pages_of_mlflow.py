"""Saved views, and the pages that `tsformer ui` opens; a browser shows them in tests/ui."""

import json
from typing import Any

import pytest

from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.views import (
    PLACE_TAG,
    VARIANT_TAG,
    find_experiment,
    make_views,
    pages_of,
    view_of_study,
)


@pytest.fixture
def store(uri, request):
    return prepare_store(uri, request.node.name)


def fit(store: RunStore) -> None:
    with store.start("fit", kind="fit") as run:
        run.params({"dataset": "A", "seed": 0, "encoding": "lspe"})
        run.metrics({"test/accuracy": 0.9, "fit_seconds": 1.0, "mine": 1.0, "train/loss": 1.0})


def summary(store: RunStore, study: str, datasets: int = 2, encoding: str = "lspe") -> None:
    tags = {"tsformer.study": study, PLACE_TAG: "001"}
    with store.start("lspe", kind="encoding", tags=tags) as run:
        run.params({"encoding": encoding, "study": study})
        run.metrics({"test/accuracy": 0.9, "test/mean_rank": 1.0, "fit_seconds": 1.0})
        for metric in ("accuracy", "accuracy_spread"):
            run.metrics({f"test/{metric}/{d}": 0.9 for d in range(datasets)})


def view(store: RunStore, name: str) -> dict[str, Any]:
    """The state, read as MLflow's pages do: it is JSON within JSON."""
    tags = store.client().get_experiment(store.experiment_id).tags
    return json.loads(json.loads(tags[f"mlflow.sharedViewState.{name}"])["state"])


def test_each_variant_of_a_study_has_its_view_worst_first_without_the_study(store):
    """MLflow's charts reverse the runs: there the best is first."""
    variants = {"linear": "|a1|", "conv": "|b2|"}
    for name, variant, rank in (
        *((f"rope, stem={stem}", variant, "001") for stem, variant in variants.items()),
        *((f"none, stem={stem}", variant, "010") for stem, variant in variants.items()),
        ("mine", "", ""),
    ):
        tags = {"tsformer.study": "s", VARIANT_TAG: variant, PLACE_TAG: rank}
        with store.start(name, kind="study" if name == "mine" else "encoding", tags=tags) as run:
            run.params({"encoding": "rope", "study": "s"})
    summary(store, "another")
    assert make_views(store, "s") == {
        "encodings-s-a1": "Encodings side by side: mine, stem=linear",
        "encodings-s-b2": "Encodings side by side: mine, stem=conv",
        "fits": "All fits",
    }
    for name, label in (("encodings-s-a1", "stem=linear"), ("encodings-s-b2", "stem=conv")):
        state = view(store, name)
        order = f"{state['orderByKey']} {'ASC' if state['orderByAsc'] else 'DESC'}"
        matches = store.client().search_runs(
            [store.experiment_id], state["searchFilter"], order_by=[order]
        )
        assert [run.info.run_name for run in matches] == [f"none, {label}", f"rope, {label}"]


@pytest.mark.parametrize(("encoding", "columns"), [("lspe", {1, 2}), (49 * "e", {1})])
def test_charts_whose_names_are_long_have_the_whole_width(encoding, columns, store):
    summary(store, "s", encoding=encoding)
    make_views(store, "s")
    sections = view(store, view_of_study("s"))["compareRunSections"]
    assert {section["columns"] for section in sections} == columns


def test_a_tag_has_the_length_that_mlflow_takes_and_a_lost_store_costs_a_warning(
    store, monkeypatch
):
    summary(store, "many", datasets=120)
    make_views(store, "many")
    tags = store.client().get_experiment(store.experiment_id).tags
    assert 10_000 < len(tags[f"mlflow.sharedViewState.{view_of_study('many')}"]) <= 20_000
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.warns(UserWarning, match="views"):
        assert make_views(RunStore("http://127.0.0.1:9", "1"), "many") == {}


def test_the_experiment_of_the_newest_run_or_the_one_named(uri, tmp_path, monkeypatch):
    older, newer, _ = (prepare_store(uri, name) for name in ("older", "newer", "empty"))
    for store in (older, newer):
        store.start("run", kind="fit").end("FINISHED")
    assert find_experiment(uri) == newer
    assert find_experiment(uri, "older") == older
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for store, name, error, message in (
        (uri, "empty", ValueError, "'empty'"),
        (uri, "odler", ValueError, "'older'"),
        (f"sqlite:///{tmp_path}/no.db", None, FileNotFoundError, None),
        ("http://127.0.0.1:9", None, ConnectionError, None),
    ):
        with pytest.raises(error, match=message):
            find_experiment(store, name)
    assert list(tmp_path.iterdir()) == []


def test_pages_are_those_of_the_newest_study(uri):
    store = prepare_store(uri, "pages")
    fit(store)
    assert list(pages_of(store, "http://x")) == ["All fits"]
    summary(store, "older")
    with store.start("rocket", kind="encoding", tags={"tsformer.study": "newer"}) as run:
        run.params({"method": "rocket"})
    pages = pages_of(store, "http://x/")
    assert list(pages) == ["Methods side by side", "All fits"]
    assert "viewStateShareKey=encodings-newer" in pages["Methods side by side"]
