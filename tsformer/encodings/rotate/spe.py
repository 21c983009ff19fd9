"""`sine_spe`, `conv_spe`: random codes whose expected products are a kernel of the distance.

Stochastic positional encoding multiplies each feature `e` of a query by a random code ``Q_e`` of
its token and sums over the features, and likewise for keys with ``K_e``, in `R` independent
realisations:

    q'_i[r] = sum_e q_i[e] Q_e[i, r] / sqrt(R),    k'_j[r] = sum_e k_j[e] K_e[j, r] / sqrt(R)

The codes of one feature have the expected product ``P_e(t_i - t_j)``, and the codes of different
features are independent: the expectation of ``q'_i . k'_j`` is
``sum_e q_i[e] k_j[e] P_e(t_i - t_j)``, without a matrix of distances.
"""

from math import e as EULER
from math import log, pi

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import check_number
from tsformer.encodings.base import PositionalEncoding, at_least_float32


class StochasticEncoding(PositionalEncoding):
    """Base class of both: reproducible noise, resampling in training, and the gate.

    A trained share `g` of each feature bypasses the encoding: its codes are
    ``sqrt(1 - g) Q_e + sqrt(g) z`` with the same `z` for queries, keys and all tokens, and its
    kernel is ``(1 - g) P_e + g``.
    """

    reference = "Liutkus et al. 2021"

    noise: Tensor
    gate_noise: Tensor

    def _draw(
        self,
        gate_shape: tuple[int, int],
        noise_shape: tuple[int, ...],
        n_realizations: int | None,
        resample: bool,
        seed: int,
    ) -> None:
        """Make the gate ``[H, E]`` and the noise."""
        self.resample = resample
        n_realizations = gate_shape[1] if n_realizations is None else n_realizations
        check_number(f"n_realizations of {self.name}", n_realizations, 1, whole=True)
        self.gate = nn.Parameter(torch.randn(gate_shape))
        generator = torch.Generator().manual_seed(seed)
        # Not persistent: the seed reproduces them, so a checkpoint holds trained weights only.
        for name, shape in (("gate_noise", gate_shape), ("noise", noise_shape)):
            noise = torch.randn((*shape, n_realizations), generator=generator)
            self.register_buffer(name, noise, persistent=False)

    def _gated(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Return the noise, ``sqrt(1 - g)`` ``[H, E, 1]``, and the codes of the gate."""
        noise, gate_noise, gate = self.noise, self.gate_noise, self.gate[..., None]
        if self.training and self.resample:
            noise, gate_noise = torch.randn_like(noise), torch.randn_like(gate_noise)
        plain = gate_noise * gate.sigmoid().sqrt() * noise.shape[-1] ** -0.5
        return noise, (-gate).sigmoid().sqrt(), plain.to(dtype)


class SineSPE(StochasticEncoding, name="sine_spe"):
    """Multiply queries and keys by random mixtures of sines, whose products are sums of cosines.

    Feature `e` of a head has the kernel ``P_e(d) = sum_k a_k^2 cos(2 pi f_k d + o_k) / S`` over `S`
    = `n_sines` sines with trained frequencies `f`, in cycles per token and below 1/2, offsets `o`,
    and gains `a` above zero, each ``[H, E, S]``. Its codes are ``Q_e[i, r] = sum_k a_k (cos(2 pi
    f_k t_i + o_k) z_kr + sin(2 pi f_k t_i + o_k) z'_kr) / sqrt(S)``, and ``K_e`` is the same
    without the offset, where `z` and `z'` are standard normal noise. A trained share of each
    feature bypasses the encoding (the paper's gate). It depends on real-valued times, and is
    defined for any length.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `max_len` is unused here.
    n_sines : int, default=1
        Number of sines `S` per feature.
    n_realizations : int, optional
        Number of realisations `R`, the width of a head inside attention; `E` by default. A score
        deviates from its expectation by about ``1 / sqrt(R)`` times the norms of query and key.
    resample : bool, default=False
        Whether each training step draws new noise, as the authors do.
    seed : int, default=0
        Seed of the noise, which makes predictions deterministic.

    References
    ----------
    Liutkus et al., "Relative Positional Encoding for Transformers with Linear Complexity", ICML
    2021.

    Examples
    --------
    >>> encoding = SineSPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(3, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([3, 2, 5, 4])
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        n_sines: int = 1,
        n_realizations: int | None = None,
        resample: bool = False,
        seed: int = 0,
    ):
        super().__init__()
        check_number(f"n_sines of {self.name}", n_sines, 1, whole=True)
        gate = n_heads, d_model // n_heads
        self._draw(gate, (*gate, 2 * n_sines), n_realizations, resample, seed)
        shape = (*gate, n_sines)
        # As in the authors' code: low frequencies, on the order of a hundred tokens per cycle.
        self.frequency_raw = nn.Parameter(torch.randn(shape) - 4)
        self.offset = nn.Parameter(torch.randn(shape))
        self.gain_raw = nn.Parameter(torch.full(shape, log(EULER - 1)))  # softplus of it is one

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        time = at_least_float32(t)[:, None, :, None, None]
        angle = pi * self.frequency_raw.sigmoid()[:, None] * time
        noise, coded, plain = self._gated(q.dtype)
        scale = noise.shape[-1] ** -0.5 * angle.shape[-1] ** -0.5
        gain = F.softplus(self.gain_raw).repeat(1, 1, 2)[..., None] * coded[..., None]
        mixture = (noise * gain * scale).flatten(1, 2).to(q.dtype)

        def encode(x: Tensor, angle: Tensor) -> Tensor:
            waves = torch.cat([angle.cos(), angle.sin()], dim=-1).to(x.dtype)
            return (x[..., None] * waves).flatten(-2) @ mixture + x @ plain

        return encode(q, angle + self.offset[:, None]), encode(k, angle)


class ConvSPE(StochasticEncoding, name="conv_spe"):
    """Multiply queries and keys by filtered noise, whose products are the filters' correlation.

    Feature `e` of a head has the kernel ``P_e(i - j) = sum_p f_Q[p] f_K[p + i - j]`` of two trained
    filters `f_Q` and `f_K` ``[H, E, K]``, which is zero past `K` tokens. Its codes are ``Q_e[i, r]
    = sum_p f_Q[p] z_e[i + p, r]``, and ``K_e`` is the same with `f_K`, where `z` is standard normal
    noise that all heads share. A trained share of each feature bypasses the encoding (the paper's
    gate). It counts tokens, and does not see real-valued times. Past the trained length the noise
    repeats: tokens a whole trained length apart look like neighbours.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes.
    kernel_size : int, default=33
        Length `K` of the filters in tokens; 200 in the authors' code.
    n_realizations : int, optional
        Number of realisations `R`, as in `sine_spe`; `E` by default.
    resample : bool, default=False
        Whether each training step draws new noise, as the authors do.
    seed : int, default=0
        Seed of the noise, which makes predictions deterministic.

    References
    ----------
    Liutkus et al., "Relative Positional Encoding for Transformers with Linear Complexity", ICML
    2021.

    Examples
    --------
    >>> encoding = ConvSPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(3, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([3, 2, 5, 4])
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        kernel_size: int = 33,
        n_realizations: int | None = None,
        resample: bool = False,
        seed: int = 0,
    ):
        super().__init__()
        check_number(f"kernel_size of {self.name}", kernel_size, 1, whole=True)
        gate = n_heads, d_model // n_heads
        self._draw(gate, (gate[1], max_len + kernel_size - 1), n_realizations, resample, seed)
        # As in the authors' code: positive, so that neighbours start out similar, and of a scale
        # that makes the kernel near 1 at a distance of zero.
        shape = (*gate, kernel_size)
        self.filter_q = nn.Parameter(2 * kernel_size**-0.5 * torch.rand(shape))
        self.filter_k = nn.Parameter(2 * kernel_size**-0.5 * torch.rand(shape))

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        noise, coded, plain = self._gated(q.dtype)
        scale = noise.shape[-1] ** -0.5
        reach = q.shape[-2] + self.filter_q.shape[-1] - 1
        turn = torch.arange(reach, device=noise.device) % noise.shape[1]
        noise = noise.index_select(1, turn).permute(2, 0, 1)  # [R, E, N + K - 1]

        def encode(x: Tensor, weight: Tensor) -> Tensor:
            n_heads, width, kernel_size = weight.shape
            kernel = (weight * coded * scale).transpose(0, 1).reshape(-1, 1, kernel_size)
            codes = F.conv1d(noise, kernel, groups=width).unflatten(1, (width, n_heads))
            # One product [B, E] [E, R] for each head and token; contiguous, or bmm copies each.
            codes = codes.permute(2, 3, 1, 0).to(x.dtype).contiguous().flatten(0, 1)
            tokens = x.permute(1, 2, 0, 3).contiguous().flatten(0, 1)
            coded_x = torch.bmm(tokens, codes).unflatten(0, x.shape[1:3]).permute(2, 0, 1, 3)
            return coded_x + x @ plain

        return encode(q, self.filter_q), encode(k, self.filter_k)
