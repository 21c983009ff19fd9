"""The modules of 0.1, which were split by hook: importable for one more version, with a warning."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from tsformer._deprecation import renamed_in_module

__all__ = ["MOVED", "install"]

_PACKAGE = "tsformer.encodings"

#: Old module to its public names, and where in the package each of them is now.
MOVED = {
    "absolute": {
        "FixedEncoding": "FixedEncoding",
        "LSPE": "LSPE",
        "LearnableEncoding": "LearnableEncoding",
        "TAPE": "TAPE",
        "interpolated_rows": "functional.interpolated_rows",
        "sinusoid": "functional.sinusoid",
    },
    "continuous": {
        "CAPE": "CAPE",
        "FourierEncoding": "FourierEncoding",
        "Time2Vec": "Time2Vec",
    },
    "convolutional": {"ConvEncoding": "ConvEncoding", "NoEncoding": "NoEncoding"},
    "fire": {"FIRE": "FIRE", "relu_network": "bias.fire.relu_network"},
    "learned_bias": {"Shaw": "Shaw", "T5": "T5"},
    "mixing": {"ERPE": "ERPE"},
    "relative": {
        "ALiBi": "ALiBi",
        "GaussianBias": "GaussianBias",
        "Kerple": "Kerple",
        "ahead": "bias.distances.relative_times",
        "without_traces": "bias.distances.mask_negligible",
    },
    "rotary": {"RoPE": "RoPE", "XPos": "XPos"},
    "stochastic": {
        "ConvSPE": "ConvSPE",
        "SineSPE": "SineSPE",
        "StochasticEncoding": "rotate.spe.StochasticEncoding",
    },
    "untied": {"TUPE": "TUPE"},
    "wavelet": {
        "WAVELETS": "embed.wavelet.WAVELETS",
        "WaveletEncoding": "WaveletEncoding",
        "causal_multiresolution": "embed.wavelet.causal_multiresolution",
        "multiresolution": "embed.wavelet.multiresolution",
    },
}


def install() -> None:
    """Make the old modules importable, and attributes of the package as submodules are."""
    for old, contents in MOVED.items():
        path = f"{_PACKAGE}.{old}"
        module = ModuleType(path, f"Deprecated: use `{_PACKAGE}`.")
        module.__spec__ = ModuleSpec(path, loader=None)
        module.__package__ = _PACKAGE
        renamed = {name: f"{_PACKAGE}.{new}" for name, new in contents.items()}
        vars(module).update(__all__=sorted(renamed), __getattr__=renamed_in_module(path, renamed))
        sys.modules[path] = module
        setattr(sys.modules[_PACKAGE], old, module)
