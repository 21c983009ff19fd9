"""TrainingPlan: budget, optimizer, schedule, precision and device."""

from dataclasses import dataclass, field
from math import cos, pi
from pathlib import Path

import torch

from tsformer.augmentation import Augmentation


@dataclass(frozen=True)
class Pretrained:
    """Names of pretrained parameters, their learning rate, and whether they are frozen."""

    names: frozenset[str] = field(repr=False)  # too many to print
    lr_scale: float = 1.0
    frozen: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Budget, optimizer, schedule, precision and device of one training run.

    Parameters
    ----------
    n_epochs, batch_size, seed : int
        Passes over the data; series per step; seed of shuffling and dropout.
    learning_rate, weight_decay : float
        Peak value, after the warm-up; AdamW's decay of the weights of linear and convolution
        layers.
    warmup : float, default=0.1
        Fraction of all steps over which the rate rises; it then falls to zero along a cosine.
    max_grad_norm : float, default=1.0
        Gradients are clipped to this norm.
    augmentation : Augmentation, optional
        Changes the series of each step.
    pretrained : Pretrained, optional
        Parameters with another learning rate, or frozen.
    n_iter_no_change : int, optional
        With validation data: stop after this many epochs without a lower validation loss, at the
        best epoch. None trains to the end.
    device, bfloat16 : torch.device, bool
        Where the model and the data are; whether the forward pass runs in bf16 autocast.
    compile : bool or "cuda-graphs", default=False
        True compiles the model with `torch.compile` for training. "cuda-graphs", on a GPU and
        without frozen parameters, captures whole steps once for each batch shape and replays them.
    design : str, default=""
        Parameters of model and loss, to tell checkpoints of equal weights apart.
    checkpoint_dir, checkpoint_minutes, resume
        Folder for checkpoints of the run, least time between two, and whether to continue from one.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    warmup: float = 0.1
    max_grad_norm: float = 1.0
    augmentation: Augmentation | None = None
    pretrained: Pretrained | None = None
    n_iter_no_change: int | None = None
    device: torch.device
    bfloat16: bool = False
    compile: bool | str = False
    seed: int
    design: str = ""
    checkpoint_dir: Path | None = None
    checkpoint_minutes: float = 10.0
    resume: bool = False

    def __post_init__(self) -> None:
        if self.compile == "cuda-graphs":
            check_graphs(self.device)
            if self.frozen:
                raise ValueError("compile='cuda-graphs' excludes frozen parameters; choose False")

    @property
    def frozen(self) -> frozenset[str]:
        """The names of the frozen parameters."""
        pretrained = self.pretrained
        return pretrained.names if pretrained and pretrained.frozen else frozenset()

    def rate(self, step: int, n_steps: int) -> float:
        """Return the learning rate of step number `step` of `n_steps`, from 0."""
        rising = max(round(self.warmup * n_steps), 1)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (1 + cos(pi * (step - rising) / max(n_steps - rising, 1))) / 2


def check_graphs(device: torch.device) -> None:
    """Raise ValueError for CUDA graphs on another device."""
    if device.type != "cuda":
        raise ValueError(f"compile='cuda-graphs' needs a CUDA device; got {device}; choose 'auto'")
