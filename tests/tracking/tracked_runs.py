"""The runs that a test leaves in its own experiment of the shared store."""

import os
from pathlib import Path
from typing import Any

import pytest

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')


def experiment() -> str:
    return os.environ["MLFLOW_EXPERIMENT_NAME"]


def runs(**tags: str) -> list[Any]:
    """Return the runs of this test with these tags of the package, the oldest first."""
    wanted = " and ".join(f"tags.`tsformer.{tag}` = '{value}'" for tag, value in tags.items())
    own = {"experiment_names": [experiment()], "filter_string": wanted}
    found: list[Any] = mlflow.search_runs(**own, output_format="list")
    return found[::-1]


def only_run() -> Any:
    (run,) = runs()
    return run


def parent_of(run: Any) -> str:
    return str(run.data.tags.get("mlflow.parentRunId", ""))


def files_of(run: Any) -> set[str]:
    return {each.path for each in mlflow.MlflowClient().list_artifacts(run.info.run_id)}


def artifacts(run: Any) -> dict[str, Path]:
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id))
    return {path.name: path for path in folder.iterdir()}
