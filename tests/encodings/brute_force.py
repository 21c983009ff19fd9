"""Reference implementations of all encodings, as the papers write them: scalars, loops, float64.

An encoding is defined by one or more of these functions:

- ``embed(e, x, i, t)``: the encoded token ``[D]`` number `i` of the tokens `x` at the times `t`;
- ``rotate(e, x, role, h, i, t)``: the rotated query or key of token `i` from `x` ``[E]``;
- ``bias(e, q, h, i, j, t)``: what is added to the scaled score of query `i`, `q` ``[E]``, and key
  `j`;
- ``scored(e, q, s, h, i, j, t)``: a bias that depends on the scaled scores `s` ``[H][N][N]`` too;
- ``mix(e, h, i, j)``: what is added to the weight of query `i` and key `j` after the softmax.

`e` is the module, of which only the parameters and options are read; `t` lists the times of a
series; heads `h` count from 1; `role` is "q" or "k".
"""

import math

import torch
from torch import Tensor, nn

from tsformer.encodings import PositionalEncoding, Sum
from tsformer.model.transformer import SelfAttention


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
        component = levels[-1] if j == 0 else levels[e.n_levels - j] - levels[e.n_levels - j + 1]
        gate = 1 / (1 + torch.exp(-linear(e.gate, e.scale_table[j])))
        out = out + component * gate * torch.tanh(linear(e.value, e.scale_table[j]))
    return out


def turned(x: Tensor, waves: list[tuple]) -> Tensor:
    """Rotate pair `k` of the features of `x` by the cosine and sine ``waves[k]``."""
    out = list(x)
    for k, (cos, sin) in enumerate(waves):
        out[2 * k] = cos * x[2 * k] - sin * x[2 * k + 1]
        out[2 * k + 1] = sin * x[2 * k] + cos * x[2 * k + 1]
    return torch.stack(out)


