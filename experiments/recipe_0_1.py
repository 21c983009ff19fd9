"""What the default of version 0.1 was, for experiments whose committed rows were made with it."""

from __future__ import annotations

from typing import Any

__all__ = ["recipe_0_1"]


def recipe_0_1(stem: str = "conv") -> dict[str, Any]:
    """Return the parameters of TSTransformerClassifier in which version 0.1 differs."""
    recipe: dict[str, Any] = {"head_norm": None, "views": "values", "augmentation": None}
    return recipe | ({"stem_params": {"n_residual": 0}} if stem == "conv" else {})
