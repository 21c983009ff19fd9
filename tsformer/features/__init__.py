"""Features of random convolutions, and the ridge classifier that reads them.

Shape letters: `B` series, `L` time steps, `C` channels, `F` features, `K` classes.
"""

from tsformer.features.random_convolutions import Hydra, MiniRocket, RandomConvolutions
from tsformer.features.ridge import RidgeClassifier

__all__ = ["Hydra", "MiniRocket", "RandomConvolutions", "RidgeClassifier"]
