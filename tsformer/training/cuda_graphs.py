"""Whole training steps captured in CUDA graphs: one launch instead of hundreds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tsformer.data.panel import Panel, same_device
from tsformer.data.stored_panel import AnyPanel
from tsformer.training.distributed import Ranks
from tsformer.training.plan import TrainingPlan
from tsformer.training.step import TrainingStep, clip_and_update

__all__ = ["GraphedStep", "step_class"]

#: Steps of each shape that first run one kernel at a time: libraries initialise themselves in them,
#: and the optimizer creates its state.
_STEPS_BEFORE = 3
#: Most shapes to capture, since each graph keeps its memory; series of many lengths have more.
_MOST_SHAPES = 8


class GraphedStep(TrainingStep):
    """The same steps, replayed from CUDA graphs.

    Small models spend their time launching kernels. Here gathering the batch, forward, backward,
    clipping and the update are recorded once for each batch shape, and replayed with other series.
    The panel and the targets must be on the device, and the optimizer "capturable", with its
    learning rate in a tensor. Parameters are those of `TrainingStep`.

    This was written without a GPU at hand: the bookkeeping is tested, the speed-up not measured.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert isinstance(self.panel, Panel)  # `step_class` sees to it
        self.panel = self.panel.with_mask()  # a captured step cannot reread the host
        self._steps: dict[tuple[int, int], int] = {}
        self._graphs: dict[tuple[int, int], tuple[Tensor, Callable[[], Tensor]]] = {}

    def __call__(self, index: Tensor, rows: Tensor, *, number: int = 0) -> Tensor:
        shape = len(index), int(self.panel.lengths[index].max())
        if shape not in self._graphs:
            before = self._steps.get(shape, 0)
            if before < _STEPS_BEFORE or len(self._graphs) == _MOST_SHAPES:
                self._steps[shape] = before + 1
                return self._on_side_stream(
                    lambda: TrainingStep.__call__(self, index, rows, number=number)
                )
            held = rows.clone()

            def step() -> Tensor:
                total = self._gradients(index, held, number)
                clip_and_update(self.optimizer, self.plan.max_grad_norm)
                return total

            self._graphs[shape] = held, self._capture(step)
        held, replay = self._graphs[shape]
        held.copy_(rows)
        return replay()

    def _capture(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Record the step without taking it; return a function that takes it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total = step()

        def replay() -> Tensor:
            graph.replay()
            return total.clone()  # the next replay overwrites it

        return replay

    def _on_side_stream(self, step: Callable[[], Tensor]) -> Tensor:
        """Take the step on a side stream, as capturing requires of the steps before it."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total = step()
        torch.cuda.current_stream().wait_stream(side)
        return total


def step_class(plan: TrainingPlan, panel: AnyPanel, ranks: Ranks) -> type[TrainingStep]:
    """Return the kind of step that the plan asks for; warn if steps cannot be captured here."""
    if plan.compile != "cuda-graphs":
        return TrainingStep
    if ranks.size > 1:
        reason = "several processes share each of them"
    elif not same_device(panel.device, plan.device):
        reason = f"the data do not fit on {plan.device} and are sent batch by batch"
    else:
        return GraphedStep
    warnings.warn(f"steps are not captured in CUDA graphs: {reason}", stacklevel=2)
    return TrainingStep