def rotate_rope(e, x, role, h, i, t, scale=lambda k: 1.0):
    waves = []
    for k in range(e.rotated // 2):
        angle = t[i] * e.base ** (-2 * k / e.rotated)
        waves.append((scale(k) * math.cos(angle), scale(k) * math.sin(angle)))
    return turned(x, waves)


def rotate_learnable_rope(e, x, role, h, i, t):
    angles = [t[i] * logarithm.exp() for logarithm in e.log_frequencies[h - 1]]
    return turned(x, [(torch.cos(angle), torch.sin(angle)) for angle in angles])


def rotate_fope(e, x, role, h, i, t):
    n_whole = e.weights.shape[-1]
    angles = [t[i] * e.base ** (-2 * k / e.rotated) for k in range(n_whole)]
    waves = []
    for k in range(n_whole):
        cos, sin = math.cos(angles[k]), math.sin(angles[k])
        for m in range(n_whole):
            cos = cos + e.weights[0, h - 1, m, k] * math.cos(angles[m])
            sin = sin + e.weights[1, h - 1, m, k] * math.sin(angles[m])
        waves.append((cos, sin))
    return turned(x, waves)


def rotate_pope(e, x, role, h, i, t):
    width = e.phase.shape[1]
    points = []
    for c in range(width):
        angle = scalar(t[i] * e.base ** (-c / width)) + (e.phase[h - 1, c] if role == "k" else 0)
        points += [softplus(x[c]) * torch.cos(angle), softplus(x[c]) * torch.sin(angle)]
    return torch.stack([*points, *x[width:]])


def rotate_xpos(e, x, role, h, i, t):
    power = (t[i] - (t[0] + t[-1]) / 2) / e.scale_base
    if role == "k":
        power = -power
    fade = lambda k: ((2 * k / e.rotated + e.gamma) / (1 + e.gamma)) ** power  # noqa: E731
    return rotate_rope(e, x, role, h, i, t, fade)


def rotate_tupe(e, x, role, h, i, t):
    row = table_row(e.table, t[i], t[-1])
    centred = row - row.mean()
    position = centred / torch.sqrt((centred**2).mean() + e.norm.eps) * e.norm.weight + e.norm.bias
    width = len(row) // e.n_heads
    start = (h - 1) * width + (len(row) if role == "k" else 0)
    projected = linear(e.project, position)[start : start + width]
    # The score is (q k + p_q p_k) / sqrt(2 E), and attention divides by sqrt(E).
    return torch.cat([x, projected]) / 2**0.25


def with_gate(e, x, h, code):
    """Return the sum of features times codes, with a share of each code independent of position."""
    n_realizations = e.gate_noise.shape[-1]
    out = []
    for r in range(n_realizations):
        total = scalar(0.0)
        for feature in range(len(x)):
            share = 1 / (1 + torch.exp(-e.gate[h - 1, feature]))
            passed = torch.sqrt(share) * e.gate_noise[h - 1, feature, r]
            total = total + x[feature] * (torch.sqrt(1 - share) * code(feature, r) + passed)
        out.append(total / math.sqrt(n_realizations))
    return torch.stack(out)


def rotate_sine_spe(e, x, role, h, i, t):
    n_sines = e.offset.shape[-1]

    def code(feature, r):
        total = scalar(0.0)
        for k in range(n_sines):
            raw = e.frequency_raw[h - 1, feature, k]
            angle = 2 * math.pi * t[i] / 2 / (1 + torch.exp(-raw))
            if role == "q":
                angle = angle + e.offset[h - 1, feature, k]
            z, z_prime = (e.noise[h - 1, feature, k + half, r] for half in (0, n_sines))
            gain = softplus(e.gain_raw[h - 1, feature, k])
            total = total + gain * (torch.cos(angle) * z + torch.sin(angle) * z_prime)
        return total / math.sqrt(n_sines)

    return with_gate(e, x, h, code)


def rotate_conv_spe(e, x, role, h, i, t):
    kernel = e.filter_q if role == "q" else e.filter_k

    def code(feature, r):
        noise = e.noise[feature].roll(-i, 0)
        return sum(kernel[h - 1, feature, p] * noise[p, r] for p in range(kernel.shape[-1]))

    return with_gate(e, x, h, code)


def bias_alibi(e, q, h, i, j, t):
    slope = 2 ** (-8 * h / e.n_heads)
    if e.signed and t[j] > t[i]:
        slope = slope / 2
    return -slope * abs(t[j] - t[i])


def bias_kerple(e, q, h, i, j, t):
    distance = abs(t[j] - t[i])
    r1 = softplus(e.r1_raw[h - 1])
    if e.variant == "log":
        return -r1 * torch.log(1 + softplus(e.r2_raw[h - 1]) * distance)
    if distance == 0:
        return 0 * r1
    return -r1 * distance ** (2 / (1 + torch.exp(-e.r2_raw[h - 1])))


def bias_gaussian(e, q, h, i, j, t):
    width = torch.exp(e.log_width[h - 1])
    return -((t[j] - t[i]) ** 2) / (2 * width**2)


def bias_shaw(e, q, h, i, j, t):
    furthest = (len(e.table) - 1) // 2
    distance = max(-furthest, min(furthest, round(t[j] - t[i])))
    return q @ e.table[distance + furthest] / math.sqrt(len(q))


def bias_t5(e, q, h, i, j, t):
    per_side = (len(e.table) + 1) // 2
    exact = per_side // 2
    distance = min(math.floor(abs(t[j] - t[i])), e.max_distance)
    bucket = distance
    if distance >= exact:
        reach = math.log(max(e.max_distance, exact + 1) / exact)
        bucket = exact + math.floor(math.log(distance / exact) / reach * (per_side - exact))
        bucket = min(bucket, per_side - 1)
    if t[j] > t[i] and bucket > 0:
        bucket += per_side - 1
    return e.table[bucket, h - 1]


def bias_fire(e, q, h, i, j, t):
    c, threshold = torch.exp(e.log_c), torch.exp(e.log_threshold)
    longest = max(threshold, scalar(t[-1] - t[0]))
    u = torch.log(1 + c * abs(t[j] - t[i])) / torch.log(1 + c * longest)
    sign = scalar((t[j] > t[i]) - (t[j] < t[i]))
    hidden = linear(e.hidden, torch.stack([u, sign] if e.signed else [u]))
    return linear(e.out, hidden.clamp(min=0))[h - 1]


def scored_cope(e, q, s, h, i, j, t):
    position = scalar(0.0)
    for k in range(min(i, j), max(i, j)):
        gate = (1 / (1 + torch.exp(-s[h - 1][i][k])) + 1 / (1 + torch.exp(-s[h - 1][i][k + 1]))) / 2
        position = position + gate * (t[k + 1] - t[k])
    furthest = (len(e.table) - 1) // 2
    position = (position if j > i else -position).clamp(-furthest, furthest) + furthest
    low = min(math.floor(position.item()), 2 * furthest - 1)
    row = (low + 1 - position) * e.table[low] + (position - low) * e.table[low + 1]
    return q @ row / math.sqrt(len(q))


def scored_dape(e, q, s, h, i, j, t):
    formula = FORMULAS[e.static.name]["bias"]
    biases = [formula(e.static, q, head + 1, i, j, t) for head in range(len(s))]
    inputs = torch.stack([scores[i][j] for scores in s] + biases)
    hidden = linear(e.hidden, inputs)
    hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
    return biases[h - 1] + linear(e.out, hidden)[h - 1]


def mix_erpe(e, h, i, j):
    if e.causal and j > i:
        return 0 * e.table[h - 1, 0]
    furthest = (e.table.shape[1] - 1) // 2
    distance = max(-furthest, min(furthest, i - j))
    return e.table[h - 1, distance + furthest]


#: Name -> the hooks of an encoding, by the names of the functions above.
FORMULAS: dict = {"none": {}, "cape": {"embed": embed_fixed}}  # cape at predict, without its draws
for _hook, _, _name in (key.partition("_") for key in list(globals())):
    if _hook in ("embed", "rotate", "bias", "scored", "mix"):
        FORMULAS[_name] = {_hook: globals()[f"{_hook}_{_name}"]}


def encode_and_attend(
    encoding: PositionalEncoding, attention: SelfAttention, x: Tensor, t: Tensor
) -> Tensor:
    """Encode the tokens `x` ``[B, N, D]`` at times `t` ``[B, N]`` and apply one attention."""
    parts = list(encoding.parts) if isinstance(encoding, Sum) else [encoding]
    return torch.stack(
        [_one_series(parts, attention, *series) for series in zip(x, t.tolist(), strict=True)]
    )


def _one_series(
    parts: list[PositionalEncoding], attention: nn.Module, x: Tensor, t: list[float]
) -> Tensor:
    N, D = x.shape
    H = attention.n_heads
    E = D // H
    acting = [(module, FORMULAS[module.name]) for module in parts]

    tokens = list(x)
    for module, formula in acting:
        if "embed" in formula:
            tokens = [formula["embed"](module, tokens, i, t) for i in range(N)]

    projected = [attention.qkv.weight @ token + attention.qkv.bias for token in tokens]

    def of_head(which, h):
        start = which * D + h * E
        return [token[start : start + E] for token in projected]

    plain = [
        [[a @ b / math.sqrt(E) for b in of_head(1, h)] for a in of_head(0, h)] for h in range(H)
    ]
    rows = [[] for _ in range(N)]
    for h in range(H):
        plain_q, q, k, v = of_head(0, h), of_head(0, h), of_head(1, h), of_head(2, h)
        for i in range(N):
            for module, formula in acting:
                if "rotate" in formula:
                    q[i] = formula["rotate"](module, q[i], "q", h + 1, i, t)
                    k[i] = formula["rotate"](module, k[i], "k", h + 1, i, t)
        for i in range(N):
            powers = []
            for j in range(N):
                score = (q[i] @ k[j]) / math.sqrt(E)
                for module, formula in acting:
                    if "bias" in formula:
                        score = score + formula["bias"](module, plain_q[i], h + 1, i, j, t)
                    if "scored" in formula:
                        score = score + formula["scored"](module, plain_q[i], plain, h + 1, i, j, t)
                powers.append(torch.exp(score))
            out = 0
            for j in range(N):
                weight = powers[j] / sum(powers)
                for module, formula in acting:
                    if "mix" in formula:
                        weight = weight + formula["mix"](module, h + 1, i, j)
                out = out + weight * v[j]
            rows[i].append(out)
    return torch.stack([attention.out.weight @ torch.cat(row) + attention.out.bias for row in rows])
