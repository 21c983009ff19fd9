"""`masked`: reconstruct hidden values."""

from dataclasses import replace
from math import ceil, inf, log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer.augmentation import Batch
from tsformer.objectives.base import InputLayout, Objective, Posed, PretrainingTransformer


class Masked(Objective, name="masked"):
    """Hide spans of each channel, and reconstruct the hidden values.

    The loss is the mean of ``(prediction - x)^2`` over the hidden values of a batch. In each
    channel, hidden spans of random length alternate with visible spans; both lengths are geometric,
    with means `span` and ``span (1 - ratio) / ratio``, so that a share `ratio` is hidden. Hidden
    inputs become 0, which after scaling is the mean of the channel. Lengths count tokens: behind a
    stem with a stride all steps of a token are hidden together, and a linear decoder maps each
    token back to its steps.

    Differences to neighbours and interpolated values beside a hidden value are hidden too. Only
    observed values count in the loss.

    Parameters
    ----------
    ratio : float in (0, 1), default=0.15
        Expected share of hidden values.
    span : float >= 1, default=3.0
        Mean number of tokens in a hidden span.

    Raises
    ------
    ValueError
        If visible spans would have a mean below 1, or on series of codes.

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

    def __init__(self, *, ratio: float = 0.15, span: float = 3.0):
        self.ratio = ratio
        self.span = span
        self._check_option("ratio", 0, 1, excluded=True)
        self._check_option("span", 0, excluded=True)
        if span < 1 or span * (1 - ratio) < ratio:
            raise ValueError(
                "span of masked must be at least 1 and ratio / (1 - ratio), the least for visible "
                f"spans of a token; got span={span!r}, ratio={ratio!r}"
            )

    def n_outputs(self, n_channels: int) -> int:
        return n_channels

    def make_head(self, d_model: int, n_outputs: int, stride: int) -> nn.Module:
        return nn.Linear(d_model, stride * n_outputs)

    def check(self, *, symbolic: bool) -> None:
        if symbolic:
            raise ValueError(
                "objective 'masked' needs measurements; for codes use objective='contrastive' with "
                "objective_params={'sigma': 0}"
            )

    def pose(self, batch: Batch, layout: InputLayout) -> Posed:
        x = batch.values
        B, L, _ = x.shape
        C = layout.n_channels
        n_tokens = ceil(L / layout.stride)
        hidden = spans(B, n_tokens, C, ratio=self.ratio, span=self.span, device=x.device)
        hidden = hidden.repeat_interleave(layout.stride, dim=1)[:, :L]
        counted = hidden
        if layout.flagged:
            observed = torch.ones_like(hidden)
            observed[..., list(layout.flagged)] = x[..., -len(layout.flagged) :] == 0
            hidden = _over_gaps(hidden, observed)
            counted = hidden & observed
        if batch.mask is not None:
            counted = counted & batch.mask[..., None]
        parts = [x[..., :C].masked_fill(hidden, 0.0)]
        if layout.differenced:
            near = F.pad(hidden, (0, 0, 1, 1))
            beside = near[:, :-2] | near[:, 1:-1] | near[:, 2:]
            parts.append(x[..., C : 2 * C].masked_fill(beside, 0.0))
        rest = x[..., sum(part.shape[-1] for part in parts) :]
        posed = replace(batch, values=torch.cat([*parts, rest], dim=-1), partner=None, share=None)
        return Posed(posed, x[..., :C], counted)

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
        # Weighted by the number of hidden values, so that the mean is over all hidden values.
        mean_count = posed.counted.sum() / len(outputs)
        return errors / mean_count.clamp(min=1 / len(outputs))


def spans(
    n_series: int,
    n_tokens: int,
    n_channels: int,
    *,
    ratio: float,
    span: float,
    device: torch.device | None = None,
) -> Tensor:
    """Sample the hidden tokens of each channel as alternating geometric spans."""
    starts_hidden = torch.rand(n_series, n_channels, 1, device=device) < ratio
    drawn = torch.rand(n_series, n_channels, n_tokens, device=device)
    odd = torch.arange(n_tokens, device=device) % 2 == 1
    means = span, span * (1 - ratio) / ratio  # a span goes on with probability 1 - 1 / mean
    log_hidden, log_visible = (log(1 - 1 / m) if m > 1 else -inf for m in means)
    logs = torch.where(starts_hidden ^ odd, log_hidden, log_visible)
    lengths = 1 + torch.log1p(-drawn).div(logs).floor()
    # Each span has at least one token, so that there are at most as many spans as tokens.
    ends = lengths.clamp(max=n_tokens).cumsum(dim=-1).contiguous()
    token = torch.arange(n_tokens, device=device, dtype=ends.dtype).expand_as(ends).contiguous()
    n_before = torch.searchsorted(ends, token, right=True)
    return (starts_hidden ^ (n_before % 2 == 1)).transpose(1, 2)


def _over_gaps(hidden: Tensor, observed: Tensor) -> Tensor:
    """Hide interpolated values beside hidden values; return ``[B, L, C]``."""
    L = hidden.shape[1]
    step = torch.arange(L, device=hidden.device)[None, :, None].expand(hidden.shape)
    before = step.where(observed, -1).cummax(dim=1).values
    after = step.where(observed, L).flip(1).cummin(dim=1).values.flip(1)
    known = F.pad(hidden & observed, (0, 0, 1, 1))
    return known.gather(1, before + 1) | known.gather(1, after + 1)
