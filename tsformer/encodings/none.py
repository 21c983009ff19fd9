"""`none`: no encoding, the control."""

from tsformer.encodings.base import PositionalEncoding


class NoEncoding(PositionalEncoding, name="none"):
    """Encode nothing: ``x -> x``.

    The control of every comparison, and a reasonable choice behind a convolutional stem, which
    orders neighbouring steps. Behind a pointwise stem the model is a bag of steps.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; unused here.

    References
    ----------
    Haviv et al., "Transformer Language Models without Positional Encodings Still Learn
    Positional Information", Findings of EMNLP 2022.

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(2, 5, 8)
    >>> encoding = NoEncoding(d_model=8, n_heads=2, max_len=5)
    >>> bool((encoding.embed(x, torch.arange(5.0)[None]) == x).all())
    True
    """

    symmetric = True
    reference = "Haviv et al. 2022"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int):
        super().__init__()
