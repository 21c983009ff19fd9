"""A torch module and nothing else."""

from tsformer.model.transformer import ModelConfig, TSTransformer

__all__ = ["ModelConfig", "TSTransformer"]
