"""Tracking, registering and loading contact no other machine, and loading runs no pickle."""

import os
import subprocess
import sys

import pytest

#: MLflow's telemetry is off where one of these is set, as it is in tests and on CI servers.
TESTING = ("PYTEST_CURRENT_TEST", "CI", "GITHUB_ACTIONS", "JENKINS_URL", "DO_NOT_TRACK")
WORKS = """
import sys

def watched(event, arguments):
    # Raised by the interpreter itself, whichever library asks for another machine.
    if event == "socket.getaddrinfo" and arguments[0] not in ("localhost", "127.0.0.1", None):
        print("asked for", arguments[0], flush=True)
    address = arguments[1] if event == "socket.connect" else None
    if isinstance(address, tuple) and not address[0].startswith(("127.", "::1")):
        print("asked for", address[0], flush=True)

sys.addaudithook(watched)
import numpy as np
from tsformer import TSTransformerClassifier, load
from tsformer.tracking import MLflowTracker, prepare_store, write_model

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

import os, pickle
seen, code = [], {"pickle.find_class", "os.exec", "os.fork", "os.system", "subprocess.Popen"}
load = lambda: mlflow.pyfunc.load_model(sys.argv[1] + "/served", suppress_warnings=True)
load()  # imports what loading needs
sys.addaudithook(lambda event, arguments: event in code and seen.append(event))
load()
print(seen)
pickle.loads(pickle.dumps(os.getcwd))
print(seen)
"""

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def printed(tmp_path_factory, empty_store) -> list[str]:
    """Run the program, and return its output."""
    folder = tmp_path_factory.mktemp("works")
    empty_store(folder / "mlflow.db")
    environment = {k: v for k, v in os.environ.items() if k not in TESTING}
    environment.pop("MLFLOW_DISABLE_TELEMETRY", None)
    done = subprocess.run(
        [sys.executable, "-c", WORKS, str(folder)],
        env=environment | {"HOME": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == {"mlflow.db", "model", "served"}
    return done.stdout.splitlines()


def test_no_other_machine_is_asked_for(printed):
    assert printed[:-2] == ["telemetry False"]


def test_mlflow_runs_no_pickle_to_load_a_registered_model(printed):
    assert printed[-2:] == ["[]", "['pickle.find_class']"]
