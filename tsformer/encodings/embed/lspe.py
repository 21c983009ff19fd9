"""`lspe`: the sinusoid passed through a small network."""

import torch
from torch import Tensor, nn

from tsformer._checks import check_known, check_number
from tsformer.encodings.base import PositionalEncoding, sinusoid


class LSPE(PositionalEncoding, name="lspe"):
    """Add the sinusoid passed through a small network: ``x + FFN(PE(t))``.

    The learnable sinusoidal positional encoding: ``FFN(p) = dropout(sigmoid(p W1 + b1)) W2 + b2``
    with `PE` ``[1 | B, N, D]`` the sinusoid of `fixed`, and trained `W1` ``[D, F]``, `b1`, `W2`
    ``[F, D]`` and `b2`. It is defined for any real-valued time, hence for any length.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` and `max_len` are unused here.
    d_hidden : int, optional
        Hidden width `F`; `D` by default.
    dropout : float, default=0.1
        On the hidden layer, in training.
    apply_to : {"encoding", "sum"}, default="encoding"
        "encoding" is the paper's formula; "sum" is ``FFN(x + PE(t))``, as in some implementations.
    base : float, default=10000.0
        Sets the wavelengths of the sinusoid.
    init_std : float > 0, optional
        Standard deviation over time of the initial code. By default PyTorch's initial weights, with
        which it is about 0.04. With 0.2, and `W1` and `b1` four times as large, the model learns
        the positions in fewer steps.

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
        init_std: float | None = None,
    ):
        super().__init__()
        check_known("apply_to of lspe", apply_to, ("encoding", "sum"))
        self.d_model, self.apply_to, self.base = d_model, apply_to, base
        d_hidden = d_model if d_hidden is None else d_hidden
        first, last = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model)
        self.ffn = nn.Sequential(first, nn.Sigmoid(), nn.Dropout(dropout), last)
        if init_std is not None:
            check_number("init_std of lspe", init_std, 0, excluded=True)
            with torch.no_grad():
                first.weight.mul_(4.0)  # small inputs leave the sigmoids nearly linear
                first.bias.mul_(4.0)
                t = torch.arange(max(float(max_len), 2.0))
                code = last(first(sinusoid(t, d_model, base=base)).sigmoid())
                last.weight.mul_(init_std / code.var(dim=0, correction=0).mean().sqrt())

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        position = sinusoid(t, self.d_model, base=self.base).to(x.dtype)
        if self.apply_to == "sum":
            return self.ffn(x + position)
        hidden, activation, dropout, output = self.ffn
        values = activation(hidden(position))
        # The same dropout for all series, with times as without.
        return x + output(values * dropout(torch.ones_like(values[:1])))
