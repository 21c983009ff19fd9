"""Captured steps: what is replayed, and when, as far as a machine without a GPU can test it."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_problem import equal, make_model, make_panel, make_plan, make_step, weights_of

from tsformer.data.panel import shuffled
from tsformer.training.cuda_graphs import GraphedStep, step_class
from tsformer.training.distributed import Ranks
from tsformer.training.loop import make_optimizer, set_learning_rate
from tsformer.training.plan import Pretrained
from tsformer.training.step import TrainingStep


class Replayed(GraphedStep):
    """Its graphs are the steps themselves, which reread the same held rows each time."""

    n_captured = n_watched = n_taken = 0

    def _capture(self, step):
        self.n_captured += 1
        return step

    def _on_side_stream(self, step):
        self.n_taken += 1
        return step()

    def _watched(self, step):
        self.n_watched += 1
        return step()


def steps_of(kind: type[TrainingStep], *, ragged: bool) -> tuple[dict, list[float], TrainingStep]:
    model, (panel, targets), plan = make_model(), make_panel(50, ragged=ragged), make_plan()
    if kind is TrainingStep:  # so that both draw the same dropout
        longest = torch.full_like(panel.lengths, panel.values.shape[1])
        panel = replace(panel.with_mask(), lengths=longest)
    torch.manual_seed(0)
    step = make_step(model, panel, targets, plan, kind=kind)
    generator, losses = torch.Generator().manual_seed(0), []
    for epoch in range(3):
        set_learning_rate(step.optimizer, 0.01 / (epoch + 1))
        losses += [step(i, i).item() for i in shuffled(len(panel), 4, generator)]
    return weights_of(model), losses, step


@pytest.mark.parametrize("ragged", [False, True])
def test_replayed_steps_are_the_steps(ragged):
    plain, losses, _ = steps_of(TrainingStep, ragged=ragged)
    replayed, again, step = steps_of(Replayed, ragged=ragged)
    assert losses == again
    assert equal(plain, replayed)
    # 50 series: batches of three and of four, all padded to the longest series.
    assert step.n_captured == 2
    assert step.n_taken == 6 < len(losses), "three plain steps before each capture"
    assert 1 <= step.n_watched <= 2
    assert (step.panel.mask is not None) == ragged, "a captured mask would stay"


@pytest.mark.parametrize(("size", "why"), [(1, "batch by batch"), (2, "several processes")])
def test_a_warning_says_why_steps_are_not_captured(size, why):
    """The data are on the CPU, as if they did not fit on the GPU."""
    panel, _ = make_panel()
    plan = make_plan(compile="cuda-graphs", device=torch.device("cuda"))
    with pytest.warns(UserWarning, match=why):
        assert step_class(plan, panel, Ranks(0, size)) is TrainingStep
    frozen = Pretrained(frozenset({"head.weight"}), frozen=True)
    with pytest.raises(ValueError):
        replace(plan, pretrained=frozen)


@pytest.mark.parametrize("graphed", [True, False])
def test_a_captured_step_reads_its_learning_rate_from_a_tensor(graphed):
    plan = make_plan()
    object.__setattr__(plan, "compile", graphed and "cuda-graphs")  # refused on a CPU
    optimizer = make_optimizer(make_model(), plan)
    set_learning_rate(optimizer, 0.5)
    for group in optimizer.param_groups:
        assert isinstance(group["lr"], torch.Tensor) == group["capturable"] == graphed
        assert float(group["lr"]) == 0.5


@pytest.mark.parametrize(
    ("does", "warned"),
    [
        (lambda: warnings.warn("of something else", stacklevel=1), "of something else"),
        (lambda: torch.rand(1), "sample random numbers on the CPU"),
        (lambda: np.random.rand(), "sample random numbers on the CPU"),  # noqa: NPY002
        (lambda: warnings.warn("called a synchronizing CUDA operation", stacklevel=1), __file__),
    ],
    ids=["warning", "torch", "numpy", "waits"],
)
def test_watched_step_warns_of_unrepeatable(does, warned, monkeypatch):
    """Torch warns of its debug mode first, which is nobody's business."""

    def mode(_):
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", mode)
    once = [does]

    class Watched(Replayed):
        _watched = GraphedStep._watched

        def _gradients(self, *args):
            if self.n_taken == 3 and once:
                once.pop()()
            return super()._gradients(*args)

    step = make_step(make_model("tape", dropout=0.0), *make_panel(8), make_plan(), kind=Watched)
    with pytest.warns(UserWarning, match=re.escape(warned)) as caught:
        take(step, *[4] * 5)
    assert len(caught) == 1
    assert bool(step.n_captured) == (warned == "of something else")


def take(step: TrainingStep, *sizes: int) -> None:
    """Take a step on batches of these sizes."""
    for size in sizes:
        step(torch.arange(size), torch.arange(size))


def test_graphs_many_shapes_warn_once():
    step = make_step(make_model(), *make_panel(50), make_plan(), kind=Replayed)
    with pytest.warns(UserWarning) as caught:
        take(step, *np.arange(1, 11).repeat(5))
    assert (len(caught), step.n_captured) == (1, 8)
