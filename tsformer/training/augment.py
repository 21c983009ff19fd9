"""Augmentation in the training step: inputs, and losses of mixed series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from tsformer.augmentation import Augmentation, Batch
from tsformer.training.seeds import seeded

__all__ = ["augmented", "drawing", "mixed"]


def augmented(
    inputs: tuple[Tensor, Tensor | None, Tensor | None],
    augmentation: Augmentation | None,
    *,
    step: int,
    seed: int,
    symbolic: bool = False,
    n_flags: int = 0,
) -> Batch:
    """Augment the batch of a step.

    The draws depend only on the seed and the number of the step. So different models see the same
    series, and a resumed run continues with the same draws. A step that is replayed from a CUDA
    graph draws from the random stream of the run instead.

    Parameters
    ----------
    inputs : tuple of Tensor or None
        Values ``[B, L, C]``, mask and times, as a model is called with.
    augmentation : Augmentation or None
        None changes nothing.
    step : int
        Number of the step in the training run.
    seed : int
        Seed of the training run.
    symbolic : bool, default=False
        Whether the values are codes.
    n_flags : int, default=0
        Number of channels, at the end, that flag missing values.
    """
    values, mask, times = inputs
    batch = Batch(values, mask, times, symbolic, n_flags)
    if augmentation is None:
        return batch
    with drawing(seed, step, values.device):
        return augmentation(batch)


def drawing(
    seed: int, step: int, device: torch.device, *, stream: Sequence[int] = ()
) -> AbstractContextManager[None]:
    """Seed torch's generators for one step and one `stream` of draws."""
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return nullcontext()  # a captured seed would repeat in every replay
    return seeded(int(np.random.SeedSequence([seed, step, *stream]).generate_state(1)[0]), device)


def mixed(losses: Callable[[Tensor], Tensor], rows: Tensor, batch: Batch) -> Tensor:
    """Average the losses for the targets of a series and its partner, by their shares.

    Parameters
    ----------
    losses : callable
        From indices ``[B]`` of series to the losses with the targets and weights of these series.
    rows : Tensor [B] of int64
        Indices of the series.
    batch : Batch
        The augmented batch.
    """
    own = losses(rows)
    if batch.partner is None or batch.share is None:
        return own
    return batch.share * own + (1 - batch.share) * losses(rows[batch.partner])
