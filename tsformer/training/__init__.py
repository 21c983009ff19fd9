"""How a model learns: plan, loop, callbacks. Knows no scikit-learn and no mlflow."""

from tsformer.training.callbacks import Callback, History, ProgressBar, TrainingState
from tsformer.training.inference import forward
from tsformer.training.loop import Diverged, Validation, train
from tsformer.training.members import train_members
from tsformer.training.plan import TrainingPlan

__all__ = [
    "Callback",
    "Diverged",
    "History",
    "ProgressBar",
    "TrainingPlan",
    "TrainingState",
    "Validation",
    "forward",
    "train",
    "train_members",
]
