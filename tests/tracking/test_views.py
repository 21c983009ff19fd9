"""Saved views: what their tags hold. Whether MLflow shows them is for the tests in a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.views import PLACE_TAG, VARIANT_TAG, make_views, view_address, view_of_study

pytest.importorskip("mlflow", reason='needs the extra "tracking"')


@pytest.fixture
def store(uri: str, request: pytest.FixtureRequest) -> RunStore:
    return prepare_store(uri, request.node.name)


def fit(store: RunStore, configuration: str = "c", epochs: int = 3, **params: Any) -> None:
    tags = {"tsformer.configuration": configuration}
    with store.start("fit", kind="fit", tags=tags) as run:
        run.params({"dataset": "A", "seed": 0, **params})
        run.metrics({"test/accuracy": 0.9, "fit_seconds": 1.0, "mine": 1.0, "n_epochs": epochs})
        for epoch in range(1, epochs + 1):
            run.metrics({"train/loss": 1 / epoch}, step=epoch)


def summary(store: RunStore, study: str, datasets: int = 2) -> None:
    with store.start(
        "lspe", kind="encoding", tags={"tsformer.study": study, PLACE_TAG: "001"}
    ) as run:
        run.params({"encoding": "lspe", "study": study})
        scores = {
            f"test/{what}/{d}": 0.9
            for d in range(datasets)
            for what in ("accuracy", "accuracy_spread")
        }
        run.metrics({"test/accuracy": 0.9, "test/mean_rank": 1.0, "fit_seconds": 1.0, **scores})


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
    side_by_side = view_of_study("study-1")
    made = make_views(store, study="study-1", title="mine")
    assert made == [side_by_side, "grouped", "fits"]
    assert "tags.`tsformer.study` = 'study-1'" in view(store, side_by_side)[1]["searchFilter"]
    assert view(store, side_by_side)[0] == "Encodings side by side: mine"
    for name in made:
        _, state = view(store, name)
        sections = [section["uuid"] for section in state["compareRunSections"]]
        assert {card["metricSectionId"] for card in state["compareRunCharts"]} == set(sections)
        uuids = [card["uuid"] for card in state["compareRunCharts"]]
        assert len(set(uuids)) == len(uuids)
    described = store.client().get_experiment(store.experiment_id).tags["mlflow.note.content"]
    assert "Encodings side by side" in described


@pytest.mark.parametrize("datasets", [0, 2])
def test_a_search_which_has_folds_has_no_empty_figure_of_data_sets(
    store: RunStore, datasets: int
) -> None:
    summary(store, "search-1", datasets=datasets)
    (made, *_) = make_views(store, study="search-1")
    _, state = view(store, made)
    names = [section["name"] for section in state["compareRunSections"]]
    over = "data sets" if datasets else "folds"
    assert names[0] == f"Scores, mean over {over}"
    assert ("Each data set: mean and spread over seeds" in names) == bool(datasets)
    # The others are in a section that is folded, for MLflow would make cards of them otherwise.
    shown = {part["uuid"] for part in state["compareRunSections"] if part["display"]}
    cards = [card for card in state["compareRunCharts"] if card["metricSectionId"] in shown]
    images = [card["imageKeys"] for card in cards if card["type"] == "IMAGE"]
    assert (["scores"] in images) == bool(datasets)


def test_each_variant_of_a_study_has_its_view_with_the_study_first(store: RunStore) -> None:
    for which, label in (("a1", "stem=linear"), ("b2", "stem=conv")):
        tags = {"tsformer.study": "s", VARIANT_TAG: f"|{which}|", PLACE_TAG: "001"}
        with store.start(f"rope, {label}", kind="encoding", tags=tags) as run:
            run.params({"encoding": "rope", "study": "s"})
            run.metrics({"test/accuracy": 0.9})
    tags = {"tsformer.study": "s", VARIANT_TAG: "|a1|b2|", PLACE_TAG: "000"}
    with store.start("mine", kind="study", tags=tags):
        pass
    made = make_views(store, study="s", title="mine")
    assert made[:2] == ["encodings-s-a1", "encodings-s-b2"]
    for name, label in zip(made, ("stem=linear", "stem=conv"), strict=False):
        title, state = view(store, name)
        assert title == f"Encodings side by side: mine, {label}"
        order = f"{state['orderByKey']} {'ASC' if state['orderByAsc'] else 'DESC'}"
        found = store.client().search_runs(
            [store.experiment_id], state["searchFilter"], order_by=[order]
        )
        assert [run.info.run_name for run in found] == ["mine", f"rope, {label}"]


def test_each_study_keeps_its_view(store: RunStore) -> None:
    for study in ("one", "two"):
        summary(store, study)
        make_views(store, study=study, title=study)
    for study in ("one", "two"):
        title, state = view(store, view_of_study(study))
        assert title == f"Encodings side by side: {study}"
        assert f"'{study}'" in state["searchFilter"]


def test_runs_of_earlier_versions_are_found_by_their_parameter(store: RunStore) -> None:
    with store.start("lspe", kind="encoding") as run:
        run.params({"encoding": "lspe", "study": "old"})
        run.metrics({"test/accuracy": 0.9})
    make_views(store, study="old")
    _, state = view(store, view_of_study("old"))
    assert "params.`study` = 'old'" in state["searchFilter"]
    dots = [card for card in state["compareRunCharts"] if card.get("metricKey") == "test/accuracy"]
    assert [card["xaxis"]["key"] for card in dots] == ["encoding"]


def test_scores_are_dots_and_bars_are_of_what_may_start_at_zero(store: RunStore) -> None:
    """MLflow's bars start at 0, where .93 and .98 look alike; the axes of dots do not."""
    fit(store, encoding="lspe")
    summary(store, "s")
    for name in make_views(store, study="s"):
        cards = view(store, name)[1]["compareRunCharts"]
        assert not [c for c in cards if c["type"] == "BAR" and c["metricKey"].startswith("test/")]
        dots = [card for card in cards if card.get("metricKey") == "test/accuracy"]
        assert dots
        assert all(card["yaxis"] == {"key": "test/accuracy", "type": "METRIC"} for card in dots)
    cards = view(store, view_of_study("s"))[1]["compareRunCharts"]
    assert {"test/accuracy/0", "test/accuracy/1"} <= {card.get("metricKey") for card in cards}


