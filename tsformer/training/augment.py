"""Augmentation inside the training step: of the inputs, and of the losses of mixed series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tsformer.augmentation import Augmentation, Batch

__all__ = ["augmented", "mixed"]


def augmented(
    inputs: tuple[Tensor, Tensor | None, Tensor | None],
    augmentation: Augmentation | None,
    *,
    symbolic: bool = False,
    members: int = 1,
) -> Batch:
    """Augment a batch of series.

    Parameters
    ----------
    inputs : tuple of Tensor or None
        Values ``[B, L, C]``, mask and times, as a model is called with.
    augmentation : Augmentation or None
        None changes nothing.
    symbolic : bool, default=False
        Whether the values are numbers of codes.
    members : int, default=1
        Models whose batches, of equal size, follow one another in `inputs`: series are mixed with
        others of their own model only.

    Returns
    -------
    Batch
    """
    batch = Batch(*inputs, symbolic=symbolic)
    if augmentation is None:
        return batch
    if members == 1:
        return augmentation(batch)
    size = len(batch.values) // members
    parts = []
    for start in range(0, len(batch.values), size):
        own = [None if x is None else x[start : start + size] for x in inputs]
        part = augmentation(Batch(own[0], own[1], own[2], symbolic))  # type: ignore[arg-type]
        if part.partner is not None:
            part = replace(part, partner=part.partner + start)
        parts.append(part)
    partners = [part.partner for part in parts if part.partner is not None]
    shares = [part.share for part in parts if part.share is not None]
    return replace(
        batch,
        values=torch.cat([part.values for part in parts]),
        partner=torch.cat(partners) if partners else None,
        share=torch.cat(shares) if shares else None,
    )


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
