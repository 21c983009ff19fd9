"""Every encoding once more, as its paper writes it: scalars, Python loops, float64.

An encoding is stated by up to four functions, one for each place where it acts:

- ``embed(e, x, t, t_end)``: the encoded token ``[D]`` from the token `x` at time `t`;
- ``rotate(e, x, t)``: the rotated query or key ``[E]`` from `x` at time `t`;
- ``bias(e, h, t_i, t_j)``: what is added to the scaled score of head `h` (from 1);
- ``mix(e, h, i, j)``: what is added to the weight of head `h` (from 1) after the softmax.

`e` is the module, read for its learned tensors and options only. `t_end` is the series' last time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tsformer.encodings import PositionalEncoding, Sum
from tsformer.model.attention import SelfAttention


def sine_and_cosine(t: float, width: int, base: float) -> Tensor:
    code = []
    for feature in range(width):
        k = feature // 2
        angle = t * base ** (-2 * k / width)
        code.append(math.sin(angle) if feature % 2 == 0 else math.cos(angle))
    return torch.tensor(code, dtype=torch.float64)


def embed_fixed(e, x, t, t_end):
    return x + sine_and_cosine(t, len(x), e.base)


def embed_tape(e, x, t, t_end):
    return x + sine_and_cosine(t * len(x) / e.max_len, len(x), e.base)


def embed_learnable(e, x, t, t_end):
    last = len(e.table) - 1
    if t_end > last:
        t = t * last / t_end
    low = math.floor(t)
    if low == t:
        return x + e.table[low]
    return x + (low + 1 - t) * e.table[low] + (t - low) * e.table[low + 1]


def embed_lspe(e, x, t, t_end):
    first, _, _, second = e.ffn
    code = sine_and_cosine(t, len(x), e.base)
    inner = x + code if e.apply_to == "sum" else code
    hidden = 1 / (1 + torch.exp(-(first.weight @ inner + first.bias)))
    out = second.weight @ hidden + second.bias
    return out if e.apply_to == "sum" else x + out


def rotate_rope(e, x, t):
    turned = list(x)
    for k in range(e.rotated // 2):
        angle = t * e.base ** (-2 * k / e.rotated)
        turned[2 * k] = math.cos(angle) * x[2 * k] - math.sin(angle) * x[2 * k + 1]
        turned[2 * k + 1] = math.sin(angle) * x[2 * k] + math.cos(angle) * x[2 * k + 1]
    return torch.stack(turned)


def bias_alibi(e, h, t_i, t_j):
    slope = 2 ** (-8 * h / e.n_heads)
    if e.signed and t_j > t_i:
        slope = slope / 2
    return -slope * abs(t_j - t_i)


def mix_erpe(e, h, i, j):
    furthest = (e.table.shape[1] - 1) // 2
    distance = max(-furthest, min(furthest, i - j))
    return e.table[h - 1, distance + furthest]


FORMULAS = {
    "none": {},
    "fixed": {"embed": embed_fixed},
    "learnable": {"embed": embed_learnable},
    "lspe": {"embed": embed_lspe},
    "tape": {"embed": embed_tape},
    "rope": {"rotate": rotate_rope},
    "alibi": {"bias": bias_alibi},
    "erpe": {"mix": mix_erpe},
}


def encode_and_attend(
    encoding: PositionalEncoding, attention: SelfAttention, x: Tensor, t: Tensor
) -> Tensor:
    """The tokens `x` ``[B, N, D]`` at times `t` ``[B, N]``, encoded and through one attention."""
    parts = list(encoding.parts) if isinstance(encoding, Sum) else [encoding]
    return torch.stack(
        [_one_series(parts, attention, *each) for each in zip(x, t.tolist(), strict=True)]
    )


def _one_series(
    parts: list[PositionalEncoding], attention: nn.Module, x: Tensor, t: list[float]
) -> Tensor:
    N, D = x.shape
    H = attention.n_heads
    E = D // H
    acting = [(part, FORMULAS[part.name]) for part in parts]

    tokens = []
    for i in range(N):
        token = x[i]
        for part, formula in acting:
            if "embed" in formula:
                token = formula["embed"](part, token, t[i], t[-1])
        tokens.append(token)

    rows = [[] for _ in range(N)]
    for h in range(H):
        q, k, v = [], [], []
        for i in range(N):
            qkv = attention.qkv.weight @ tokens[i] + attention.qkv.bias
            q.append(qkv[h * E : (h + 1) * E])
            k.append(qkv[D + h * E : D + (h + 1) * E])
            v.append(qkv[2 * D + h * E : 2 * D + (h + 1) * E])
            for part, formula in acting:
                if "rotate" in formula:
                    q[i] = formula["rotate"](part, q[i], t[i])
                    k[i] = formula["rotate"](part, k[i], t[i])
        for i in range(N):
            powers = []
            for j in range(N):
                score = (q[i] @ k[j]) / math.sqrt(E)
                for part, formula in acting:
                    if "bias" in formula:
                        score = score + formula["bias"](part, h + 1, t[i], t[j])
                powers.append(torch.exp(score))
            out = 0
            for j in range(N):
                weight = powers[j] / sum(powers)
                for part, formula in acting:
                    if "mix" in formula:
                        weight = weight + formula["mix"](part, h + 1, i, j)
                out = out + weight * v[j]
            rows[i].append(out)
    return torch.stack([attention.out.weight @ torch.cat(row) + attention.out.bias for row in rows])
