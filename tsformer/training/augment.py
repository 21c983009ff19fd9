"""Augmentation inside the training step: of the inputs, and of the losses of mixed series."""

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

    What is drawn depends on the seed and the number of the step alone: models that differ in what
    they draw themselves, such as encodings with dropout of their own, see the same series, and a
    run that is resumed goes on with the draws that it would have had. A step that is replayed from
    a CUDA graph draws from the stream of the run in place of that: other series each time, and the
    same in the same run.

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
        Whether the values are numbers of codes.
    n_flags : int, default=0
        How many of the channels, the last ones, say where values are missing in others.
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
    """Seed torch's generators for the draws of one step; `stream` tells several apart."""
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return nullcontext()  # a replay draws anew by itself, and a captured seed would stay
    return seeded(int(np.random.SeedSequence([seed, step, *stream]).generate_state(1)[0]), device)


def mixed(losses: Callable[[Tensor], Tensor], rows: Tensor, batch: Batch) -> Tensor:
    """Return the losses of a batch, each the mean of its own and its partner's, by their shares.

    Parameters
    ----------
    losses : callable
        From the indices ``[B]`` of the series whose targets and weights apply to the losses.
    rows : Tensor [B] of int64
        Indices of the series.
    batch : Batch
        The augmented batch.
    """
    own = losses(rows)
    if batch.partner is None or batch.share is None:
        return own
    return batch.share * own + (1 - batch.share) * losses(rows[batch.partner])
