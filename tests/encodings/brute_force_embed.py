"""Reference implementations of the `embed` hooks, in the notation of `brute_force`."""

import math

import torch
from torch import Tensor, nn


def sine_and_cosine(t: float, width: int, base: float) -> Tensor:
    code = []
    for feature in range(width):
        k = feature // 2
        angle = t * base ** (-2 * k / width)
        code.append(math.sin(angle) if feature % 2 == 0 else math.cos(angle))
    return torch.tensor(code, dtype=torch.float64)


def table_row(table: Tensor, t: float, t_end: float) -> Tensor:
    last = len(table) - 1
    if t_end > last:
        t = t * last / t_end
    low = math.floor(t)
    if low == t:
        return table[low]
    return (low + 1 - t) * table[low] + (t - low) * table[low + 1]


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def softplus(x: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(x))


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def embed_fixed(e, x, i, t):
    return x[i] + sine_and_cosine(t[i], len(x[i]), e.base)


def embed_tape(e, x, i, t):
    width = len(x[i])
    return x[i] + sine_and_cosine(t[i] * width / e.max_len, width, e.base)


def embed_learnable(e, x, i, t):
    return x[i] + table_row(e.table, t[i], t[-1])


def embed_lspe(e, x, i, t):
    first, _, _, second = e.ffn
    code = sine_and_cosine(t[i], len(x[i]), e.base)
    inner = x[i] + code if e.apply_to == "sum" else code
    hidden = 1 / (1 + torch.exp(-linear(first, inner)))
    out = linear(second, hidden)
    return out if e.apply_to == "sum" else x[i] + out


def embed_fourier(e, x, i, t):
    first, _, second = e.mlp
    features = [torch.cos(w * t[i]) for w in e.frequencies]
    features += [torch.sin(w * t[i]) for w in e.frequencies]
    features = torch.stack(features) / math.sqrt(len(e.frequencies))
    return x[i] + linear(second, gelu(linear(first, features)))


def embed_time2vec(e, x, i, t):
    code = []
    for k in range(len(x[i])):
        line = e.weight[k] * t[i] / e.max_len + e.phase[k]
        code.append(line if k == 0 else torch.sin(line))
    return x[i] + torch.stack(code)


def embed_conv(e, x, i, t):
    out = []
    for d in range(len(x[i])):
        total = x[i][d] + e.conv.bias[d]
        kernel = e.conv.weight[d, 0]
        for p in range(len(kernel)):
            neighbour = i + p - (len(kernel) - 1 if e.causal else len(kernel) // 2)
            if 0 <= neighbour < len(x):
                total = total + kernel[p] * x[neighbour][d]
        out.append(total)
    return torch.stack(out)


def smoothed(signal: list[Tensor], filter_: Tensor, n_levels: int) -> list[Tensor]:
    """Project a signal orthogonally onto shifts, 2^J apart, of the scaling function's filter."""
    if n_levels == 0:
        return signal
    wide, offset = len(filter_), len(filter_) - 2
    coarse = []
    for k in range((len(signal) + wide - 1) // 2):
        total = scalar(0.0)
        for m in range(wide):
            if 0 <= 2 * k + m - offset < len(signal):
                total = total + filter_[m] * signal[2 * k + m - offset]
        coarse.append(total)
    coarse = smoothed(coarse, filter_, n_levels - 1)
    out = []
    for n in range(len(signal)):
        total = scalar(0.0)
        for k in range(len(coarse)):
            if 0 <= n + offset - 2 * k < wide:
                total = total + filter_[n + offset - 2 * k] * coarse[k]
        out.append(total)
    return out


def smoothed_causally(signal: list[Tensor], filter_: Tensor, n_levels: int) -> list[Tensor]:
    """Return means, weighted by the filter, of the present value and earlier ones 1, 2, 4 apart."""
    for level in range(n_levels):
        out = []
        for n in range(len(signal)):
            total = scalar(0.0)
            for m in range(len(filter_)):
                if n - m * 2**level >= 0:
                    total = total + filter_[m] / math.sqrt(2) * signal[n - m * 2**level]
            out.append(total)
        signal = out
    return signal


def embed_wavelet(e, x, i, t):
    signal = [e.project.weight[0] @ token for token in x]
    smooth = smoothed_causally if e.causal else smoothed
    levels = [smooth(signal, e.low_pass, j)[i] for j in range(e.n_levels + 1)]
    out = x[i]
    for j in range(e.n_levels + 1):  # scale 0 is the rest, scale J the finest detail
        part = levels[-1] if j == 0 else levels[e.n_levels - j] - levels[e.n_levels - j + 1]
        gate = 1 / (1 + torch.exp(-linear(e.gate, e.scale_table[j])))
        out = out + part * gate * torch.tanh(linear(e.value, e.scale_table[j]))
    return out
