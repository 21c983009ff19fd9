"""Encodings of a user: a constructor without the sizes, and hooks with results of wrong shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer import ModelConfig, TSTransformer, TSTransformerClassifier
from tsformer.encodings import PositionalEncoding, resolve

SIZES = {"d_model": 8, "n_heads": 2, "max_len": 5}


class Base(PositionalEncoding):
    def __init__(self, *, d_model, n_heads, max_len):
        super().__init__()


class Embeds(Base):
    def embed(self, x, t):
        return (x + t[..., None]).mean(dim=2)


class Rotates(Base):
    def rotate(self, q, k, t):
        return torch.cat([q, q], dim=3), k


class RotatesOne(Base):
    def rotate(self, q, k, t):
        return q


class Biases(Base):
    def bias(self, q, k, t):
        return t[:, :, None] - t[:, None, :]


class Mixes(Base):
    def mix(self, v, t):
        return v.transpose(1, 2)


class MixesNothing(Base):
    def mix(self, v, t):
        return 0.0


class MasksAll(Base):
    def bias(self, q, k, t):
        return torch.full((1, 1, q.shape[2], q.shape[2]), -torch.inf)


class OneArgument(Base):
    def embed(self, x):
        return x


class EarlyParameter(PositionalEncoding):
    def __init__(self, *, d_model, n_heads, max_len):
        self.scale = torch.nn.Parameter(torch.ones(d_model))
        super().__init__()


WRONG = [
    (MasksAll, ValueError, "bias of MasksAll must leave each token a key .* -inf for all keys"),
    (OneArgument, TypeError, r"embed of OneArgument must take \(self, x, t\); it takes \(self, x"),
    (EarlyParameter, TypeError, r"of EarlyParameter must call super\(\).__init__\(\) before it"),
    (Embeds, ValueError, r"embed of Embeds must return shape \[B, N, D\], here \[3, 5, 8\]; it re"),
    (Rotates, ValueError, r"rotate of Rotates must return two tensors of one shape; it returned"),
    (RotatesOne, TypeError, "rotate of RotatesOne must return two tensors.*it returned Tensor"),
    (Biases, ValueError, r"bias of Biases must return shape .*here \[1 \| 3, 1 \| 2, 5, 5\]; it "),
    (Mixes, ValueError, r"mix of Mixes must return .*\[3, 2, 5, 4\]; it returned \[3, 5, 2, 4\]"),
    (MixesNothing, TypeError, "mix of MixesNothing must return a tensor .*it returned float"),
]


@pytest.mark.parametrize(("encoding", "error", "message"), WRONG)
def test_a_hook_with_a_wrong_result_is_named(encoding, error, message):
    config = ModelConfig(
        n_channels=1, n_outputs=2, max_len=5, encoding=encoding, stem="linear", d_model=8, n_heads=2
    )
    with pytest.raises(error, match=message):
        TSTransformer(config)(torch.zeros(3, 5, 1))


def test_a_fit_names_the_hook_and_is_refused():
    X, y = np.random.default_rng(0).normal(size=(6, 1, 20)), [0, 1] * 3
    classifier = TSTransformerClassifier(Biases, d_model=8, n_heads=2, scaling=None)
    with pytest.raises(ValueError, match="the hook bias of Biases must return shape"):
        classifier.fit(X, y)
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
