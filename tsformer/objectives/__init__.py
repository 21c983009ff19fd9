"""Objectives of pretraining on series without labels, each selected by name.

Files are named after the names that objectives are registered under; all classes are importable
from here.
"""

from tsformer.objectives.base import (
    InputLayout,
    Objective,
    ObjectiveSpec,
    Posed,
    Pretext,
    PretrainingTransformer,
    resolve,
)

# The order of these imports is the order of `names()`.
# isort: off
from tsformer.objectives.masked import Masked
from tsformer.objectives.contrastive import Contrastive
# isort: on

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
