"""Training: plan, loop, callbacks. Independent of scikit-learn and MLflow."""

from tsformer.training.inference import forward
from tsformer.training.loop import train, train_ensemble
from tsformer.training.plan import TrainingPlan
from tsformer.training.progress import ProgressBar
from tsformer.training.training_run import (
    Callback,
    History,
    NonFiniteLossError,
    TrainingState,
    Validation,
)

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
