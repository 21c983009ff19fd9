"""Commands that start a server or fill a terminal."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest
from listening import answers, listening, wait_until

from tsformer.tracking import prepare_store

#: MLflow's telemetry is off where one of these is set.
TESTING = ("PYTEST_CURRENT_TEST", "CI", "GITHUB_ACTIONS", "JENKINS_URL", "DO_NOT_TRACK")


@pytest.mark.slow
def test_pages_are_served_to_this_machine_only_and_send_no_telemetry(
    empty_store, tmp_path, port, monkeypatch
):
    with prepare_store(empty_store(tmp_path / "mlflow.db")).start("fit", kind="fit") as run:
        run.params({"encoding": "none"})
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for variable in (*TESTING, "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.delenv(variable, raising=False)
    command = [sys.executable, "-m", "tsformer", "ui", "--port", str(port)]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(line for line in server.stdout if "http://" in line).split()[-1]
        assert address.startswith(f"http://127.0.0.1:{port}/")
        pages = address.partition("#")[0]
        wait_until(lambda: server.poll() is not None or answers(pages))
        telemetry = f"{pages}ajax-api/3.0/mlflow/ui-telemetry"
        with urllib.request.urlopen(telemetry, timeout=60) as answer:
            assert json.load(answer)["disable_ui_telemetry"] is True
        assert listening(server.pid) == {("127.0.0.1", port)}
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)
