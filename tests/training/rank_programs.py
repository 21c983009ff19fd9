"""Training in two processes that meet as torchrun's do, and in one, for comparison."""

import importlib
import json
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from listening import free_port
from small_problem import CPU, cross_entropy, fit, make_model, make_panel, make_plan, wrong_labels
from torch import Tensor

from tsformer.augmentation import resolve
from tsformer.cli import main
from tsformer.data.panel import Panel
from tsformer.training import Validation, train
from tsformer.training.distributed import Ranks, process_group


def train_in_double_precision() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return weights and history of a training run."""

    # Adam makes whole steps of gradients that are zero but for rounding, as those of the keys' bias
    # and of the table's largest distances are. In double precision they are far below its epsilon.
    def doubled(panel: Panel) -> Panel:
        return Panel(panel.values.double(), panel.lengths)

    # Nine series in batches of at most four: parts of unequal size, and of unequal length.
    panel, targets = make_panel(9, ragged=True)
    model = make_model("tape+erpe", dropout=0.0, head_norm="batch").double()
    plan = make_plan(augmentation=resolve("warp+cutmix"))
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
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(outputs, targets)

    plan = make_plan(checkpoint_dir=folder, checkpoint_minutes=0.0, resume=folder.exists())
    history = train(make_model("tape", dropout=0.0), *make_panel(), loss, plan)
    return steps, [row["loss"] for row in history]


def refusal(**plan: int) -> str:
    """Return the message of the error that a plan raises."""
    try:
        fit(make_model(), *make_panel(), make_plan(**plan))
    except ValueError as error:
        return str(error)
    return "not refused"


def die(folder: Path, ranks: Ranks) -> None:
    """Train until the second process dies; the first must not go on."""
    train_with_checkpoints(folder / "killed", deadly_step=8)
    (folder / "went on").touch()


def train_all(folder: Path, ranks: Ranks) -> None:
    """Write all that tests compare."""
    results = {
        "double": train_in_double_precision(),
        "resumed": train_with_checkpoints(folder / "killed"),
        "straight": train_with_checkpoints(folder / "straight"),
        "seeds": refusal(seed=ranks.rank),
        "batch": refusal(batch_size=1),
    }
    torch.save(results, folder / f"{ranks.rank}.pt")


def in_group(program: Callable[[Path, Ranks], None], folder: Path) -> None:
    with process_group(CPU) as ranks:
        program(folder, ranks)


def run(rank: int, port: int, program: Callable[..., None], arguments: list[Any]) -> None:
    """Run a program in the environment that torchrun gives to a process."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        program(*arguments)
    except RuntimeError:
        traceback.print_exc()
        sys.exit(1)


def in_two_processes(program: Callable[..., None], *arguments: Any) -> list[int | None]:
    """Return the exit codes of two forks, which have imported all there is."""
    fork, port = multiprocessing.get_context("fork"), free_port()
    ranks = [fork.Process(target=run, args=(rank, port, program, arguments)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return [rank.exitcode for rank in ranks]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for library in ("torch._dynamo", "sklearn.linear_model", "mlflow", "tsformer.tracking"):
        importlib.import_module(library)
    folder = Path(sys.argv[1])
    codes = [in_two_processes(in_group, program, folder) for program in (die, train_all)]
    codes += [in_two_processes(main, arguments) for arguments in json.loads(sys.argv[2])]
    (folder / "codes.json").write_text(json.dumps(codes))
