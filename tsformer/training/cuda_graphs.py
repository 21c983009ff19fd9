"""Whole training steps captured in CUDA graphs: one launch instead of hundreds."""

import functools
import pickle
import random
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tsformer._warnings import warn_caller
from tsformer.data.panel import AnyPanel, Panel, same_device
from tsformer.training.distributed import Ranks
from tsformer.training.inference import is_out_of_memory, released
from tsformer.training.plan import TrainingPlan
from tsformer.training.step import TrainingStep, clip_and_update

_STEPS_BEFORE = 3  # plain steps of a shape, which initialise libraries and the optimizer
_MOST_PADDING = 4  # largest ratio of padded to actual steps at which batches share one length
_MOST_SHAPES = 8  # each graph keeps its memory


class GraphedStep(TrainingStep):
    """Training steps replayed from CUDA graphs: small models spend their time launching kernels.

    A step is captured once for each batch shape, and replayed with other series. Panel and targets
    must be on the device. Steps fall back to plain steps, with a warning, if the model waits for
    the device (as ``.item()`` does), samples on the CPU, or if memory runs out.
    """

    def __post_init__(self, model: nn.Module) -> None:
        super().__post_init__(model)
        assert isinstance(self.panel, Panel)  # checked by `step_class`
        self.panel = _of_one_length(self.panel.with_mask())  # a captured step cannot read the host
        self._steps: Counter[tuple[int, int]] = Counter()
        self._graphs: dict[tuple[int, int], tuple[Tensor, Callable[[], Tensor]]] = {}
        self._captures = True

    def __call__(self, index: Tensor, rows: Tensor, *, number: int = 0) -> Tensor:
        if not self._captures:
            return super().__call__(index, rows, number=number)
        shape = len(index), int(self.panel.lengths[index].max())
        if shape in self._graphs:
            held, replay = self._graphs[shape]
            held.copy_(rows)
            return replay()
        before = self._steps[shape]
        if before < _STEPS_BEFORE or len(self._graphs) == _MOST_SHAPES:
            if before == _STEPS_BEFORE == max(self._steps.values()):  # warns once
                warn_caller(
                    f"{_NOT_CAPTURED}there are more than {_MOST_SHAPES} shapes of batches; "
                    "the others take plain steps"
                )
            self._steps[shape] += 1
            last = before == _STEPS_BEFORE - 1 and not self._graphs
            plain = partial(super().__call__, index, rows, number=number)
            return self._on_side_stream(partial(self._watched, plain) if last else plain)
        held = rows.clone()

        def step() -> Tensor:
            total = self._gradients(index, held, number)
            clip_and_update(self.optimizer, self.plan.max_grad_norm)
            return total

        try:
            captured = self._capture(step)
        except Exception as error:
            released(error)
            self._give_up("there is no memory for another graph")
        else:
            if captured is not None:
                self._graphs[shape] = held, captured
                return captured()
        return super().__call__(index, rows, number=number)

    def _capture(self, step: Callable[[], Tensor]) -> Callable[[], Tensor] | None:
        """Capture the step; return a function that replays it, or None."""
        graph = torch.cuda.CUDAGraph()
        device = self.panel.device  # has an index, unlike a plan's "cuda"
        before, draws = torch.cuda.current_stream(device), _states_of_the_cpu()
        try:
            # Other threads may use the device during the capture.
            side: Any = {"stream": _side_stream(device), "capture_error_mode": "thread_local"}
            with torch.cuda.device(device), torch.cuda.graph(graph, **side):
                total = step()
        except BaseException as error:
            with torch.cuda.device(device):  # an error leaves the side stream current
                torch.cuda.set_stream(before)
            # Graphs use memory of the driver, outside of torch's allocator.
            if is_out_of_memory(error) or "CUDA error: out of memory" in str(error):
                raise torch.OutOfMemoryError(str(error)) from error
            first = error.__context__  # hidden by the error at the end of the capture
            if isinstance(first, KeyboardInterrupt):
                raise first from None
            if not isinstance(error, RuntimeError):
                raise
            ran_out = first is not None and is_out_of_memory(first)
            memory = f" (memory ran out: {first})" if ran_out else ""
            raise RuntimeError(
                f"a training step cannot be captured in a CUDA graph: {error}{memory}. Set "
                "compile=False, in a new process, to take it one kernel at a time"
            ) from error
        # Augmentations and objectives are seeded outside of captures, so only this check sees them.
        if draws != _states_of_the_cpu():
            self._give_up(_DRAWS)
            return None

        def replay() -> Tensor:
            graph.replay()
            return total.clone()  # the next replay overwrites it

        return replay

    def _on_side_stream(self, step: Callable[[], Tensor]) -> Tensor:
        """Take the step on the capture stream, as captures require."""
        device = self.panel.device
        side, here = _side_stream(device), torch.cuda.current_stream(device)
        side.wait_stream(here)
        try:
            with torch.cuda.stream(side):
                return step()
        finally:
            here.wait_stream(side)

    def _watched(self, step: Callable[[], Tensor]) -> Tensor:
        """Take the step; disable captures if it waited for the device."""
        draws, mode = _states_of_the_cpu(), torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                total = step()
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        waits = ""
        for w in seen:
            if _WAITS in str(w.message):
                waits = waits or f"{w.filename}:{w.lineno}"
            elif _PROTOTYPE not in str(w.message):
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
        if waits:
            self._give_up(f"they wait for the device, as .item() does ({waits})")
        elif draws != _states_of_the_cpu():
            self._give_up(_DRAWS)
        return total

    def _give_up(self, reason: str) -> None:
        self._captures = False
        self._graphs.clear()
        torch.cuda.empty_cache()
        warn_caller(_NOT_CAPTURED + reason)


def _of_one_length(panel: Panel) -> Panel:
    """Pad all batches to one length, to share a graph, if affordable."""
    longest = panel.values.shape[1]
    affordable = len(panel) * longest <= _MOST_PADDING * int(panel.lengths.sum())
    return replace(panel, lengths=torch.full_like(panel.lengths, longest)) if affordable else panel


#: Warnings of torch's debug mode: an operation waits; the mode is a prototype.
_WAITS, _PROTOTYPE = "called a synchronizing CUDA operation", "Synchronization debug mode is"
_DRAWS = "they sample random numbers on the CPU, which a graph would repeat"
_NOT_CAPTURED = "steps are not captured in CUDA graphs, which would be faster: "


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the capture stream of a device; each costs 32 MiB."""
    return torch.cuda.Stream(device)


def _states_of_the_cpu() -> tuple[bytes, object, bytes]:
    """Return the states of the CPU's global generators."""
    states = np.random.get_state(legacy=False)  # noqa: NPY002 - read, and not drawn from
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), pickle.dumps(states)


def step_class(plan: TrainingPlan, panel: AnyPanel, ranks: Ranks) -> type[TrainingStep]:
    """Return the class of captured steps; warn and return plain steps if there can be none."""
    if ranks.size == 1 and same_device(panel.device, plan.device):
        return GraphedStep
    sent = f"the data do not fit on {plan.device} and are sent batch by batch"
    warn_caller(_NOT_CAPTURED + ("several processes share each step" if ranks.size > 1 else sent))
    return TrainingStep
