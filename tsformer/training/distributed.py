"""Training in several processes with PyTorch's DistributedDataParallel."""

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tsformer.model.layers import MaskedBatchNorm
from tsformer.objectives import Pretext
from tsformer.training.plan import TrainingPlan


@dataclass(frozen=True)
class Ranks:
    """Rank of this process, and the number of processes.

    Each process takes its part of every batch. DistributedDataParallel averages the gradients, and
    batch norms sum over the processes. A step equals a step of one process, up to rounding and
    dropout.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes and reports."""
        return self.rank == 0

    @classmethod
    def current(cls) -> Self:
        """Return the ranks of the process group, or (0, 1) without a group."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(), dist.get_world_size())

    def shard(self, n: int) -> slice:
        """Return the slice of `n` series that this process predicts."""
        if n < self.size > 1:
            raise ValueError(f"{self.size} processes cannot share {n} series; start fewer")
        return slice(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def gather(self, value: Any) -> list[Any]:
        """Gather a picklable value from all processes, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    @contextmanager
    def first(self) -> Iterator[None]:
        """Run the block in the first process, then in the others."""
        if self.size > 1 and not self.leads:
            dist.barrier()
        yield
        if self.size > 1 and self.leads:
            dist.barrier()

    def part(self, batch: Tensor) -> Tensor:
        """Return this process's part of a batch."""
        return batch.tensor_split(self.size)[self.rank]

    def add_up(self, total: Tensor) -> Tensor:
        """Return the sum over the processes, in place."""
        if self.size > 1:
            dist.all_reduce(total)
        return total

    @contextmanager
    def sharing(
        self, model: nn.Module, plan: TrainingPlan, loss: object, n_series: int
    ) -> Iterator[None]:
        """Check that processes can share the run; let batch norms sum over them in the block."""
        smallest = n_series // math.ceil(n_series / plan.batch_size)  # sizes differ by at most one
        n_seeds = len(set(self.gather(plan.seed)))
        problems = {
            "have different seeds: set random_state to one int": n_seeds > 1,
            "cannot pretrain: an objective compares a whole batch": isinstance(loss, Pretext),
            "cannot train with frozen parameters: start one": plan.frozen,
            f"cannot share a batch of {smallest} series: raise batch_size": smallest < self.size,
        }
        for problem, occurs in problems.items():
            if occurs:
                raise ValueError(f"{self.size} processes {problem}")
        norms = [m for m in model.modules() if isinstance(m, MaskedBatchNorm)]
        for norm in norms:
            norm.shared = True
        try:
            yield
        finally:
            for norm in norms:
                norm.shared = False


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the process group of torchrun inside the block; a no-op without torchrun."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks.current()
    except (dist.DistBackendError, RuntimeError) as error:
        if "onnection" not in str(error) and not isinstance(error, dist.DistBackendError):
            raise
        raise RuntimeError(
            f"process {dist.get_rank()} of {dist.get_world_size()} lost another one, which ended "
            f"training ({str(error).splitlines()[0]}); see that process's error above. Start again "
            "with --resume to continue from the last checkpoint"
        ) from error
    finally:
        dist.destroy_process_group()
        if device.type != "cuda":
            # Gloo's threads abort the process if they release a tensor during Python's shutdown
            # (pytorch#190489), so they get time to finish first.
            time.sleep(0.3)
