"""Where a step is: every positional encoding, one name away. Imports torch and nothing else."""

from tsformer.encodings import (
    absolute,
    continuous,
    convolutional,
    fire,
    learned_bias,
    mixing,
    relative,
    rotary,
    stochastic,
    untied,
    wavelet,
)
from tsformer.encodings.base import PositionalEncoding, Sum
from tsformer.encodings.registry import available, names
from tsformer.encodings.resolve import EncodingSpec, EncodingStack, resolve

__all__ = [
    "EncodingSpec",
    "EncodingStack",
    "PositionalEncoding",
    "Sum",
    "absolute",
    "available",
    "continuous",
    "convolutional",
    "fire",
    "learned_bias",
    "mixing",
    "names",
    "relative",
    "resolve",
    "rotary",
    "stochastic",
    "untied",
    "wavelet",
]
