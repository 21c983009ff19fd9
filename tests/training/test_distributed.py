"""Two processes train like one: real processes, on PyTorch's own engine over loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from marks import exhaustive_except

import tsformer
from tsformer import TSTransformerClassifier, load
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
    # Adam makes whole steps of gradients that are zero but for rounding, as those of the keys' bias
    # and of the table's largest distances are. In double precision they are far below its epsilon.
    def doubled(panel):
        return Panel(panel.values.double(), panel.lengths)

    # Nine series in batches of at most four: parts of unequal size, and of unequal length.
    panel, targets = make_panel(9, ragged=True)
    augmentation = None if sys.argv[2] == "none" else resolve(sys.argv[2])
    model = make_model("tape+erpe", dropout=0.0).double()
    plan = make_plan(n_epochs=8, augmentation=augmentation)
    weights = torch.linspace(0.5, 1.5, 9)
    held_out = wrong_labels()
    held_out = Validation(doubled(held_out.panel), held_out.targets, held_out.score)
    with process_group(CPU) as ranks:
        history = fit(
            model, doubled(panel), targets, plan, weights=weights, validation=held_out
        )
        if ranks.leads:
            torch.save([model.state_dict(), [dict(row) for row in history]], sys.argv[1])
"""


@pytest.mark.parametrize(
    "augmentation", exhaustive_except(["none", "warp+cutmix"], ["warp+cutmix"])
)
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
        for loss in ("loss", "val_loss"):  # both are reported in single precision
            assert other[loss] == pytest.approx(row[loss], rel=1e-6)
    for name, value in alone.items():
        torch.testing.assert_close(shared[name], value, rtol=1e-9, atol=1e-9)


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
        (folder / f"steps-{ranks.rank}").write_text(str(steps))
        if ranks.leads:
            (folder / "losses.json").write_text(json.dumps([row["loss"] for row in history]))
"""


def test_a_process_that_dies_ends_the_job_and_leaves_a_checkpoint(tmp_path):
    path, folder, other = script(tmp_path, DIES), tmp_path / "killed", tmp_path / "straight"
    ended = torchrun(path, str(folder), "deadly")
    assert (folder / "died").exists()
    assert ended.returncode != 0
    assert not list(folder.glob("steps-*")), "the one that was left went on alone"
    assert not (folder / "losses.json").exists()
    assert len(list(folder.glob("training-*.pt"))) == 1
    again, straight = (torchrun(path, str(at), "quiet") for at in (folder, other))
    assert again.returncode == straight.returncode == 0, again.stderr + straight.stderr
    # Seven of 20 steps were done: the checkpoint is of the step before the deadly one at latest.
    for rank in (0, 1):
        assert (folder / f"steps-{rank}").read_text() == "13"
        assert (other / f"steps-{rank}").read_text() == "20"
    losses, expected = (json.loads((at / "losses.json").read_text()) for at in (folder, other))
    assert len(expected) == 4
    # Of the epoch that was interrupted, the checkpoint has the losses of the first process alone.
    assert losses[1] == pytest.approx(expected[1], rel=0.2)
    del losses[1], expected[1]
    assert losses == pytest.approx(expected, rel=1e-5)


STORED = """
    import numpy as np
    from tsformer import TSTransformerClassifier
    from tsformer.data import preprocessor, rows
    preprocessor._KEPT = 0  # so that nothing that was preprocessed is kept
    folder = Path(sys.argv[1])
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    kept = {"memory": X, "memmap": folder / "X.npy", "folder": folder / "series"}
    reads, read, begun = [], rows.LazySeries.read, TSTransformerClassifier._train

    def counted(self, index):
        reads.append(self._index[index].tolist())
        return read(self, index)

    def train(self, job):
        rows.LazySeries.read = counted
        begun(self, job)
        rows.LazySeries.read = read

    TSTransformerClassifier._train = train
    with process_group(CPU) as ranks:
        for how in sys.argv[2:]:
            reads.clear()
            classifier = TSTransformerClassifier(
                **{"d_model": 8, "n_heads": 2, "n_layers": 1, "batch_size": 10, "max_epochs": 3},
                **{"dropout": 0.0, "encoding": "tape", "random_state": 0, "device": "cpu"},
                **{"augmentation": None, "class_weight": "balanced"},
            )
            classifier.fit(kept[how], y)
            losses = [row["loss"] for row in classifier.history_]
            end = [classifier.model_.state_dict(), losses, list(reads)]
            torch.save(end, folder / f"{how}-{ranks.rank}-of-{ranks.size}.pt")
