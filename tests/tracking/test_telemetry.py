"""Nothing phones home: no process that tracks, registers or trains looks up another machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: MLflow's telemetry is off where one of these is set, as it is in tests and on CI servers.
TESTING = ("PYTEST_CURRENT_TEST", "CI", "GITHUB_ACTIONS", "JENKINS_URL", "DO_NOT_TRACK")
WORKS = """
import sys

def watched(event, arguments):
    # Raised by the interpreter itself, whichever library asks for another machine.
    if event == "socket.getaddrinfo" and arguments[0] not in ("localhost", "127.0.0.1", None):
        print("asked for", arguments[0], flush=True)
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        if not arguments[1][0].startswith(("127.", "::1")):
            print("asked for", arguments[1][0], flush=True)

sys.addaudithook(watched)
import numpy as np
from tsformer import TSTransformerClassifier, load
from tsformer.tracking import MLflowTracker, prepare_store
from tsformer.tracking import write_model

X = np.random.default_rng(0).normal(size=(8, 1, 12))
store = prepare_store(f"sqlite:///{sys.argv[1]}/mlflow.db")
with store.start("fit", kind="fit") as run:
    clf = TSTransformerClassifier(d_model=8, n_heads=1, max_epochs=1, random_state=0,
                                  callbacks=[MLflowTracker(mlflow_run=run)])
    clf.fit(X, [0, 1] * 4)
clf.set_params(callbacks=None).save(sys.argv[1] + "/model")
write_model(load(sys.argv[1] + "/model"), sys.argv[1] + "/served")
import mlflow
mlflow.set_tracking_uri(store.uri)
mlflow.register_model(sys.argv[1] + "/served", "model")
from mlflow.telemetry.client import get_telemetry_client
print("telemetry", get_telemetry_client() is not None)
"""


def said(folder: Path, **variables: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if k not in TESTING}
    environment.pop("MLFLOW_DISABLE_TELEMETRY", None)
    done = subprocess.run(
        [sys.executable, "-c", WORKS, str(folder)],
        env=environment | {"HOME": str(folder)} | variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.processes
def test_no_other_machine_is_asked_for(tmp_path, empty_store):
    empty_store(tmp_path / "mlflow.db")
    assert said(tmp_path) == ["telemetry False"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "mlflow.db", "model", "served",
    }  # fmt: skip
