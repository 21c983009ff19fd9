"""Training: plan, loop, callbacks. Independent of scikit-learn and MLflow."""

from typing import Any

from tsformer._deprecation import renamed_in_module, warn_renamed
from tsformer.training.callbacks import Callback, History, ProgressBar, TrainingState
from tsformer.training.ensemble import train_ensemble
from tsformer.training.inference import forward
from tsformer.training.loop import train
from tsformer.training.plan import TrainingPlan
from tsformer.training.run import NonFiniteLossError
from tsformer.training.validation import Validation

__all__ = [
    "Callback",
    "History",
    "NonFiniteLossError",
    "ProgressBar",
    "TrainingPlan",
    "TrainingState",
    "Validation",
    "forward",
    "train",
    "train_ensemble",
]


def train_members(*args: Any, together: bool | None = None, **options: Any) -> list[History]:
    """Call `train_ensemble`, which replaced it; its `vectorized` was `together`. Deprecated."""
    warn_renamed("tsformer.training.train_members(together=)", "train_ensemble(vectorized=)")
    return train_ensemble(*args, vectorized=together, **options)


__getattr__ = renamed_in_module(__name__, {"Diverged": "tsformer.training.NonFiniteLossError"})
