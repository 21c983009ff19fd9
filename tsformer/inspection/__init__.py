"""What the score of a fitted estimator rests on: channels and windows of time."""

from tsformer.inspection.permutation import permutation_importance

__all__ = ["permutation_importance"]
