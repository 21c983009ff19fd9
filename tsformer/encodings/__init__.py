"""Where a step is: every positional encoding, one name away. Imports torch and nothing else."""

from tsformer.encodings import absolute, convolutional, relative, rotary
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
    "convolutional",
    "names",
    "relative",
    "resolve",
    "rotary",
]
