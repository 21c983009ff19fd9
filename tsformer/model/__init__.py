"""A torch module and nothing else."""

from tsformer.model.tokens import TokenConfig, TokenTransformer
from tsformer.model.transformer import ModelConfig, TSTransformer

__all__ = ["ModelConfig", "TSTransformer", "TokenConfig", "TokenTransformer"]
