"""Two processes train like one: real processes, on PyTorch's own engine over loopback."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from rank_programs import train_in_double_precision

import tsformer
from tsformer import load
from tsformer.training.distributed import Ranks

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no distributed training"),
    pytest.mark.processes,
]

HERE = Path(__file__).parent
FIT = ["--max-epochs", "2", "--encoding", "tape", "--set", "augmentation=None"]
FIT += ["--set", "dropout=0", "--set", "d_model=16", "--set", "verbose=0"]
N = 33  # batches of 8 and 9 series, so that parts are of unequal size


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, empty_store: Callable[[Path], str]) -> Path:
    """A folder with stored series, and what pairs of processes did with them."""
    folder = tmp_path_factory.mktemp("ranks")
    generator = np.random.default_rng(0)
    y = np.arange(N) % 3
    X = generator.normal(5, 3, (N, 2, 20)).astype(np.float32) + y[:, None, None]
    X[3, :, 12:] = X[10, :, 7:] = np.nan
    X[5, 1, 3:6] = np.nan
    (folder / "series").mkdir()
    for path, array in {"X": X, "series/series": X, "series/labels": y.astype(str)}.items():
        np.save(folder / f"{path}.npy", array)
    store, series = empty_store(folder / "mlflow.db"), str(folder / "series")
    commands = [
        ["fit", series, *FIT, "--tracking-uri", store, "--out", f"{folder}/two"],
        ["predict", f"{folder}/two", series, "--proba", "--out", f"{folder}/2.csv"],
    ]
    paths = [str(HERE), str(HERE.parent), str(Path(tsformer.__file__).parents[1])]
    ended = subprocess.run(
        [sys.executable, str(HERE / "rank_programs.py"), str(folder), json.dumps(commands)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    codes = json.loads((folder / "codes.json").read_text())
    assert codes == [[1, -signal.SIGKILL], [0, 0], [0, 0], [0, 0]], ended.stderr
    assert "lost another one" in ended.stderr
    for once in ("saved in", "/runs/", "33 predictions written to"):
        assert ended.stdout.count(once) == 1, "the first process alone reports"
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> list[dict[str, Any]]:
    """Return the results of each of two processes."""
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_two_processes_train_like_one(results):
    alone, rows = train_in_double_precision()
    shared, again = results[0]["double"]
    for row, shared_row in zip(rows, again, strict=True):
        for loss in ("loss", "val_loss"):  # both are reported in single precision
            assert shared_row[loss] == pytest.approx(row[loss], rel=1e-6)
    for name, value in alone.items():
        torch.testing.assert_close(shared[name], value, rtol=1e-9, atol=1e-9)


def test_a_process_that_dies_ends_the_job_and_leaves_a_checkpoint(folder, results):
    assert not (folder / "went on").exists()
    assert len(list(folder.glob("killed/training-*"))) == 1
    # Seven of 20 steps were done: the checkpoint is of the step before the deadly one at latest.
    for result in results:
        (steps, losses), (all_steps, expected) = result["resumed"], result["straight"]
        assert (steps, all_steps, len(expected)) == (13, 20, 4)
        # Of the epoch that was interrupted, it has the losses of the first process alone.
        assert losses[1] == pytest.approx(expected[1], rel=0.2)
        del losses[1], expected[1]
        assert losses == pytest.approx(expected, rel=1e-5)


def test_commands_in_two_processes(folder, invoke):
    series = folder / "series"
    invoke("predict", folder / "two", series, "--proba", "--out", folder / "1.csv")
    alone, shared = ((folder / f"{n}.csv").read_text() for n in (1, 2))
    assert alone.splitlines()[1].startswith("0,")
    assert len(alone.splitlines()) == 1 + N
    assert shared == alone, "the parts, in order"
    invoke("fit", series, *FIT, "--no-track", "--out", folder / "one")
    one, two = load(folder / "one"), load(folder / "two")
    X = np.load(folder / "X.npy")
    assert abs(one.predict_proba(X) - two.predict_proba(X)).max() < 0.01
    for row, shared_row in zip(one.history_, two.history_, strict=True):
        assert shared_row["loss"] == pytest.approx(row["loss"], rel=1e-3)


def test_ranks_refuse_unlike_seeds_and_small_batches(results):
    for result in results:
        assert "different seeds" in result["seeds"]
        assert "cannot share a batch of 1 series" in result["batch"]
    with pytest.raises(ValueError):
        Ranks(0, 3).shard(2)
