"""The extension point; `B` series, `L` steps, `N` tokens, `C` channels, `D` width of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from tsformer._registry import Named, Registry, build
from tsformer.augmentation import Batch
from tsformer.model import ModelConfig, TSTransformer


@dataclass(frozen=True)
class InputLayout:
    """Layout of the inputs of a model.

    Parameters
    ----------
    n_channels, stride : int
        Channels `C` of the series; steps per token.
    differenced : bool, default=False
        Whether a difference of each channel follows the channels.
    flagged : tuple of int, default=()
        Channels whose flags are the last inputs, 0 where a value was observed.
    """

    n_channels: int
    differenced: bool = False
    flagged: tuple[int, ...] = ()
    stride: int = 1


@dataclass(frozen=True, eq=False)
class Posed:
    """A task: the input of the model, its expected output, and where the two are compared."""

    batch: Batch
    target: Tensor | None = None
    counted: Tensor | None = None


class Objective(Named):
    """Base class of all objectives: tasks for series without labels.

    Subclassing with a name registers the class: ``class Next(Objective, name="next")``;
    ``replace=True`` takes over a name. ``__init__`` takes the options as keywords and keeps each in
    an attribute of its name. `reference` is the paper.

    An objective overrides the methods below, `check` only if series of codes are excluded. It
    samples from torch's generator of the batch's device, which the fit seeds and restores, and must
    not wait for the device.
    """

    registry: ClassVar = Registry["Objective"]("objective", ("reference",))
    reference: str = ""

    def n_outputs(self, n_channels: int) -> int:
        """Return the number of outputs for series of `n_channels` channels."""
        raise NotImplementedError(f"{type(self).__qualname__} must override n_outputs")

    def make_head(self, d_model: int, n_outputs: int, stride: int) -> nn.Module:
        """Return the module from embeddings of tokens or series, of width `D`, to outputs."""
        raise NotImplementedError(f"{type(self).__qualname__} must override make_head")

    def pose(self, batch: Batch, layout: InputLayout) -> Posed:
        """Return a random task for a batch."""
        raise NotImplementedError(f"{type(self).__qualname__} must override pose")

    def outputs(
        self, model: PretrainingTransformer, x: Tensor, mask: Tensor | None, times: Tensor | None
    ) -> Tensor:
        """Return outputs for the arguments of `TSTransformer.forward`."""
        raise NotImplementedError(f"{type(self).__qualname__} must override outputs")

    def losses(self, outputs: Tensor, posed: Posed) -> Tensor:
        """Return the loss of each series, ``[B]``."""
        raise NotImplementedError(f"{type(self).__qualname__} must override losses")

    def check(self, *, symbolic: bool) -> None:
        """Raise ValueError if the objective does not apply to series, of codes if `symbolic`."""


@dataclass(frozen=True)
class Pretext:
    """An objective for inputs of a layout, in place of a loss."""

    objective: Objective
    layout: InputLayout


class PretrainingTransformer(TSTransformer):
    """A TSTransformer with the head of an objective; all else has its names and shapes.

    Parameters
    ----------
    config : ModelConfig
        Hyperparameters; `n_outputs` comes from the objective.
    objective : Objective
        Makes the head and calls it.

    Examples
    --------
    >>> import torch
    >>> config = ModelConfig(n_channels=3, n_outputs=3, max_len=50, d_model=8, n_heads=2)
    >>> model = PretrainingTransformer(config, resolve("masked"))
    >>> model(torch.randn(8, 50, 3)).shape, model.embed(torch.randn(8, 50, 3)).shape
    (torch.Size([8, 50, 3]), torch.Size([8, 8]))
    """

    def __init__(self, config: ModelConfig, objective: Objective):
        self.objective = objective  # `_make_head` needs it; it is no module
        super().__init__(config)

    def _make_head(self, config: ModelConfig) -> nn.Module:
        return self.objective.make_head(config.d_model, config.n_outputs, self.stem.stride)

    def forward(  # type: ignore[override]  # an objective compares views, which have no weights
        self, x: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Compute outputs for the arguments of `TSTransformer.forward`."""
        return self.objective.outputs(self, x, mask, times)

    def encode(self, x: Tensor, mask: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """Compute the embeddings of all tokens ``[B, N, D]``, before pooling."""
        tokens, mask, t = self.forward_stem(x, mask, times)
        return self.forward_features(tokens, mask, t)


#: An objective to build: a name, an instance, a class, or a function that takes the options as
#: keywords and returns an instance. `resolve` builds it.
ObjectiveSpec = str | Objective | type[Objective] | Callable[..., Objective]


def resolve(objective: ObjectiveSpec, **objective_params: Any) -> Objective:
    """Build an objective from its name, an instance, a class or a factory.

    Parameters
    ----------
    objective : str, Objective, Objective subclass, or callable
        A name such as ``"masked"``, an instance, a class or a factory of one.
    **objective_params
        Options of the class.

    Raises
    ------
    TypeError, ValueError
        For another type, options with an instance, and an unknown name or option.

    Examples
    --------
    >>> resolve("masked", ratio=0.3)
    Masked(ratio=0.3, span=3.0)
    """
    return build(Objective, objective, objective_params)[0]
