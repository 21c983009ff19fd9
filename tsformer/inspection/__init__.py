"""Importance of channels and windows for the score of an estimator."""

from tsformer.inspection.permutation import permutation_importance

__all__ = ["permutation_importance"]
