"""Encodings of a user: a constructor without the sizes, and hooks with results of wrong shapes."""

import pytest
import torch

from tsformer import ModelConfig, TSTransformer
from tsformer.encodings import PositionalEncoding, resolve

SIZES = {"d_model": 8, "n_heads": 2, "max_len": 5}


class Sized(PositionalEncoding):
    def __init__(self, *, d_model, n_heads, max_len):
        super().__init__()


def own(hook: str, function) -> type[PositionalEncoding]:
    """Return an encoding with one hook."""
    return type("Own", (Sized,), {hook: function})


class EarlyParameter(PositionalEncoding):
    def __init__(self, *, d_model, n_heads, max_len):
        self.scale = torch.nn.Parameter(torch.ones(d_model))
        super().__init__()


class Unsaved(Sized):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.scale = torch.ones(3)  # would be other random numbers after loading

    def embed(self, x, t):
        return x


MASKS_ALL = own("bias", lambda self, q, k, t: torch.full((1, 1, 5, 5), -torch.inf))
EMBEDS = own("embed", lambda self, x, t: (x + t[..., None]).mean(dim=2))
ROTATES = own("rotate", lambda self, q, k, t: (torch.cat([q, q], dim=3), k))
ROTATES_ONE = own("rotate", lambda self, q, k, t: q)
BIASES = own("bias", lambda self, q, k, t: t[:, :, None] - t[:, None, :])
MIXES = own("mix", lambda self, v, t: v.transpose(1, 2))
MIXES_NOTHING = own("mix", lambda self, v, t: 0.0)
BOOLEAN = own("bias", lambda self, q, k, t: torch.ones(1, 1, 5, 5, dtype=torch.bool))
DOUBLE = own("embed", lambda self, x, t: x.double())
WRONG = [
    (MASKS_ALL, ValueError, r"bias of Own .* a key above -inf in each row.*\[1, 1, 5, 5\]"),
    (EMBEDS, ValueError, r"embed of Own .* \[B, N, D\], for an input \[3, 5, 8\] .*\[3, 5\] of"),
    (ROTATES, ValueError, r"rotate of Own .* two tensors .* and \[3, 2, 5, 4\] of torch.float32"),
    (ROTATES_ONE, ValueError, r"rotate of Own .* two tensors .* returned \[3, 2, 5, 4\]"),
    (BIASES, ValueError, r"bias of Own .* \[1 \| B, 1 \| H, N, N\].* returned \[1, 5, 5\]"),
    (MIXES, ValueError, r"mix of Own .* \[3, 2, 5, 4\] .* returned \[3, 5, 2, 4\]"),
    (MIXES_NOTHING, ValueError, "mix of Own must return None or a tensor .* returned float"),
    (BOOLEAN, ValueError, r"bias of Own .* returned \[1, 1, 5, 5\] of torch.bool"),
    (DOUBLE, ValueError, r"embed of Own .* of torch.float32; it returned .* of torch.float64"),
    (own("embed", lambda self, x: x), TypeError, "takes 2 positional arguments but 3 were given"),
    (EarlyParameter, AttributeError, r"EarlyParameter .* must call super\(\).__init__\(\) first"),
    (Sized, TypeError, "Sized implements none of the hooks embed, rotate, bias, mix: define one"),
    (Unsaved, TypeError, r"Unsaved .* self.scale, .*self.register_buffer\('scale', ...\)"),
]


@pytest.mark.parametrize(("encoding", "error", "message"), WRONG)
def test_a_hook_with_a_wrong_result_is_named(encoding, error, message):
    config = ModelConfig(
        n_channels=1, n_outputs=2, max_len=5, encoding=encoding, stem="linear", d_model=8, n_heads=2
    )
    with pytest.raises(error, match=message):
        TSTransformer(config)(torch.zeros(3, 5, 1))


class Sizeless(PositionalEncoding):
    def __init__(self, *, max_len, scale=1.0):
        super().__init__()


@pytest.mark.parametrize(
    "encoding", [Sizeless, lambda max_len: None, type("Bare", (PositionalEncoding,), {})]
)
def test_a_constructor_without_the_sizes_is_told_them(encoding):
    name = encoding.__name__
    with pytest.raises(TypeError, match=f"(?s)'d_model'.*encoding={name} "):
        resolve(encoding, **SIZES)
