"""The defaults of every encoding, under which the published results were computed."""

from __future__ import annotations

import inspect

import torch

from tsformer import encodings

DEFAULTS = {
    "alibi": {"signed": False},
    "cape": {"max_jitter": 0.5, "max_scale": 1.1, "base": 10000.0},
    "cope": {"init_std": 0.02},
    "conv": {"kernel_size": 9, "causal": False},
    "conv_spe": {"kernel_size": 33, "resample": False, "seed": 0},
    "dape": {"static": "fire", "d_hidden": 32},
    "erpe": {"causal": False},
    "fire": {"d_hidden": 32, "signed": True},
    "fixed": {"base": 10000.0},
    "fope": {"fraction": 1.0, "init_std": 0.3},
    "fourier": {"gamma": 10.0, "trainable": True},
    "gaussian": {"trainable": True},
    "kerple": {"variant": "log"},
    "learnable_rope": {"base": 10000.0, "fraction": 1.0},
    "learnable": {"init_std": 0.02},
    "lspe": {"dropout": 0.1, "apply_to": "encoding", "base": 10000.0},
    "rope": {"base": 10000.0, "fraction": 1.0},
    "shaw": {"init_std": 0.02},
    "sine_spe": {"n_sines": 1, "resample": False, "seed": 0},
    "t5": {"n_buckets": 32, "init_std": 0.02},
    "tape": {"base": 10000.0},
    "tupe": {"init_std": 0.02},
    "wavelet": {"wavelet": "db4", "causal": False},
    "xpos": {"base": 10000.0, "fraction": 1.0, "gamma": 0.4},
}


def test_defaults():
    found = {}
    for cls in vars(encodings).values():
        if inspect.isclass(cls) and getattr(cls, "name", None) in encodings.names():
            parameters = inspect.signature(cls).parameters.values()
            given = {p.name: p.default for p in parameters if p.default not in (p.empty, None)}
            found |= {cls.name: given} if given else {}
    assert found == DEFAULTS


def test_sine_spe_starts_with_slow_waves():
    torch.manual_seed(0)
    encoding = encodings.SineSPE(d_model=32, n_heads=4, max_len=50, n_sines=5)
    assert -4.5 < encoding.frequency_raw.mean() < -3.5
