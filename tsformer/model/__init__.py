"""The models, as plain torch modules."""

from tsformer.model.tokens import TokenConfig, TokenTransformer
from tsformer.model.transformer import ModelConfig, TSTransformer

__all__ = ["ModelConfig", "TSTransformer", "TokenConfig", "TokenTransformer"]
