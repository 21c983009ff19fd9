"""A small problem, a small model and a short plan for the tests of the training loop."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer import ModelConfig, TSTransformer
from tsformer.data.panel import Panel
from tsformer.training import Callback, History, TrainingPlan, Validation, train
from tsformer.training.distributed import Ranks
from tsformer.training.loop import make_optimizer
from tsformer.training.step import TrainingStep
from tsformer.training.training_run import TrainingRun, TrainingState

CPU = torch.device("cpu")


def make_model(encoding: str = "lspe", **config) -> TSTransformer:
    torch.manual_seed(0)
    sizes = {"n_channels": 2, "n_outputs": 2, "max_len": 12, "d_model": 8, "n_heads": 2}
    return TSTransformer(ModelConfig(**sizes | {"encoding": encoding, "n_layers": 1} | config))


def make_panel(n: int = 20, *, ragged: bool = False, seed: int = 0) -> tuple[Panel, Tensor]:
    """Rising and falling series, so that there is something to learn."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(n) % 2
    slope = torch.linspace(-1, 1, 12)[None, :, None] * (2 * targets - 1)[:, None, None]
    values = slope + 0.3 * torch.randn(n, 12, 2, generator=generator)
    lengths = torch.randint(4, 13, (n,), generator=generator) if ragged else torch.full((n,), 12)
    values = values.where((torch.arange(12) < lengths[:, None])[..., None], 0.0)
    return Panel(values, lengths), targets


def make_plan(**options) -> TrainingPlan:
    defaults = {"n_epochs": 4, "batch_size": 4, "learning_rate": 5e-3, "weight_decay": 0.01}
    return TrainingPlan(**defaults | {"device": CPU, "seed": 0} | options)


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return (outputs.argmax(1) == targets).float().mean().item()


def fit(model: nn.Module, panel: Panel, targets: Tensor, plan: TrainingPlan, **options) -> History:
    return train(model, panel, targets, cross_entropy, plan, **options)


def make_step(
    model: nn.Module,
    panel: Panel,
    targets: Tensor,
    plan: TrainingPlan,
    weights: Tensor | None = None,
    *,
    kind: type[TrainingStep] = TrainingStep,
    ranks: Ranks = Ranks(),  # noqa: B008
) -> TrainingStep:
    optimizer = make_optimizer(model.train(), plan)
    return kind(model, optimizer, panel, targets, weights, cross_entropy, plan, ranks)


def make_run(
    model: nn.Module | None = None,
    data: tuple[Panel, Tensor] | None = None,
    plan: TrainingPlan | None = None,
    **options,
) -> TrainingRun:
    model = make_model() if model is None else model
    state = TrainingState(model, make_plan() if plan is None else plan, History())
    return TrainingRun(state, *(make_panel() if data is None else data), cross_entropy, **options)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return what is learned; batch-norm averages are computed after it."""
    return copy.deepcopy(dict(model.named_parameters()))


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[key], b[key]) for key in a)


class Remembers(Callback):
    """Records the weights at the end of every epoch."""

    def __init__(self):
        self.weights = []

    def on_epoch_end(self, state):
        self.weights.append(weights_of(state.model))


class Stops(Callback):
    """Ends the training after an epoch."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def on_epoch_end(self, state):
        state.stop = state.epoch == self.epoch


def wrong_labels() -> Validation:
    """Validation data on which training makes the loss worse after the first steps."""
    panel, targets = make_panel(seed=1)
    return Validation(panel, 1 - targets, accuracy)
