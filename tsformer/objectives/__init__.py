"""Objectives of pretraining on series without labels, each selected by name."""

from tsformer.objectives.base import (
    InputLayout,
    Objective,
    ObjectiveSpec,
    Posed,
    Pretext,
    PretrainingTransformer,
    resolve,
)

from tsformer.objectives.masked import Masked  # isort: skip  # first, as in `names()`
from tsformer.objectives.contrastive import Contrastive

available = Objective.registry.available
find = Objective.registry.find
names = Objective.registry.names
register = Objective.registry.register
unregister = Objective.registry.unregister

__all__ = [
    "Contrastive",
    "InputLayout",
    "Masked",
    "Objective",
    "ObjectiveSpec",
    "Posed",
    "Pretext",
    "PretrainingTransformer",
    "available",
    "find",
    "names",
    "register",
    "resolve",
    "unregister",
]
