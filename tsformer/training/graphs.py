"""Whole training steps captured in CUDA graphs: one launch in place of hundreds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tsformer.training.step import TrainingStep, clip_and_update

__all__ = ["GraphedStep"]

#: Steps of each shape that run one kernel at a time first: libraries set themselves up in them,
#: and the optimizer makes its state.
_STEPS_BEFORE = 3
#: Shapes that are captured; a graph keeps its memory. Series of many lengths have more shapes.
_MOST_SHAPES = 8


class GraphedStep(TrainingStep):
    """The same steps, replayed from CUDA graphs.

    Small models spend their time on launching kernels. Here gathering the batch, forward,
    backward, clipping and the update are recorded once for each shape of a batch, and replayed
    with other series. The panel and targets must be on the device, and the optimizer be
    "capturable", with its learning rate in a tensor. Parameters are those of `TrainingStep`.

    This was written without a GPU at hand: the bookkeeping is tested, the gain is not measured.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.panel = self.panel.with_mask()  # a captured step reads nothing of the host anew
        self._steps: dict[tuple[int, int], int] = {}
        self._graphs: dict[tuple[int, int], tuple[Tensor, Callable[[], Tensor]]] = {}

    def __call__(self, index: Tensor, rows: Tensor, size: float | None = None) -> Tensor:
        shape = len(index), int(self.panel.lengths[index].max())
        if shape not in self._graphs:
            before = self._steps.get(shape, 0)
            if before < _STEPS_BEFORE or len(self._graphs) == _MOST_SHAPES:
                self._steps[shape] = before + 1
                return self._aside(lambda: TrainingStep.__call__(self, index, rows, size))
            held = rows.clone()

            def step() -> Tensor:
                total = self._gradients(index, held, len(index) if size is None else size)
                clip_and_update(self.optimizer, self.plan.max_grad_norm)
                return total

            self._graphs[shape] = held, self._capture(step)
        held, replay = self._graphs[shape]
        held.copy_(rows)
        return replay()

    def _capture(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Record the step without taking it; return what takes it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total = step()

        def replay() -> Tensor:
            graph.replay()
            return total.clone()  # the next replay writes over it

        return replay

    def _aside(self, step: Callable[[], Tensor]) -> Tensor:
        """Take the step on another stream, as capturing asks of what comes before it."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            total = step()
        torch.cuda.current_stream().wait_stream(aside)
        return total
