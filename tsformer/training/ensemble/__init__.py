"""Several models trained on the same data: one after another, in processes, or vectorized."""

from tsformer.training.ensemble.train import one_at_a_time, train_ensemble

__all__ = ["one_at_a_time", "train_ensemble"]