def test_mlflow_has_no_metric_left_to_make_a_card_of(store: RunStore) -> None:
    fit(store, encoding="lspe")
    summary(store, "s")
    kinds = dict.fromkeys(("grouped", "fits"), "fit") | {view_of_study("s"): "encoding"}
    make_views(store, study="s")
    for name, kind in kinds.items():
        _, state = view(store, name)
        (run,) = store.runs(tags={"tsformer.kind": kind})
        assert set(run.data.metrics) <= {
            card.get("metricKey") for card in state["compareRunCharts"]
        }
        closed = [s["uuid"] for s in state["compareRunSections"] if not s["display"]]
        assert closed == ["others"]


def test_a_line_of_one_dot_is_not_drawn(store: RunStore) -> None:
    fit(store, encoding="lspe", epochs=1)
    make_views(store)
    for name in ("grouped", "fits"):
        assert "LINE" not in {card["type"] for card in view(store, name)[1]["compareRunCharts"]}
    fit(store, encoding="lspe", epochs=2)
    make_views(store)
    for name in ("grouped", "fits"):
        assert "LINE" in {card["type"] for card in view(store, name)[1]["compareRunCharts"]}


def test_groups_are_of_the_table_alone_since_they_have_colours_of_their_own(
    store: RunStore,
) -> None:
    fit(store, encoding="lspe")
    make_views(store)
    assert view(store, "grouped")[1]["useGroupedValuesInCharts"] is False


def test_long_names_get_wide_charts(store: RunStore) -> None:
    for encoding, columns in (("none", 2), ("lspe", 2), ("learnable+gaussian", 1)):
        fit(store, encoding=encoding)
        make_views(store)
        for name in ("grouped", "fits"):
            section = view(store, name)[1]["compareRunSections"][0]
            assert (section["uuid"], section["columns"]) == ("scores", columns)


def test_many_data_sets_do_not_make_the_tag_longer_than_mlflow_takes(store: RunStore) -> None:
    summary(store, "many", datasets=120)
    make_views(store, study="many")
    tags = store.client().get_experiment(store.experiment_id).tags
    assert 15_000 < len(tags[f"mlflow.sharedViewState.{view_of_study('many')}"]) <= 20_000


def test_an_older_experiment_becomes_one_of_training_runs(uri: str) -> None:
    client = prepare_store(uri, "tests of tracking").client()
    store = RunStore(uri, client.create_experiment("of an older version"))
    fit(store, encoding="none")
    make_views(store)
    tags = client.get_experiment(store.experiment_id).tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"


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


def test_methods_are_told_apart_by_their_names_and_fits_of_no_study_by_their_encoding(
    store: RunStore,
) -> None:
    fit(store, method="rocket")
    fit(store, method="mine", encoding="lspe")
    with store.start("rocket", kind="encoding", tags={"tsformer.study": "s"}) as run:
        run.params({"method": "rocket", "study": "s"})
        run.metrics({"test/accuracy": 0.9})
    (made, *_) = make_views(store, study="s", title="field")
    title, state = view(store, made)
    assert title == "Methods side by side: field"
    assert {card["xaxis"]["key"] for card in state["compareRunCharts"] if "xaxis" in card} == {
        "method",
        "fit_seconds",
    }
    assert grouped_by(store) == ["method"]
    assert view(store, "grouped")[0] == "Fits grouped by method"
    fit(store, encoding="none")
    make_views(store, study="s")
    assert grouped_by(store) == ["method", "encoding"]
    assert view(store, "grouped")[0] == "Fits grouped by method and encoding"
