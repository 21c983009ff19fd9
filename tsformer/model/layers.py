"""Attention on torch's fused kernel, and norms that leave out padding."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

#: Scores per chunk of a bias's gradient: 4 MiB of float32, about the cache of one core.
SCORES_PER_CHUNK = 2**20


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    scale: float,
    *,
    causal: bool = False,
) -> Tensor:
    """Compute ``softmax(q k^T scale + bias) v`` on the fused kernel.

    For a bias that requires a gradient, torch falls back to plain arithmetic on the CPU, several
    times slower. Here the kernel computes the output and the gradients of `q`, `k`, `v` as if the
    bias were constant, and the gradient of the bias follows in cache-sized chunks.

    Queries and keys are ``[B, H, N, E']``, values and the result ``[B, H, N, E]``, the bias
    ``[1 | B, 1 | H, N, N]``; `mask` ``[B, N]`` is False for keys at padding. If `causal`, a query
    sees only its own and earlier keys, and padding must come last.
    """
    E = v.shape[-1]
    width = max(q.shape[-1], E)  # the kernel needs all three equally wide; zeros change nothing
    q, k, v = [x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1])) for x in (q, k, v)]
    if bias is None and mask is None:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        return out[..., :E]
    visible = visible_keys(mask, q.shape[-2], q.device, causal=causal)
    trained = bias is not None and bias.requires_grad and torch.is_grad_enabled()
    plain = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    # A compiler fuses plain arithmetic itself.
    if trained and plain and not torch.compiler.is_compiling():
        function: Any = _TrainedBias  # torch leaves `apply` without types
        out = function.apply(q, k, v, bias, visible, scale)
    else:
        attn_mask = visible if bias is None else _masked(bias, visible)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask, scale=scale)
    return out[..., :E]


def visible_keys(
    mask: Tensor | None, n_tokens: int, device: torch.device, *, causal: bool
) -> Tensor | None:
    """Return the mask of visible keys ``[1 | B, 1, 1 | N, N]``; None if all are visible."""
    visible = None if mask is None else mask[:, None, None, :]
    if causal:
        earlier = torch.ones(n_tokens, n_tokens, dtype=torch.bool, device=device).tril()[None, None]
        visible = earlier if visible is None else visible & earlier
    return visible


def _masked(bias: Tensor, visible: Tensor | None) -> Tensor:
    return bias if visible is None else bias.masked_fill(~visible, float("-inf"))


class _TrainedBias(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor,
        visible: Tensor | None,
        scale: float,
    ) -> Tensor:
        attn_mask = _masked(bias.detach(), visible)
        with torch.enable_grad():
            inputs = q, k, v = tuple(x.detach().requires_grad_() for x in (q, k, v))
            out = F.scaled_dot_product_attention(q, k, v, attn_mask, scale=scale)
        ctx.save_for_backward(q, k, v, bias, visible)
        ctx.inner, ctx.scale = (inputs, out), scale
        return out.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, visible = ctx.saved_tensors
        inputs, out = ctx.inner
        grads = torch.autograd.grad(out, inputs, grad, retain_graph=True)
        B, H, N, _ = q.shape
        q, k_t, v_t = (q * ctx.scale), k.mT.contiguous(), v.mT.contiguous()
        grad = grad.contiguous()
        # d score = weight * (d weight - sum of weight * d weight), and that sum is out . d out.
        total = (grad * out.detach()).sum(-1, keepdim=True)
        bias_grad = torch.zeros_like(bias)
        series = max(SCORES_PER_CHUNK // (H * N * N), 1)
        rows = max(SCORES_PER_CHUNK // (H * N), 1)
        for b in range(0, B, series):
            these = slice(b, b + series)
            shared = these if len(bias) > 1 else slice(None)
            for i in range(0, N, rows):
                span = slice(i, i + rows)
                scores = (q[these, :, span] @ k_t[these]).add_(bias[shared, :, span])
                if visible is not None:
                    attn_mask = visible[these] if len(visible) > 1 else visible
                    attn_mask = attn_mask[:, :, span] if attn_mask.shape[2] > 1 else attn_mask
                    scores.masked_fill_(~attn_mask, float("-inf"))
                weights = scores.softmax(-1)
                d_scores = grad[these, :, span] @ v_t[these]
                d_scores.sub_(total[these, :, span]).mul_(weights)
                block = bias_grad[shared, :, span]
                block += d_scores.sum_to_size(block.shape)
        return *grads, bias_grad, None, None


#: Smallest effective size of a weighted batch that is normalised by its own statistics.
FEWEST = 1.5
#: Prevents division by zero if all weights are zero.
_TINY = 1e-30


class MaskedBatchNorm(nn.BatchNorm1d):
    """Normalise each feature by its mean and variance over the valid steps.

    Training uses the statistics of the batch, prediction their running averages, so that series do
    not affect each other. A layer norm would remove the amplitude of a step. Parameters are as in
    `torch.nn.BatchNorm1d`.
    """

    shared = False
    momentum: float
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, D, N]`` or ``[B, D, 1, N]`` to the same shape; `mask` ``[B, N]``."""
        # The fused norm takes no mask, and rejects a single value.
        alone = mask is None and not self.shared and x.shape[0] * x.shape[-1] > 1
        if self.training:
            self.num_batches_tracked.add_(1)
        if not self.training or alone:
            averages = self.running_mean, self.running_var, self.weight, self.bias
            return F.batch_norm(x, *averages, self.training, self.momentum, self.eps)
        x = x.to(torch.promote_types(x.dtype, torch.float32))  # bfloat16 counts only to 256
        weight = torch.ones_like(x[:, :1]) if mask is None else _beside(mask, x).to(x.dtype)
        count = self._over_all(weight.sum())
        mean, centred, var = self._moments(x, weight, count)
        self._track(mean, var * count / (count - 1).clamp(min=1), self.momentum)
        return self._scaled(centred, var)

    def _moments(self, x: Tensor, weight: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weighted mean ``[D]``, the centred `x` and the variance ``[D]``."""
        dims = [d for d in range(x.dim()) if d != 1]
        mean = self._over_all((x * weight).sum(dims)) / total
        centred = x - _beside(mean, x)
        return mean, centred, self._over_all((centred.square() * weight).sum(dims)) / total

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, momentum: float | Tensor) -> None:
        """Update the running averages."""
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(var.to(self.running_var.dtype), momentum)

    def _scaled(self, centred: Tensor, var: Tensor) -> Tensor:
        """Divide by the standard deviation, then apply weight and bias."""
        scale = self.weight * torch.rsqrt(var + self.eps)
        return centred * _beside(scale, centred) + _beside(self.bias, centred)

    def _over_all(self, total: Tensor) -> Tensor:
        function: Any = _SumOverProcesses  # torch leaves `apply` without types
        return function.apply(total) if self.shared else total


class PooledBatchNorm(MaskedBatchNorm):
    """Normalise each feature of pooled series, ``[B, D]``, over the weighted series of a batch.

    A single or dominant series would be normalised to zero, so such a batch uses the running
    averages and leaves them unchanged.
    """

    def forward(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Map ``[B, D]`` to the same shape, in training by `weights` ``[B]`` of mean 1."""
        if self.training and weights is not None:
            return self._weighted(x, weights)
        if self.training and len(x) == 1 and not self.shared:
            mean, var = self.running_mean, self.running_var
            return F.batch_norm(x, mean, var, self.weight, self.bias, eps=self.eps)
        return super().forward(x[..., None])[..., 0]

    def _weighted(self, x: Tensor, weights: Tensor) -> Tensor:
        x = x.to(torch.promote_types(x.dtype, torch.float32))[..., None]
        weight = weights.to(x.dtype)[:, None, None]
        total = self._over_all(weight.sum())
        mean, _, var = self._moments(x, weight, total.clamp(min=_TINY))
        size = effective_size(total, self._over_all(weight.square().sum()))
        enough = size >= FEWEST
        mean = mean.where(enough, self.running_mean.to(mean.dtype))
        var = var.where(enough, self.running_var.to(var.dtype))
        self.num_batches_tracked.add_(1)
        # The momentum of a batch is proportional to the weight of its series.
        share = total / self._over_all(torch.ones_like(weight).sum())
        momentum = (self.momentum * share).clamp(max=1).to(self.running_mean.dtype)
        self._track(mean, var * (size / (size - 1)).where(enough, 1.0), momentum)
        return self._scaled(x - mean[:, None], var)[..., 0]


def effective_size(total: Tensor, squares: Tensor) -> Tensor:
    """Return Kish's effective sample size from sums of weights and squared weights."""
    return total.square() / squares.clamp(min=_TINY)


class _SumOverProcesses(torch.autograd.Function):
    """Sum over all processes, in the backward pass too."""

    @staticmethod
    def forward(ctx: Any, total: Tensor) -> Tensor:
        total = total.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone()
        torch.distributed.all_reduce(grad)
        return grad


def _beside(values: Tensor, x: Tensor) -> Tensor:
    """Insert one or two dimensions after the first, of ``[B, N]`` or ``[D]``."""
    return values[:, None] if x.dim() == 3 else values[:, None, None]


HEAD_NORMS: dict[str, type[nn.Module]] = {"batch": PooledBatchNorm, "layer": nn.LayerNorm}
