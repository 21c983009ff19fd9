"""Two processes train like one: real processes, on PyTorch's own engine over loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import tsformer
from tsformer import load
from tsformer.training.distributed import Ranks

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no distributed training"),
    pytest.mark.processes,
]

BEGINNING = """
    import json, os, signal, sys
    from pathlib import Path
    import torch
    from small_problem import *
    from tsformer.augmentation import resolve
    from tsformer.training.distributed import process_group
    torch.set_num_threads(1)
"""


def torchrun(*command: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = [str(Path(__file__).parent), str(Path(tsformer.__file__).parents[1])]
    launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    launch += ["--master-addr=127.0.0.1", f"--master-port={port}"]
    return subprocess.run(
        [*launch, *command],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )


def script(folder: Path, body: str) -> str:
    path = folder / "training.py"
    path.write_text(textwrap.dedent(BEGINNING) + textwrap.dedent(body))
    return str(path)


TRAIN = """
    # Nine series in batches of at most four: parts of unequal size, and of unequal length.
    panel, targets = make_panel(9, ragged=True)
    augmentation = None if sys.argv[2] == "none" else resolve(sys.argv[2])
    model = make_model("tape+erpe", dropout=0.0)
    plan = make_plan(n_epochs=8, augmentation=augmentation)
    weights = torch.linspace(0.5, 1.5, 9)
    with process_group(CPU) as ranks:
        history = fit(model, panel, targets, plan, weights=weights, validation=wrong_labels())
        if ranks.leads:
            torch.save([model.state_dict(), [dict(row) for row in history]], sys.argv[1])
"""


@pytest.mark.parametrize("augmentation", ["none", "warp+cutmix"])
def test_the_same_losses_and_weights_as_one_process(augmentation, tmp_path):
    path = script(tmp_path, TRAIN)
    for processes in (1, 2):
        saved = str(tmp_path / f"{processes}.pt")
        ended = torchrun(path, saved, augmentation, processes=processes)
        assert ended.returncode == 0, ended.stderr
    (alone, rows), (shared, again) = (
        torch.load(tmp_path / f"{n}.pt", weights_only=True) for n in (1, 2)
    )
    for row, other in zip(rows, again, strict=True):
        assert other["loss"] == pytest.approx(row["loss"], rel=1e-3)
        assert other["val_loss"] == pytest.approx(row["val_loss"], rel=1e-3)
    for name, value in alone.items():
        torch.testing.assert_close(
            shared[name], value, rtol=0.01, atol=5e-3
        )  # Adam amplifies rounding


DIES = """
    folder, deadly = Path(sys.argv[1]), sys.argv[2] == "deadly"
    folder.mkdir(exist_ok=True)
    steps = 0
    def loss(outputs, targets):
        global steps
        steps += outputs.requires_grad
        if deadly and steps == 8 and os.environ["RANK"] == "1":
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(outputs, targets)
    plan = make_plan(n_epochs=4, checkpoint_dir=folder, checkpoint_minutes=0.0, resume=not deadly)
    with process_group(CPU) as ranks:
        history = train(make_model("tape", dropout=0.0), *make_panel(), loss, plan)
        print("steps", ranks.rank, steps, flush=True)
        if ranks.leads:
            (folder / "losses.json").write_text(json.dumps([row["loss"] for row in history]))
"""


def test_a_process_that_dies_ends_the_job_and_leaves_a_checkpoint(tmp_path):
    path, folder, other = script(tmp_path, DIES), tmp_path / "killed", tmp_path / "straight"
    ended = torchrun(path, str(folder), "deadly")
    assert (folder / "died").exists()
    assert ended.returncode != 0
    assert "steps 0" not in ended.stdout, "the one that was left went on alone"
    assert not (folder / "losses.json").exists()
    assert len(list(folder.glob("training-*.pt"))) == 1
    again, straight = (torchrun(path, str(at), "quiet") for at in (folder, other))
    assert again.returncode == straight.returncode == 0, again.stderr + straight.stderr
    # Seven of 20 steps were done: the checkpoint is of the step before the deadly one at latest.
    assert "steps 0 13" in again.stdout
    assert "steps 0 20" in straight.stdout
    losses, expected = (json.loads((at / "losses.json").read_text()) for at in (folder, other))
    assert len(expected) == 4
    # Of the epoch that was interrupted, the checkpoint has the losses of the first process alone.
    assert losses[1] == pytest.approx(expected[1], rel=0.2)
    del losses[1], expected[1]
    assert losses == pytest.approx(expected, rel=1e-5)


def test_the_command_line_under_torchrun(tmp_path):
    arguments = ["ItalyPowerDemand", "--max-epochs", "2", "--encoding", "tape"]
    arguments += ["--set", "dropout=0", "--set", "d_model=16", "--set", "verbose=0"]
    arguments += ["--tracking-uri", f"sqlite:///{tmp_path / 'mlflow.db'}"]
    outputs = []
    for processes in (1, 2):
        out = tmp_path / f"model{processes}"
        ended = torchrun(
            "-m", "tsformer", "fit", *arguments, "--out", str(out), processes=processes
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("saved in") == 1
        assert ended.stdout.count("\nrun     http") == 1
        outputs.append(load(out))
    X, _ = tsformer.load_dataset("ItalyPowerDemand", "test")
    one, two = (model.predict_proba(X) for model in outputs)
    assert abs(one - two).max() < 0.01
    for row, other in zip(outputs[0].history_, outputs[1].history_, strict=True):
        assert other["loss"] == pytest.approx(row["loss"], rel=1e-3)


@pytest.mark.parametrize(
    ("same_seed", "message"),
    [("no", "different seeds"), ("yes", "cannot share a batch of 1 series")],
)
def test_what_processes_cannot_share_is_refused(same_seed, message, tmp_path):
    body = """
        with process_group(CPU) as ranks:
            seed = ranks.rank if sys.argv[1] == "no" else 0
            fit(make_model(), *make_panel(), make_plan(seed=seed, batch_size=1))
    """
    ended = torchrun(script(tmp_path, body), same_seed)
    assert ended.returncode != 0
    assert message in ended.stderr


def test_alone_nothing_is_shared():
    alone = Ranks.current()
    assert alone == Ranks(0, 1)
    assert alone.leads
    model = torch.nn.Linear(2, 2)
    assert alone.wrap(model, torch.device("cpu")) is model
