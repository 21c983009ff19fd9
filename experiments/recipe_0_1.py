"""What the default of version 0.1 was, for experiments whose committed rows were made with it."""

from __future__ import annotations

from typing import Any

from tsformer.training.plan import epochs_for

__all__ = ["recipe_0_1"]


def recipe_0_1(stem: str = "conv", *, n_cases: int | None = None) -> dict[str, Any]:
    """Return the parameters of TSTransformerClassifier in which version 0.1 differs.

    With `n_cases`, the number of training series, its budget is among them.
    """
    recipe: dict[str, Any] = {"head_norm": None, "views": "values", "augmentation": None}
    recipe |= {"scaling": "channel", "temperature": 1.0}
    if n_cases is not None:
        recipe |= {"max_epochs": max(epochs_for(1000, n_cases, 16), 20), "batch_size": 16}
    conv = {"stem_params": {"n_residual": 0, "downsampling": "stride"}}
    return recipe | (conv if stem == "conv" else {})
