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
    query = {"experiment_names": [experiment()], "filter_string": wanted}
    newest_first: list[Any] = mlflow.search_runs(**query, output_format="list")
    return newest_first[::-1]


def only_run() -> Any:
    (run,) = runs()
    return run


def parent_of(run: Any) -> str:
    return str(run.data.tags.get("mlflow.parentRunId", ""))


def files_of(run: Any) -> set[str]:
    return {file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id)}


def artifacts(run: Any) -> dict[str, Path]:
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id))
    return {path.name: path for path in folder.iterdir()}
