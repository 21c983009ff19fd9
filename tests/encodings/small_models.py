"""Small models and series on which the properties of all encodings are tested."""

import torch
from torch import Tensor, nn

from tsformer import ModelConfig, TSTransformer

LENGTH, CHANNELS = 10, 3


def make_model(name: str, *, random_tables: bool = True, seed: int = 0, **config) -> TSTransformer:
    """Return a model in float64 whose encoding has random weights, as some are initially zero."""
    torch.manual_seed(seed)
    sizes = {"n_channels": CHANNELS, "n_outputs": 4, "max_len": LENGTH, "d_model": 8, "n_heads": 2}
    model = TSTransformer(ModelConfig(**sizes | {"encoding": name, "stem": "linear"} | config))
    if random_tables:
        for parameter in model.encoding.parameters():
            nn.init.normal_(parameter)
    return model.double().eval()


def series(n: int = 4, length: int = LENGTH) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, length, CHANNELS, generator=generator, dtype=torch.float64)


def steps(length: int = LENGTH, start: float = 0.0) -> Tensor:
    return start + torch.arange(length, dtype=torch.float64)[None]


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-8, atol=1e-8)
