"""Encodings added to the tokens before the first block: `fixed`, `learnable`, `lspe`, `tape`.

`t` ``[1 | B, N]`` are times, `D` the model width, `w_k = base^(-2k / D)` the frequencies.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._names import unknown
from tsformer.encodings.base import PositionalEncoding

__all__ = [
    "LSPE",
    "TAPE",
    "FixedEncoding",
    "LearnableEncoding",
    "interpolated_rows",
    "sinusoid",
]


def sinusoid(t: Tensor, d_model: int, *, base: float = 10000.0) -> Tensor:
    """Return ``PE[2k] = sin(t w_k)``, ``PE[2k+1] = cos(t w_k)`` with ``w_k = base^(-2k / D)``.

    Parameters
    ----------
    t : Tensor [..., N]
        Times; angles are computed in their precision, float32 at least.
    d_model : int
        Width `D`; an odd width has one sine more than cosines.
    base : float, default=10000.0
        The longest wavelength is near ``2 pi base``.

    Returns
    -------
    Tensor [..., N, D]
    """
    t = t if t.dtype == torch.float64 else t.float()
    k = torch.arange(0, d_model, 2, device=t.device, dtype=t.dtype)
    angle = t[..., None] * base ** (-k / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :d_model]


def interpolated_rows(table: Tensor, t: Tensor) -> Tensor:
    """Return the rows of a table of positions at real times, interpolated linearly.

    Parameters
    ----------
    table : Tensor [M, D]
        One row for each of the positions ``0 .. M - 1``.
    t : Tensor [..., N]
        Times; a series that ends after `M - 1` is scaled to end there.

    Returns
    -------
    Tensor [..., N, D]
    """
    last = len(table) - 1
    end = t.amax(dim=-1, keepdim=True)
    t = (t * (last / end.clamp(min=max(last, 1)))).clamp(0, last)
    low = t.floor().long()
    high = (low + 1).clamp(max=last)
    # embedding, not indexing: the gradient of indexing is summed in no fixed order.
    return torch.lerp(
        F.embedding(low, table), F.embedding(high, table), (t - low)[..., None].to(table.dtype)
    )


class FixedEncoding(PositionalEncoding, name="fixed"):
    """Add the sinusoid of the original transformer: ``x + PE(t)``.

    ``PE(t)[2k] = sin(t w_k)``, ``PE(t)[2k+1] = cos(t w_k)``, ``w_k = base^(-2k / D)``, with
    `x` ``[B, N, D]`` and `t` ``[1 | B, N]``. Nothing is learned or stored: any length and any real
    time works.

    The paper's dropout on the sum is left to the model, which drops after every encoding
    alike, so that encodings are compared under the same noise.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` and `max_len` are unused here.
    base : float, default=10000.0
        Sets the wavelengths, from ``2 pi`` to about ``2 pi base`` tokens.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", NeurIPS 2017.

    Examples
    --------
    >>> encoding = FixedEncoding(d_model=4, n_heads=1, max_len=3)
    >>> encoding.embed(torch.zeros(1, 3, 4), torch.arange(3.0)[None])[0, 0]
    tensor([0., 1., 0., 1.])
    """

    kind = "embed"
    beyond = "extends"
    symmetric = False
    reference = "Vaswani et al. 2017"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, base: float = 10000.0):
        super().__init__()
        self.d_model = d_model
        self.base = base

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        return x + sinusoid(t, self.d_model, base=self.base).to(x.dtype)


class LearnableEncoding(PositionalEncoding, name="learnable"):
    """Add a trained row per position: ``x + P[t]``.

    `P` ``[M, D]`` has one row for each of the `M` = `max_len` trained positions, drawn from
    ``N(0, init_std^2)``.
    A time between two positions gets the two rows interpolated linearly; a series
    longer than `M` has its times scaled to end at the last row.

    Two habits are in circulation, a draw from N(0, 1) as a parameter ``(1, L, D)`` and an
    embedding table ``(max_len, D)`` with longer series refused: ``init_std=1.0`` gives the first.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.
    init_std : float, default=0.02
        Standard deviation of the initial rows.

    References
    ----------
    Devlin et al., "BERT", NAACL 2019; Dosovitskiy et al., "An Image Is Worth 16x16 Words",
    ICLR 2021 (rows interpolated to other lengths).

    Examples
    --------
    >>> encoding = LearnableEncoding(d_model=4, n_heads=1, max_len=3)
    >>> encoding.embed(torch.zeros(1, 9, 4), torch.arange(9.0)[None]).shape
    torch.Size([1, 9, 4])
    """

    kind = "embed"
    beyond = "interpolates"
    symmetric = False
    reference = "Devlin et al. 2019"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, init_std: float = 0.02):
        super().__init__()
        self.table = nn.Parameter(init_std * torch.randn(max_len, d_model))

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        return x + interpolated_rows(self.table, t).to(x.dtype)


class LSPE(PositionalEncoding, name="lspe"):
    """Add a small network of the sinusoid, the learnable sinusoidal encoding: ``x + FFN(PE(t))``.

    ``FFN(p) = dropout(sigmoid(p W1 + b1)) W2 + b2``, `PE` ``[1 | B, N, D]`` the sinusoid of
    `fixed`, `W1` ``[D, F]``, `W2` ``[F, D]``. Only `W1`, `b1`, `W2`, `b2` are learned; the sinusoid
    itself is not added. Defined for any time, hence for any length.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` and `max_len` are unused here.
    d_hidden : int, optional
        Hidden width `F`; `D` by default.
    dropout : float, default=0.1
        On the hidden layer, in training.
    apply_to : {"encoding", "sum"}, default="encoding"
        "encoding" is the paper's ``x + FFN(PE(t))``. A second reading in circulation puts
        the network after the sum, ``FFN(x + PE(t))``: "sum".
    base : float, default=10000.0
        Sets the wavelengths of the sinusoid.

    Raises
    ------
    ValueError
        If `apply_to` is neither.

    References
    ----------
    Wang et al., "A Simple yet Effective Learnable Positional Encoding Method for Improving
    Document Transformer Model", Findings of AACL-IJCNLP 2022.

    Examples
    --------
    >>> encoding = LSPE(d_model=4, n_heads=1, max_len=3)
    >>> encoding.embed(torch.zeros(2, 3, 4), torch.arange(3.0)[None]).shape
    torch.Size([2, 3, 4])
    """

    kind = "embed"
    beyond = "extends"
    symmetric = False
    reference = "Wang et al. 2022"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        d_hidden: int | None = None,
        dropout: float = 0.1,
        apply_to: str = "encoding",
        base: float = 10000.0,
    ):
        super().__init__()
        if apply_to not in ("encoding", "sum"):
            raise ValueError(unknown("apply_to of lspe", apply_to, ("encoding", "sum")))
        self.d_model = d_model
        self.apply_to = apply_to
        self.base = base
        d_hidden = d_model if d_hidden is None else d_hidden
        self.ffn = nn.Sequential(
            nn.Linear(d_model, d_hidden),
            nn.Sigmoid(),
            nn.Dropout(dropout),
            nn.Linear(d_hidden, d_model),
        )

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        position = sinusoid(t, self.d_model, base=self.base).to(x.dtype)
        if self.apply_to == "sum":
            return self.ffn(x + position)
        return x + self.ffn(position)


class TAPE(PositionalEncoding, name="tape"):
    """Add the sinusoid at wavelengths that fit the series' length: ``x + PE(t D / L)``.

    The time absolute position encoding of ConvTran.
    The angle is ``t w_k D / L`` with `L` = `max_len`, the trained length, kept at predict, so
    that a step has the same code in half a series as in the whole.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.
    base : float, default=10000.0
        As in `fixed`.

    References
    ----------
    Foumani, Tan, Webb and Salehi, "Improving Position Encoding of Transformers for
    Multivariate Time Series Classification", Data Mining and Knowledge Discovery 38, 2024
    (ConvTran).

    Examples
    --------
    >>> encoding = TAPE(d_model=4, n_heads=1, max_len=8)
    >>> encoding.embed(torch.zeros(1, 8, 4), torch.arange(8.0)[None]).shape
    torch.Size([1, 8, 4])
    """

    kind = "embed"
    beyond = "extends"
    symmetric = False
    reference = "Foumani et al. 2024"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, base: float = 10000.0):
        super().__init__()
        self.d_model = d_model
        self.max_len = max_len
        self.base = base

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        stretched = t * (self.d_model / self.max_len)
        return x + sinusoid(stretched, self.d_model, base=self.base).to(x.dtype)
