"""Encodings of a user: a constructor without the sizes, and hooks with results of wrong shapes."""

import numpy as np
import pytest
import torch

from tsformer import ModelConfig, TSTransformer, TSTransformerClassifier
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
WRONG = [
    (MASKS_ALL, ValueError, "bias of Own must leave each token a key .* -inf for all keys"),
    (
        own("embed", lambda self, x: x),
        TypeError,
        r"embed of Own must take \(self, x, t\); it takes \(",
    ),
    (EarlyParameter, TypeError, r"of EarlyParameter must call super\(\).__init__\(\) before it"),
    (EMBEDS, ValueError, r"embed of Own must return shape \[B, N, D\], here \[3, 5, 8\]; it retur"),
    (ROTATES, ValueError, "rotate of Own must return two tensors of one shape; it returned"),
    (ROTATES_ONE, TypeError, "rotate of Own must return two tensors.*it returned Tensor"),
    (BIASES, ValueError, r"bias of Own must return shape .*here \[1 \| 3, 1 \| 2, 5, 5\]; it"),
    (MIXES, ValueError, r"mix of Own must return .*\[3, 2, 5, 4\]; it returned \[3, 5, 2, 4\]"),
    (MIXES_NOTHING, TypeError, "mix of Own must return a tensor .*it returned float"),
    (
        own("bias", lambda self, q, k, t: torch.ones(1, 1, 5, 5, dtype=torch.bool)),
        TypeError,
        "bias of Own must return a tensor of torch.float32; it returned torch.bool",
    ),
    (
        own("embed", lambda self, x, t: x.double()),
        TypeError,
        "embed of Own must return a tensor of torch.float32; it returned torch.float64",
    ),
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


def test_a_fit_names_the_hook_and_is_refused():
    classifier = TSTransformerClassifier(BIASES, d_model=8, n_heads=2, scaling=None)
    with pytest.raises(ValueError, match="the hook bias of Own must return shape"):
        classifier.fit(np.random.default_rng(0).normal(size=(6, 1, 20)), [0, 1] * 3)
    assert not hasattr(classifier, "models_")


class Sizeless(PositionalEncoding):
    def __init__(self, *, max_len, scale=1.0):
        super().__init__()


@pytest.mark.parametrize(
    ("encoding", "named"),
    [(Sizeless, "the constructor of Sizeless"), (lambda max_len: Sizeless(max_len=max_len), "lam")],
)
def test_a_constructor_without_the_sizes_is_named(encoding, named):
    with pytest.raises(TypeError, match=f"{named}.* must take d_model, n_heads, max_len as keywo"):
        resolve(encoding, **SIZES)
    with pytest.raises(TypeError, match=r"it lacks d_model, n_heads$"):
        resolve(encoding, **SIZES)
    with pytest.raises(TypeError, match=r"the constructor of Bare must take .*d_model, n_heads, m"):
        resolve(type("Bare", (PositionalEncoding,), {}), **SIZES)
