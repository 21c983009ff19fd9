"""Several models trained on the same data: one after another, in processes, or vectorized."""

from tsformer.training.ensemble.train import train_ensemble

__all__ = ["train_ensemble"]
