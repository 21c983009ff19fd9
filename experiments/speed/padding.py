"""How much of a batch is padding where series differ in length: ours versus plain shuffling."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from tsformer import load_dataset
from tsformer.data.batching import shuffled

#: The problems of the UCR archive whose lengths differ most.
PROBLEMS = ("PLAID", "GestureMidAirD1")
BATCH = 16
EPOCHS = 10


def share(lengths: Tensor, batches: Iterable[Tensor]) -> float:
    """Return the share of all steps in these batches that is padding."""
    total = valid = 0
    for index in batches:
        total += len(index) * int(lengths[index].max())
        valid += int(lengths[index].sum())
    return 1 - valid / total


def padding_rows(problems: Iterable[str] = PROBLEMS) -> Iterator[dict[str, Any]]:
    """Yield the share of padding over ten epochs of each train split, if there is an archive."""
    for problem in problems:
        if "TSFORMER_DATA" not in os.environ:
            yield {"method": problem, "what": "skipped", "note": "TSFORMER_DATA is not set"}
            continue
        X, _ = load_dataset(problem, split="train")
        lengths = torch.tensor([series.shape[-1] for series in X])
        generator = torch.Generator().manual_seed(0)
        ours = (b for _ in range(EPOCHS) for b in shuffled(lengths, BATCH, generator))
        yield {"method": problem, "what": "padding", "value": share(lengths, ours)}
        plain = (
            b
            for _ in range(EPOCHS)
            for b in torch.randperm(len(lengths), generator=generator).split(BATCH)
        )
        yield {
            "method": problem,
            "what": "padding of plain shuffling",
            "value": share(lengths, plain),
        }
