"""Augmentations of training series, each selected by name. Imports torch and nothing else.

Files are named after the names that augmentations are registered under; all classes are importable
from here.
"""

from tsformer.augmentation.base import Augmentation, AugmentationSpec, Batch, Sum, resolve

# The order of these imports is the order of `names()`, and of the table in the documentation.
# isort: off
from tsformer.augmentation.warp import Warp
from tsformer.augmentation.slice import Slice
from tsformer.augmentation.cutmix import CutMix
from tsformer.augmentation.jitter import Jitter
# isort: on

available = Augmentation.registry.available
find = Augmentation.registry.find
names = Augmentation.registry.names
register = Augmentation.registry.register
unregister = Augmentation.registry.unregister

__all__ = [
    "Augmentation",
    "AugmentationSpec",
    "Batch",
    "CutMix",
    "Jitter",
    "Slice",
    "Sum",
    "Warp",
    "available",
    "find",
    "names",
    "register",
    "resolve",
    "unregister",
]
