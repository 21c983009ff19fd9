"""One training run shared by several processes, on PyTorch's DistributedDataParallel."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tsformer.model.norms import MaskedBatchNorm

__all__ = ["Ranks", "process_group"]


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is.

    Each takes its part of every batch. DistributedDataParallel averages their gradients, and batch
    norms add up their sums, so that a step is that of one process on the whole batch, except for
    rounding and dropout.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """Return those of the process group, or (0, 1) if there is none."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes and reports."""
        return self.rank == 0

    def part(self, batch: Tensor) -> Tensor:
        """Return this process's part of a batch."""
        return batch.tensor_split(self.size)[self.rank]

    def shard(self, n: int) -> slice:
        """Return which of `n` series, in order, are this process's to predict.

        Examples
        --------
        >>> [Ranks(rank, 3).shard(10) for rank in range(3)]
        [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
        """
        if n < self.size > 1:
            raise ValueError(
                f"{self.size} processes cannot share {n} series: each needs at least one; start "
                "fewer processes"
            )
        return slice(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def gather(self, value: Any) -> list[Any]:
        """Return what all processes pass, in the order of their ranks; it must be picklable."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def check(self, smallest_batch: int) -> None:
        """Raise ValueError if some process would get no series of a batch."""
        if smallest_batch < self.size:
            raise ValueError(
                f"{self.size} processes cannot share a batch of {smallest_batch} series: each "
                "needs at least one; raise batch_size, or start fewer processes"
            )

    def check_same(self, seed: int, device: torch.device) -> None:
        """Raise ValueError if the processes would draw different batches."""
        if self.size == 1:
            return
        seeds = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(self.size)]
        dist.all_gather(seeds, torch.tensor([seed], device=device))
        if len({int(each) for each in seeds}) > 1:
            raise ValueError(
                f"the {self.size} processes of this training run have different seeds, so they "
                "would not share batches; set random_state to the same int in all of them"
            )

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Return the model wrapped for training by all processes; for one process, unchanged."""
        if self.size == 1:
            return model
        devices = [torch.cuda.current_device()] if device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def add_up(self, total: Tensor) -> Tensor:
        """Return the sum over the processes."""
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether the flag is set in any process."""
        return bool(self.add_up(torch.tensor(float(flag), device=device)).item())

    @contextmanager
    def first(self) -> Iterator[None]:
        """Let the leading process run the block before all others."""
        if self.size > 1 and not self.leads:
            dist.barrier()
        yield
        if self.size > 1 and self.leads:
            dist.barrier()

    @contextmanager
    def shared_norms(self, model: nn.Module) -> Iterator[None]:
        """Let the batch norms of the model sum over all processes, inside the block only."""
        norms = [m for m in model.modules() if isinstance(m, MaskedBatchNorm)]
        for norm in norms:
            norm.shared = self.size > 1
        try:
            yield
        finally:
            for norm in norms:
                norm.shared = False


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the processes that torchrun started, inside the block; alone, do nothing."""
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
            # Gloo's threads outlive this where a model was wrapped, and abort the process if one of
            # them lets go of a tensor while Python ends (pytorch#190489): let them do so before.
            time.sleep(0.3)