"""
N_STORED = 33  # batches of 8 and 9 series, so that parts are of unequal size


def store(folder: Path) -> None:
    generator = np.random.default_rng(0)
    y = np.arange(N_STORED) % 3
    X = generator.normal(5, 3, (N_STORED, 2, 20)).astype(np.float32) + y[:, None, None]
    X[3, :, 12:] = X[10, :, 7:] = np.nan
    X[5, 1, 3:6] = np.nan
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    (folder / "series").mkdir()
    np.save(folder / "series/series.npy", X)


def ended(folder: Path, *ways: str, of: int = 2) -> list[list]:
    """Return how each of the fits ended: weights, losses and reads of each process."""
    done = torchrun(script(folder, STORED), str(folder), *ways, processes=of)
    assert done.returncode == 0, done.stderr
    paths = [[folder / f"{how}-{rank}-of-{of}.pt" for rank in range(of)] for how in ways]
    return [[torch.load(path, weights_only=True) for path in each] for each in paths]


def assert_same_model(found: dict, expected: dict) -> None:
    """Compare all but what changes no prediction: its gradient is zero, and Adam steps by rounding.

    That is the bias of keys, which softmax cancels, and the bias before the norm of the head, which
    subtracts it with its mean.
    """
    found, expected = (
        {name: value.clone() for name, value in one.items()} for one in (found, expected)
    )
    for one in (found, expected):
        one["blocks.0.attention.qkv.bias"][8:16] = 0.0
        one["head_norm.running_mean"] -= one.pop("norm.bias")
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-4)


def test_processes_read_their_own_parts_and_train_as_from_memory(tmp_path):
    store(tmp_path)
    in_memory, *from_files = ended(tmp_path, "memory", "memmap", "folder")
    (((alone, losses, _),),) = ended(tmp_path, "memory", of=1)
    for of_ranks in from_files:
        for (weights, found, _), (same, expected, _) in zip(of_ranks, in_memory, strict=True):
            assert found == pytest.approx(expected, rel=1e-5)  # sums over processes are rounded
            assert_same_model(weights, same)
        first, second = ([i for index in reads for i in index] for *_, reads in of_ranks)
        # Three epochs, and a pass for the batch norms: each series once in each, in one process.
        assert sorted(first + second) == sorted([*range(N_STORED)] * 4)
        assert abs(len(first) - len(second)) <= 4 * 4, "one series a batch at most"
        assert all(len(index) <= 5 for *_, reads in of_ranks for index in reads)
    assert in_memory[0][1] == pytest.approx(losses, rel=1e-3), "one order of batches"
    assert_same_model(in_memory[0][0], alone)


def test_predict_under_torchrun_reads_and_writes_the_parts_in_order(tmp_path):
    store(tmp_path)
    X, y = np.load(tmp_path / "X.npy"), np.load(tmp_path / "y.npy")
    small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1, "random_state": 0}
    TSTransformerClassifier(**small).fit(X, y).save(tmp_path / "model")
    written = []
    for processes in (1, 2):
        out = tmp_path / f"{processes}.csv"
        command = ["-m", "tsformer", "predict", str(tmp_path / "model"), f"{tmp_path}/series/"]
        done = torchrun(*command, "--proba", "--out", str(out), processes=processes)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("33 predictions written to") == 1
        written.append(out.read_text())
    assert written[0].splitlines()[1].startswith("0,")
    assert len(written[0].splitlines()) == 1 + N_STORED
    assert written[1] == written[0]


def test_fewer_series_than_processes_are_refused():
    with pytest.raises(ValueError, match="3 processes cannot share 2 series"):
        Ranks(0, 3).shard(2)


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
        assert ended.stdout.count("/runs/") == 1
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
