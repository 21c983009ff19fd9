"""Attention weights, computed aside of the fused kernel."""

from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer.data.panel import Panel, in_order
from tsformer.explain.logits import batch_steps
from tsformer.model import TSTransformer
from tsformer.model.stems import PatchStem


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of a model for series; see `TSTransformerClassifier.attention`.

    Parameters
    ----------
    weights : ndarray (n, n_layers, n_heads, N, N) of float32
        How much each token (row) attends to each token (column): rows sum to 1. Zero at padding.
    times : ndarray (n, N) of float64
        Times of the tokens since the first step of their series, in steps or, if the series have
        times, in their unit (seconds between dates).
    mask : ndarray (n, N) of bool
        True for valid tokens, False at padding.
    """

    weights: npt.NDArray[np.float32]
    times: npt.NDArray[np.float64]
    mask: npt.NDArray[np.bool_]


@torch.no_grad()
def attention_weights(
    model: TSTransformer, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Return weights ``[B, n_layers, H, N, N]``, features ``[B, N, D]``, mask and token times."""
    if not len(model.blocks):
        raise ValueError("a model with n_layers=0 has no attention weights; use another method")
    weights: list[Tensor] = []

    def keep(attention: Any, arguments: tuple[Any, ...]) -> None:
        weights.append(attention.weights(*arguments))

    with ExitStack() as hooks:
        block: Any
        for block in model.blocks:
            hooks.enter_context(block.attention.register_forward_pre_hook(keep))
        tokens, mask, t = model.forward_stem(values, mask, times)
        features = model.forward_features(tokens, mask, t)
    stacked = torch.stack(weights, dim=1)
    if mask is not None:
        stacked = stacked * mask[:, None, None, :, None]
    return stacked, features, mask, t


def attention_maps(model: TSTransformer, panel: Panel, time_step: float | None) -> AttentionMaps:
    """Compute the attention weights of all series of a panel."""
    model = deepcopy(model).eval()  # another thread may be predicting
    n, L = panel.values.shape[:2]
    config, stride, N = model.config, model.stem.stride, model.stem.n_tokens(L)
    weights = np.zeros((n, config.n_layers, config.n_heads, N, N), dtype=np.float32)
    times, valid = np.zeros((n, N)), np.zeros((n, N), dtype=np.bool_)
    device = next(model.parameters()).device
    for rows in in_order(panel.lengths, batch_steps(model)):
        batch, _, mask, t = attention_weights(model, *panel.take(rows, device=device))
        n_tokens, index = batch.shape[-1], rows.numpy()
        weights[index, ..., :n_tokens, :n_tokens] = batch.float().cpu().numpy()
        times[index, :n_tokens] = t.cpu().numpy()
        valid[index, :n_tokens] = True if mask is None else mask.cpu().numpy()
    centre = (stride - 1) / 2 if isinstance(model.stem, PatchStem) else 0.0
    real = np.where(valid, times * stride + centre, 0.0) * (time_step or 1.0)
    return AttentionMaps(weights, real, valid)
