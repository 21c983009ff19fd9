"""Augmentations of training series, each selected by name. Imports torch and nothing else."""

from tsformer.augmentation.base import Augmentation, AugmentationSpec, Batch, Compose, resolve
from tsformer.augmentation.transforms import CutMix, Jitter, Slice, Warp

available = Augmentation.registry.available
find = Augmentation.registry.find
names = Augmentation.registry.names
register = Augmentation.registry.register
unregister = Augmentation.registry.unregister

__all__ = [
    "Augmentation",
    "AugmentationSpec",
    "Batch",
    "Compose",
    "CutMix",
    "Jitter",
    "Slice",
    "Warp",
    "available",
    "find",
    "names",
    "register",
    "resolve",
    "unregister",
]
