"""The modules of version 0.1 still give their public names, with a warning."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest

from tsformer import encodings

OLD = {
    "absolute": [
        "LSPE",
        "TAPE",
        "FixedEncoding",
        "LearnableEncoding",
        "interpolated_rows",
        "sinusoid",
    ],
    "continuous": ["CAPE", "FourierEncoding", "Time2Vec"],
    "convolutional": ["ConvEncoding", "NoEncoding"],
    "fire": ["FIRE", "relu_network"],
    "learned_bias": ["T5", "Shaw"],
    "mixing": ["ERPE"],
    "relative": ["ALiBi", "GaussianBias", "Kerple", "ahead"],
    "rotary": ["RoPE", "XPos"],
    "stochastic": ["ConvSPE", "SineSPE"],
    "untied": ["TUPE"],
    "wavelet": ["WAVELETS", "WaveletEncoding", "causal_multiresolution", "multiresolution"],
}


@pytest.mark.parametrize("module", OLD)
def test_every_public_name_of_0_1_is_found_with_a_warning(module):
    old = import_module(f"tsformer.encodings.{module}")
    assert getattr(encodings, module) is old
    assert set(OLD[module]) <= set(old.__all__)
    for name in OLD[module]:
        with pytest.warns(FutureWarning, match=rf"{module}\.{name} was renamed to") as one:
            found = getattr(old, name)
        assert [warning.filename for warning in one] == [__file__]
        if isinstance(found, type):
            assert found is getattr(encodings, name)


def test_an_import_statement_of_0_1_works():
    with pytest.warns(FutureWarning, match="was renamed to tsformer.encodings.RoPE"):
        from tsformer.encodings.rotary import RoPE
    assert RoPE is encodings.RoPE


def test_a_class_pickled_by_0_1_is_found():
    with pytest.warns(FutureWarning, match="was renamed to tsformer.encodings.LSPE"):
        assert pickle.loads(b"ctsformer.encodings.absolute\nLSPE\n.") is encodings.LSPE


def test_an_unknown_name_is_an_import_error():
    with pytest.raises(ImportError, match="cannot import name 'RoPe'"):
        from tsformer.encodings.rotary import RoPe  # noqa: F401
