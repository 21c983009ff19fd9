"""Positional encodings by name, in folders named after their hooks. Imports torch alone."""

from tsformer.encodings.base import EncodingSpec, EncodingStack, PositionalEncoding, Sum, resolve

# The order of these imports is the order of `names()`, on which tables and studies rely.
# isort: off
from tsformer.encodings.embed.fixed import FixedEncoding
from tsformer.encodings.embed.learnable import LearnableEncoding
from tsformer.encodings.embed.lspe import LSPE
from tsformer.encodings.embed.tape import TAPE
from tsformer.encodings.embed.fourier import FourierEncoding
from tsformer.encodings.embed.time2vec import Time2Vec
from tsformer.encodings.embed.cape import CAPE
from tsformer.encodings.none import NoEncoding
from tsformer.encodings.embed.conv import ConvEncoding
from tsformer.encodings.bias.alibi import ALiBi
from tsformer.encodings.bias.kerple import Kerple
from tsformer.encodings.bias.gaussian import GaussianBias
from tsformer.encodings.bias.fire import FIRE
from tsformer.encodings.bias.shaw import Shaw
from tsformer.encodings.bias.t5 import T5
from tsformer.encodings.mix.erpe import ERPE
from tsformer.encodings.rotate.rope import RoPE
from tsformer.encodings.rotate.xpos import XPos
from tsformer.encodings.rotate.spe import ConvSPE, SineSPE
from tsformer.encodings.rotate.tupe import TUPE
from tsformer.encodings.embed.wavelet import WaveletEncoding
from tsformer.encodings.bias.cope import CoPE
from tsformer.encodings.bias.dape import DAPE
from tsformer.encodings.rotate.fope import FoPE
from tsformer.encodings.rotate.learnable_rope import LearnableRoPE
from tsformer.encodings.rotate.pope import PoPE
# isort: on

available = PositionalEncoding.registry.available
find = PositionalEncoding.registry.find
names = PositionalEncoding.registry.names
register = PositionalEncoding.registry.register
unregister = PositionalEncoding.registry.unregister

__all__ = [
    "CAPE",
    "DAPE",
    "ERPE",
    "FIRE",
    "LSPE",
    "T5",
    "TAPE",
    "TUPE",
    "ALiBi",
    "CoPE",
    "ConvEncoding",
    "ConvSPE",
    "EncodingSpec",
    "EncodingStack",
    "FixedEncoding",
    "FoPE",
    "FourierEncoding",
    "GaussianBias",
    "Kerple",
    "LearnableEncoding",
    "LearnableRoPE",
    "NoEncoding",
    "PoPE",
    "PositionalEncoding",
    "RoPE",
    "Shaw",
    "SineSPE",
    "Sum",
    "Time2Vec",
    "WaveletEncoding",
    "XPos",
    "available",
    "find",
    "names",
    "register",
    "resolve",
    "unregister",
]
