"""Two processes train like one: real processes, on PyTorch's own engine over loopback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from listening import free_port
from rank_programs import STORED, fit_stored, train_in_double_precision

import tsformer
from tsformer import TSTransformerClassifier, load
from tsformer.training.distributed import Ranks

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no distributed training"),
    pytest.mark.processes,
]

HERE = Path(__file__).parent
FIT = ["fit", "ItalyPowerDemand", "--max-epochs", "2", "--encoding", "tape"]
FIT += ["--set", "dropout=0", "--set", "d_model=16", "--set", "verbose=0"]
N_STORED = 33  # batches of 8 and 9 series, so that parts are of unequal size


def torchrun(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Start two processes of a program."""
    paths = [str(HERE), str(Path(tsformer.__file__).parents[1])]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    launch += ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    return subprocess.run(
        [*launch, str(HERE / "rank_programs.py"), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stored series and a model."""
    folder = tmp_path_factory.mktemp("ranks")
    generator = np.random.default_rng(0)
    y = np.arange(N_STORED) % 3
    X = generator.normal(5, 3, (N_STORED, 2, 20)).astype(np.float32) + y[:, None, None]
    X[3, :, 12:] = X[10, :, 7:] = np.nan
    X[5, 1, 3:6] = np.nan
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    (folder / "series").mkdir()
    np.save(folder / "series/series.npy", X)
    small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1, "random_state": 0}
    TSTransformerClassifier(**small).fit(X, y).save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def left(folder: Path) -> set[str]:
    """Names of the files of a job after the death of its second process."""
    (folder / "killed").mkdir()
    ended = torchrun("die", str(folder), "[]")
    assert ended.returncode != 0
    return {path.name for path in (folder / "killed").iterdir()}


@pytest.fixture(scope="module")
def found(folder: Path, left: object, empty_store: Callable[[Path], str]) -> list[dict[str, Any]]:
    """What each of two processes found, after another job had died."""
    fitted = [*FIT, "--tracking-uri", empty_store(folder / "mlflow.db"), "--out", f"{folder}/two"]
    predicted = ["predict", f"{folder}/model", f"{folder}/series/", "--proba"]
    predicted += ["--out", f"{folder}/2.csv"]
    commands = [(free_port(), arguments) for arguments in (fitted, predicted)]
    ended = torchrun("train", str(folder), json.dumps(commands))
    assert ended.returncode == 0, ended.stderr
    for once in ("saved in", "/runs/", "33 predictions written to"):
        assert ended.stdout.count(once) == 1, "the first process alone reports"
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_two_processes_train_like_one(found):
    alone, rows = train_in_double_precision()
    shared, again = found[0]["double"]
    for row, other in zip(rows, again, strict=True):
        for loss in ("loss", "val_loss"):  # both are reported in single precision
            assert other[loss] == pytest.approx(row[loss], rel=1e-6)
    for name, value in alone.items():
        torch.testing.assert_close(shared[name], value, rtol=1e-9, atol=1e-9)


def test_a_process_that_dies_ends_the_job_and_leaves_a_checkpoint(left, found):
    assert "died" in left
    assert "went on" not in left, "the other one went on alone"
    assert sum(name.startswith("training-") for name in left) == 1
    # Seven of 20 steps were done: the checkpoint is of the step before the deadly one at latest.
    for each in found:
        (steps, losses), (all_steps, expected) = each["resumed"], each["straight"]
        assert steps == 13
        assert all_steps == 20
        assert len(expected) == 4
        # Of the epoch that was interrupted, the checkpoint has the losses of the first process
        # alone.
        assert losses[1] == pytest.approx(expected[1], rel=0.2)
        del losses[1], expected[1]
        assert losses == pytest.approx(expected, rel=1e-5)


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


def test_processes_read_own_parts(folder, found):
    in_memory, stored = ([each["stored"][where] for each in found] for where in STORED)
    for (weights, losses, _), (same, expected, _) in zip(stored, in_memory, strict=True):
        assert losses == pytest.approx(expected, rel=1e-5)  # sums over processes are rounded
        assert_same_model(weights, same)
    first, second = ([i for index in reads for i in index] for *_, reads in stored)
    # Three epochs, and a pass for the batch norms: each series once in each, in one process.
    assert sorted(first + second) == sorted([*range(N_STORED)] * 4)
    assert abs(len(first) - len(second)) <= 4 * 4, "one series a batch at most"
    assert all(len(index) <= 5 for *_, reads in stored for index in reads)
    alone, losses = fit_stored(np.load(folder / "X.npy"), np.load(folder / "y.npy"))
    assert in_memory[0][1] == pytest.approx(losses, rel=1e-3), "one order of batches"
    assert_same_model(in_memory[0][0], alone)


@pytest.mark.usefixtures("found")
def test_predict_under_torchrun_reads_and_writes_the_parts_in_order(folder, invoke):
    invoke("predict", folder / "model", f"{folder}/series/", "--proba", "--out", folder / "1.csv")
    alone, shared = ((folder / f"{n}.csv").read_text() for n in (1, 2))
    assert alone.splitlines()[1].startswith("0,")
    assert len(alone.splitlines()) == 1 + N_STORED
    assert shared == alone


@pytest.mark.usefixtures("found")
def test_the_command_line_under_torchrun(folder, invoke):
    invoke(*FIT, "--no-track", "--out", folder / "one")
    one, two = load(folder / "one"), load(folder / "two")
    X, _ = tsformer.load_dataset("ItalyPowerDemand", "test")
    assert abs(one.predict_proba(X) - two.predict_proba(X)).max() < 0.01
    for row, other in zip(one.history_, two.history_, strict=True):
        assert other["loss"] == pytest.approx(row["loss"], rel=1e-3)


def test_ranks_refuse_unlike_seeds_and_small_batches(found):
    for each in found:
        assert "different seeds" in each["seeds"]
        assert "cannot share a batch of 1 series" in each["batch"]
    with pytest.raises(ValueError, match="3 processes cannot share 2 series"):
        Ranks(0, 3).shard(2)
