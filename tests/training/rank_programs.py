"""Training that torchrun starts in two processes, and that tests start in one."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_problem import CPU, cross_entropy, fit, make_model, make_panel, make_plan, wrong_labels
from torch import Tensor

from tsformer.augmentation import resolve
from tsformer.cli import main
from tsformer.data.panel import Panel
from tsformer.training import Validation, train
from tsformer.training.distributed import Ranks, process_group

STORED = ("memory", "memmap")


def train_in_double_precision() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return weights and history of a training run."""

    # Adam makes whole steps of gradients that are zero but for rounding, as those of the keys' bias
    # and of the table's largest distances are. In double precision they are far below its epsilon.
    def doubled(panel: Panel) -> Panel:
        return Panel(panel.values.double(), panel.lengths)

    # Nine series in batches of at most four: parts of unequal size, and of unequal length.
    panel, targets = make_panel(9, ragged=True)
    model = make_model("tape+erpe", dropout=0.0, head_norm="batch").double()
    plan = make_plan(n_epochs=8, augmentation=resolve("warp+cutmix"))
    weights = torch.linspace(0.5, 1.5, 9)
    held_out = wrong_labels()
    held_out = Validation(doubled(held_out.panel), held_out.targets, held_out.score)
    history = fit(model, doubled(panel), targets, plan, weights=weights, validation=held_out)
    return model.state_dict(), [dict(row) for row in history]


def train_with_checkpoints(folder: Path, deadly_step: int = 0) -> tuple[int, list[float]]:
    """Return the number of steps and the losses; the second process dies before a deadly step."""
    steps = 0

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal steps
        steps += outputs.requires_grad
        if steps == deadly_step and os.environ["RANK"] == "1":
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(outputs, targets)

    plan = make_plan(
        checkpoint_dir=folder, checkpoint_minutes=0.0, resume=(folder / "died").exists()
    )
    history = train(make_model("tape", dropout=0.0), *make_panel(), loss, plan)
    return steps, [row["loss"] for row in history]


def fit_stored(X: Any, y: Any) -> tuple[dict[str, Any], list[float]]:
    """Return weights and losses of a classifier."""
    from tsformer import TSTransformerClassifier  # a program without it begins sooner

    classifier = TSTransformerClassifier(
        "tape", d_model=8, n_heads=2, n_layers=1, batch_size=10, max_epochs=3, dropout=0.0,
        random_state=0, device="cpu", augmentation=None, class_weight="balanced",
    )  # fmt: skip
    classifier.fit(X, y)
    return classifier.model_.state_dict(), [row["loss"] for row in classifier.history_]


def fit_and_count_reads(folder: Path) -> dict[str, Any]:
    """Return what `fit_stored` returns, and which series were read in training, by their place."""
    from tsformer.data import preprocessor, series
    from tsformer.estimators import base

    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    stored = {"memory": X, "memmap": folder / "X.npy"}
    reads: list[list[int]] = []
    read, begun = series.StoredSeries.read, base.train_ensemble

    def counted(self: Any, index: Any) -> Any:
        reads.append(self.numbers[index].tolist())
        return read(self, index)

    def train(*args: Any, **options: Any) -> None:
        series.StoredSeries.read = counted
        begun(*args, **options)
        series.StoredSeries.read = read

    base.train_ensemble = train
    preprocessor._KEPT = 0  # so that nothing that was preprocessed is kept
    series._VALUES = 5 * X[0].size  # nor an array that was read
    found = {}
    for where in STORED:
        reads.clear()
        found[where] = (*fit_stored(stored[where], y), list(reads))
    return found


def refusal(**plan: int) -> str:
    """Return the message of the error that a plan raises."""
    try:
        fit(make_model(), *make_panel(), make_plan(**plan))
    except ValueError as error:
        return str(error)
    return "not refused"


def train_all(folder: Path, ranks: Ranks) -> dict[str, Any]:
    """Return all that tests compare."""
    (folder / "straight").mkdir(exist_ok=True)
    return {
        "double": train_in_double_precision(),
        "resumed": train_with_checkpoints(folder / "killed"),
        "straight": train_with_checkpoints(folder / "straight"),
        "stored": fit_and_count_reads(folder),
        "seeds": refusal(seed=ranks.rank),
        "batch": refusal(batch_size=1),
    }


def run_commands(ports_and_arguments: list[tuple[int, list[str]]]) -> None:
    """Run command lines, each in a process group of its own."""
    for port, arguments in ports_and_arguments:
        # The store of torchrun serves one group: the next one meets at another port.
        os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "False", "MASTER_PORT": str(port)}
        try:
            main(arguments)
        except SystemExit as ended:
            if ended.code:
                raise


if __name__ == "__main__":
    torch.set_num_threads(1)
    program, folder = sys.argv[1], Path(sys.argv[2])
    with process_group(CPU) as ranks:
        if program == "die":
            train_with_checkpoints(folder / "killed", deadly_step=8)
            (folder / "killed/went on").touch()
        else:
            torch.save(train_all(folder, ranks), folder / f"{ranks.rank}.pt")
    run_commands(json.loads(sys.argv[3]))
