"""Captured steps: what is replayed, and when, as far as a machine without a GPU can test it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from small_problem import cross_entropy, equal, make_model, make_panel, make_plan, weights_of

from tsformer.data.batching import shuffled
from tsformer.data.panel import same_device
from tsformer.training import train
from tsformer.training.cuda_graphs import GraphedStep, step_class
from tsformer.training.optimizer import make_optimizer, set_learning_rate
from tsformer.training.step import TrainingStep


class Replayed(GraphedStep):
    """Its graphs are the steps themselves, which reread the same held rows each time."""

    captured = 0

    def _capture(self, step):
        self.captured += 1
        return step

    def _on_side_stream(self, step):
        return step()


def steps_of(kind: type[TrainingStep], *, ragged: bool) -> tuple[dict, list[float], TrainingStep]:
    model, (panel, targets), plan = make_model(), make_panel(50, ragged=ragged), make_plan()
    panel = (
        panel.with_mask() if kind is TrainingStep else panel
    )  # so that both draw the same dropout
    torch.manual_seed(0)
    step = kind(
        model.train(), make_optimizer(model, plan), panel, targets, None, cross_entropy, plan
    )
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
    assert step.captured == len(step._graphs) <= 8
    assert all(step._steps[shape] == 3 for shape in step._graphs), "three plain steps come first"
    assert sum(step._steps.values()) < len(losses), "and the others are replayed"
    if not ragged:  # 50 series: batches of three and of four
        assert set(step._graphs) == {(3, 12), (4, 12)}


def test_a_captured_step_has_a_mask_of_its_own():
    """A mask computed from lengths on the host would remain that of the captured batch."""
    *_, step = steps_of(Replayed, ragged=True)
    assert step.panel.mask is not None


def test_a_device_without_a_number_is_the_current_one():
    """A tensor sent to "cuda" reports "cuda:0"."""
    device = torch.device
    assert same_device(device("cuda:0"), device("cuda"))
    assert same_device(device("cuda:1"), device("cuda:1"))
    assert not same_device(device("cuda:1"), device("cuda:0"))
    assert not same_device(device("cpu"), device("cuda"))


@pytest.mark.parametrize("size", [1, 2])
def test_a_warning_says_why_steps_are_not_captured(size):
    """The data are on the CPU, as if they did not fit on the GPU."""
    model, (panel, targets) = make_model(), make_panel()
    cuda = torch.device("cuda")
    plan = SimpleNamespace(compile="cuda-graphs", device=cuda, augmentation=None)
    ranks = SimpleNamespace(size=size, rank=0, wrap=lambda model, device: model)
    why = "are sent batch by batch" if size == 1 else "several processes"
    with pytest.warns(UserWarning, match=f"not captured in CUDA graphs: .*{why}"):
        kind = step_class(plan, panel, ranks)
    step = kind(model, None, panel, targets, None, cross_entropy, plan, ranks)
    assert type(step) is TrainingStep
    assert step.may_cut == (size == 1)


def test_on_a_cpu_it_is_refused():
    with pytest.raises(ValueError, match=r"cuda-graphs.* needs a CUDA device; got cpu"):
        train(make_model(), *make_panel(), cross_entropy, make_plan(compile="cuda-graphs"))
