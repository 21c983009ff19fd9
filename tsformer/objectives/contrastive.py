"""`contrastive`: recognise a series in another view of it."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import Positive, check_number, real, whole
from tsformer.augmentation import Batch, Jitter, Slice
from tsformer.objectives.base import InputLayout, Objective, Posed, PretrainingTransformer


@dataclass(eq=False, repr=False, kw_only=True)
class Contrastive(Objective, name="contrastive"):
    """Attract embeddings of two views of a series; repel other series.

    ``loss_ij = -log(exp(z_i z_j / T) / sum_k exp(z_i z_k / T))`` for the two views `i`, `j` of a
    series, in both orders, with `k` all views in the batch except `i` and the `temperature` `T`:
    NT-Xent. `z` are embeddings of series after a head of two layers, scaled to length 1. A view is
    a random part of the series, stretched by `tsformer.augmentation.Slice`, with Gaussian noise.

    Parameters
    ----------
    temperature : float > 0, default=0.2
        Divisor of the similarities.
    min_share : float in (0, 1), default=0.5
        Smallest share of a series in a view.
    sigma : float >= 0, default=0.1
        Standard deviation of the noise; it must be 0 for series of codes.
    width : int >= 1, default=32
        Width of the compared embeddings.

    References
    ----------
    Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020.

    Examples
    --------
    >>> x = torch.randn(4, 20, 3)
    >>> Contrastive().pose(Batch(x), InputLayout(3)).batch.values.shape
    torch.Size([8, 20, 3])
    """

    reference = "Chen et al. 2020"

    temperature: Positive = 0.2
    min_share: Annotated[float, real(0, 1)] = 0.5
    sigma: Annotated[float, partial(check_number, low=0)] = 0.1
    width: Annotated[int, whole(1)] = 32

    def n_outputs(self, n_channels: int) -> int:
        return self.width

    def make_head(self, d_model: int, n_outputs: int, stride: int) -> nn.Module:
        return nn.Sequential(nn.Linear(d_model, d_model), nn.GELU(), nn.Linear(d_model, n_outputs))

    def check(self, *, symbolic: bool) -> None:
        if symbolic and self.sigma:
            raise ValueError("'contrastive' adds noise, which codes cannot take; set sigma to 0")

    def pose(self, batch: Batch, layout: InputLayout) -> Posed:
        views = [Slice(p=1.0, min_share=self.min_share)(batch) for _ in range(2)]
        if self.sigma:
            views = [Jitter(p=1.0, sigma=self.sigma)(view) for view in views]
        mask, times = batch.mask, batch.times
        mask = None if mask is None else torch.cat([mask, mask])
        times = times if times is None or len(times) == 1 else torch.cat([times, times])
        values = torch.cat([view.values for view in views])
        return Posed(
            replace(batch, values=values, mask=mask, times=times, partner=None, share=None)
        )

    def outputs(
        self, model: PretrainingTransformer, x: Tensor, mask: Tensor | None, times: Tensor | None
    ) -> Tensor:
        """Return projections ``[2 B, width]``: first views, then second views."""
        return model.forward_head(model.embed(x, mask, times))

    def losses(self, outputs: Tensor, posed: Posed) -> Tensor:
        B, z = len(outputs) // 2, F.normalize(outputs, dim=1)
        itself = torch.eye(2 * B, dtype=torch.bool, device=z.device)
        scores = (z @ z.T / self.temperature).masked_fill(itself, float("-inf"))
        second_view = torch.arange(2 * B, device=z.device).roll(B)
        losses = F.cross_entropy(scores, second_view, reduction="none")
        return losses.unflatten(0, (2, B)).mean(dim=0)
