"""A tracked model in MLflow's tab *Models*: listed, with its scores and data, and registered."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_pages import PATIENCE, expect

from tools import browser
from tsformer import TSTransformerClassifier, load_dataset
from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.model_run import track_evaluation, tracked_fit

pytestmark = pytest.mark.timeout(900)
DATASET = "ItalyPowerDemand"
SMALL: dict[str, Any] = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, empty_store: Callable[[Path], str]) -> RunStore:
    """A store with a model that was fitted and evaluated as by the shell."""
    classifier = TSTransformerClassifier("tape", **SMALL, random_state=0)
    uri = empty_store(tmp_path_factory.mktemp("models") / "mlflow.db")
    with tracked_fit(classifier, dataset=DATASET, tracking_uri=uri):
        classifier.fit(*load_dataset(DATASET, split="train"))
    test = load_dataset(DATASET, split="test")
    track_evaluation(classifier, *test, dataset=DATASET, tracking_uri=uri)
    return prepare_store(uri)


@pytest.fixture
def server(store: RunStore) -> Iterator[str]:
    with browser.running_ui(store.uri) as addresses:
        yield addresses["all fits"].partition("/#/")[0]


def test_a_model_is_listed_with_its_scores_and_registered(
    page: Any, server: str, store: RunStore
) -> None:
    (model,) = store.client().search_logged_models([store.experiment_id])
    (score,) = (metric for metric in model.metrics if metric.key == "test/accuracy")
    listed = f"{server}/#/experiments/{store.experiment_id}/models"
    page.goto(f"{listed}?workflowType=machine_learning")
    page.get_by_role("link", name="model", exact=True).click(timeout=PATIENCE)

    row = page.get_by_role("row").filter(has_text=score.key)
    expect(row.first).to_contain_text(f"{score.value:.4f}"[:5], timeout=PATIENCE)
    expect(row.first).to_contain_text(DATASET)
    encoding = page.get_by_role("row").filter(has=page.get_by_text("encoding", exact=True))
    expect(encoding.first).to_contain_text("tape")

    page.get_by_role("button", name="Register model").click()
    page.get_by_role("dialog").get_by_role("combobox").click()
    page.get_by_text("Create New Model", exact=True).click()
    page.get_by_role("dialog").get_by_placeholder("Input a model name").fill("italy")
    page.get_by_role("dialog").get_by_role("button", name="Register").click()
    expect(page.get_by_role("link", name="italy").first).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_role("dialog")).to_be_hidden(timeout=PATIENCE)  # after the version is made
    (version,) = store.client().search_model_versions("name = 'italy'")
    assert version.run_id == model.source_run_id
