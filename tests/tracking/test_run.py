"""TrackedRun: batches, refused entries, and a store that fails."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tsformer import TSTransformerClassifier
from tsformer.tracking import MLflowTracker, TrackedRun


class CountingClient:
    """Stands for a client: counts calls, and fails them from number `works` on."""

    def __init__(self, works: float = math.inf):
        self.works = works
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, method: str) -> Any:
        def call(run_id: str, *args: Any, **kwargs: Any) -> Any:
            self.calls.append((method, kwargs))
            if len(self.calls) > self.works:
                raise OSError("the disk is full")
            return SimpleNamespace(data=SimpleNamespace(metrics={}))

        return call


def test_a_store_that_dies_is_left_alone(italy):
    X, y = italy
    client: Any = CountingClient(works=2)
    run = TrackedRun(client, "some run", flush_seconds=0.0)
    tracker = MLflowTracker(run)
    with pytest.warns(UserWarning, match="full") as got:
        TSTransformerClassifier(d_model=8, max_epochs=4, callbacks=[tracker]).fit(X, y)
    assert len(got) == 1
    assert len(client.calls) == 3, "nothing is tried again after the first failure"
    assert run.lost
    assert tracker.summary_["n_epochs"] == 4


def test_metrics_wait_and_go_together():
    client: Any = CountingClient()
    run = TrackedRun(client, "some run", flush_seconds=1000.0)
    for epoch in range(600):
        run.metrics({"train/loss": 1.0, "lr": 0.1}, step=epoch)
    assert client.calls == []
    run.end("FINISHED")
    batches = [kwargs["metrics"] for method, kwargs in client.calls if method == "log_batch"]
    assert [len(batch) for batch in batches] == [1200]  # the client cuts it
    assert client.calls[-1][0] == "set_terminated"


def test_values_and_names_that_mlflow_cannot_store_are_dropped_cut_or_escaped(store):
    with store.start("many", kind="fit", tags={"": "empty"}) as run:
        run.metrics({"nan": math.nan, "inf": math.inf, "minus": -math.inf, "loss (a)": 1.0})
        run.params({f"p{i}": i for i in range(250)} | {"long": "x" * 10_000, "n" * 300: 4})
        run.tags({"long": "y" * 20_000, "walk (slow)": "1"})
    data = store.client().get_run(run.run_id).data
    assert data.metrics == {"loss _a_": 1.0}
    assert len(data.params) == 252
    assert (data.params["long"], data.params["n" * 220]) == ("x" * 6000, "4")
    assert data.tags.items() >= {"long": "y" * 8000, "walk _slow_": "1", "_": "empty"}.items()
    assert "tsformer.missing" not in data.tags


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("why it failed"), "FAILED"), (KeyboardInterrupt(), "KILLED")]
)
def test_a_run_says_how_its_block_ended(store, error, status):
    with pytest.raises(type(error)), store.start("block", kind="fit") as run:
        raise error
    kept = run.read()
    assert kept.info.status == status
    if status == "FAILED":
        assert kept.data.tags["tsformer.error"] == "ValueError: why it failed"
        trace = Path(run.client.download_artifacts(run.run_id, "error.txt"))
        assert "raise error" in trace.read_text()


def test_data_are_named_and_told_apart(store, italy):
    X, y = italy
    unequal = [series[:, : 10 + i % 5] for i, series in enumerate(X)]
    passed = {"train": (X, y), "test": (X + 1, y), "validation": (X, y[::-1])}
    with store.start("data", kind="fit") as run:
        for context, data in passed.items():
            run.dataset(*data, name="Italy", context=context)
        run.dataset(unequal, y, name="Unequal", context="train")
    inputs = run.read().inputs.dataset_inputs
    named = [("Italy", context) for context in passed]
    assert [(i.dataset.name, i.tags[0].value) for i in inputs] == [*named, ("Unequal", "train")]
    assert len({i.dataset.digest for i in inputs}) == 4
    assert "[67, 1, 24]" in inputs[0].dataset.profile
    assert "[67, 1, 14]" in inputs[3].dataset.profile


def test_what_mlflow_refuses_costs_that_alone_and_is_in_a_tag(store):
    with store.start("refused", kind="fit") as run:
        run.params({"depth": 3})
        with pytest.warns(UserWarning, match="depth"):
            run.params({"depth": 5, "width": 7})
        run.text("", "after.txt")
    kept = store.client().get_run(run.run_id)
    assert kept.data.params["depth"] == "3"
    assert kept.data.params["width"] == "7"
    assert kept.data.tags["tsformer.missing"] == "params.depth"
    assert [file.path for file in store.client().list_artifacts(run.run_id)] == ["after.txt"]


class Flaky:
    """A client of a real store whose methods fail while `broken` names them."""

    def __init__(self, run: TrackedRun, broken: str):
        self.client, self.broken = run.client, {broken}
        run.client = self

    def __getattr__(self, method: str) -> Any:
        def fail(*args: Any, **kwargs: Any) -> None:
            raise OSError("no space left")

        return fail if method in self.broken else getattr(self.client, method)


def test_a_picture_that_fails_or_a_full_disk_costs_the_artifacts_alone(store):
    with store.start("full", kind="fit") as run:
        Flaky(run, "log_text")
        with pytest.warns(UserWarning, match="x.png"):
            run.figure(lambda: 1 / 0, "x.png")
        with pytest.warns(UserWarning, match="a.txt"):
            run.text("", "a.txt")
        run.metrics({"after": 1.0})
    kept = run.read()
    assert (kept.info.status, kept.data.metrics) == ("FINISHED", {"after": 1.0})
    assert kept.data.tags["tsformer.missing"] == "x.png, a.txt"


def test_a_run_with_a_hole_is_not_finished_once_the_store_is_back(store):
    run = store.start("hole", kind="fit", key="hole")
    client = Flaky(run, "log_batch")
    with pytest.warns(UserWarning, match="space"):
        run.params({"depth": 3})
    client.broken = set()
    run.end("FINISHED")
    kept = store.client().get_run(run.run_id)
    assert kept.info.status == run.status == "KILLED"
    assert "failure of the store" in kept.data.tags["tsformer.missing"]
    with store.start("hole", kind="fit", key="hole", again=True) as again:
        again.params({"depth": 3})
    kept = store.client().get_run(run.run_id)
    assert again.run_id == run.run_id
    assert kept.info.status == "FINISHED"
    assert "tsformer.missing" not in kept.data.tags
