"""`masked`: reconstruct hidden values."""

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, log
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import check_number, real
from tsformer.augmentation import Batch
from tsformer.objectives.base import InputLayout, Objective, Posed, PretrainingTransformer


@dataclass(eq=False, repr=False, kw_only=True)
class Masked(Objective, name="masked"):
    """Hide spans of each channel, and reconstruct the hidden values.

    The loss is the mean of ``(prediction - x)^2`` over the hidden, observed values of a batch. In
    each channel, hidden spans alternate with visible spans; both lengths, in tokens, are geometric,
    with means `span` and ``span (1 - ratio) / ratio``, at least 1, so that a share `ratio` is
    hidden. Hidden inputs, and the differences and interpolated values beside them, become 0, after
    scaling the mean of the channel. A linear decoder maps each token back to its steps. Codes are
    refused.

    Parameters
    ----------
    ratio : float in (0, 1), default=0.15
        Expected share of hidden values.
    span : float >= 1, default=3.0
        Mean number of tokens in a hidden span.

    References
    ----------
    Zerveas et al., "A Transformer-based Framework for Multivariate Time Series Representation
    Learning", KDD 2021. https://arxiv.org/abs/2010.02803

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> posed = Masked(ratio=0.4).pose(Batch(torch.ones(1, 10, 1)), InputLayout(1))
    >>> bool((posed.batch.values == 0).any()), bool((posed.batch.values == ~posed.counted).all())
    (True, True)
    """

    reference = "Zerveas et al. 2021"

    ratio: Annotated[float, real(0, 1)] = 0.15
    span: Annotated[float, partial(check_number, low=1)] = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span * (1 - self.ratio) < self.ratio:
            raise ValueError(f"visible spans of {self!r} must have a mean of at least 1 token")

    def n_outputs(self, n_channels: int) -> int:
        return n_channels

    def make_head(self, d_model: int, n_outputs: int, stride: int) -> nn.Module:
        return nn.Linear(d_model, stride * n_outputs)

    def check(self, *, symbolic: bool) -> None:
        if symbolic:
            raise ValueError("codes cannot be masked; pass objective='contrastive' with sigma=0")

    def pose(self, batch: Batch, layout: InputLayout) -> Posed:
        x, C = batch.values, layout.n_channels
        B, L, _ = x.shape
        N = ceil(L / layout.stride)
        hidden = spans(B, N, C, ratio=self.ratio, span=self.span, device=x.device)
        hidden = hidden.repeat_interleave(layout.stride, dim=1)[:, :L]
        counted = hidden
        if layout.flagged:
            observed = torch.ones_like(hidden)
            observed[..., list(layout.flagged)] = x[..., -len(layout.flagged) :] == 0
            counted = hidden & observed
            # Interpolated values beside a hidden value are hidden too.
            step = torch.arange(L, device=x.device)[None, :, None].expand(hidden.shape)
            before = step.where(observed, -1).cummax(dim=1).values
            after = step.where(observed, L).flip(1).cummin(dim=1).values.flip(1)
            known = F.pad(counted, (0, 0, 1, 1))
            hidden = known.gather(1, before + 1) | known.gather(1, after + 1)
        if batch.mask is not None:
            counted = counted & batch.mask[..., None]
        parts = [x[..., :C].masked_fill(hidden, 0.0)]
        if layout.differenced:
            near = F.pad(hidden, (0, 0, 1, 1))
            beside = near[:, :-2] | near[:, 1:-1] | near[:, 2:]
            parts.append(x[..., C : 2 * C].masked_fill(beside, 0.0))
        rest = x[..., sum(columns.shape[-1] for columns in parts) :]
        values = torch.cat([*parts, rest], dim=-1)
        return Posed(replace(batch, values=values, partner=None, share=None), x[..., :C], counted)

    def outputs(
        self, model: PretrainingTransformer, x: Tensor, mask: Tensor | None, times: Tensor | None
    ) -> Tensor:
        """Return the reconstructed values ``[B, L, C]``."""
        steps: Tensor = model.head(model.encode(x, mask, times))
        return steps.unflatten(-1, (model.stem.stride, -1)).flatten(1, 2)[:, : x.shape[1]]

    def losses(self, outputs: Tensor, posed: Posed) -> Tensor:
        assert posed.target is not None  # for mypy: `pose` sets both
        assert posed.counted is not None
        errors = (outputs - posed.target).square().where(posed.counted, 0.0).sum(dim=(1, 2))
        mean_count = posed.counted.sum() / len(outputs)  # the mean is over all hidden values
        return errors / mean_count.clamp(min=1 / len(outputs))


def spans(
    B: int, N: int, C: int, *, ratio: float, span: float, device: torch.device | None = None
) -> Tensor:
    """Sample the hidden tokens ``[B, N, C]``: alternating geometric spans of each channel."""
    starts_hidden = torch.rand(B, C, 1, device=device) < ratio
    drawn = torch.rand(B, C, N, device=device)
    odd = torch.arange(N, device=device) % 2 == 1
    means = span, span * (1 - ratio) / ratio  # a span continues with probability 1 - 1 / mean
    log_hidden, log_visible = (log(1 - 1 / m) if m > 1 else -inf for m in means)
    logs = torch.where(starts_hidden ^ odd, log_hidden, log_visible)
    lengths = 1 + torch.log1p(-drawn).div(logs).floor()
    # Each span has at least one token, so that there are at most as many spans as tokens.
    ends = lengths.clamp(max=N).cumsum(dim=-1).contiguous()
    token = torch.arange(N, device=device, dtype=ends.dtype).expand_as(ends).contiguous()
    n_before = torch.searchsorted(ends, token, right=True)
    return (starts_hidden ^ (n_before % 2 == 1)).transpose(1, 2)
