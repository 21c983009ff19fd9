"""Captured steps: what is replayed, and when, as far as a machine without a GPU can test it."""

import warnings
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_problem import equal, make_model, make_panel, make_plan, make_step, weights_of

from tsformer.data.panel import Panel, same_device, shuffled
from tsformer.training import cuda_graphs
from tsformer.training.cuda_graphs import GraphedStep, _of_one_length, step_class
from tsformer.training.distributed import Ranks
from tsformer.training.loop import make_optimizer, set_learning_rate
from tsformer.training.plan import Pretrained
from tsformer.training.step import TrainingStep


class Replayed(GraphedStep):
    """Its graphs are the steps themselves, which reread the same held rows each time."""

    captured = watched = 0

    def _capture(self, step):
        self.captured += 1
        return step

    def _on_side_stream(self, step):
        return step()

    def _watched(self, step):
        self.watched += 1
        return step()


def steps_of(kind: type[TrainingStep], *, ragged: bool) -> tuple[dict, list[float], TrainingStep]:
    model, (panel, targets), plan = make_model(), make_panel(50, ragged=ragged), make_plan()
    if kind is TrainingStep:  # so that both draw the same dropout
        panel = _of_one_length(panel.with_mask())
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
    assert step.captured == len(step._graphs) <= 8
    assert 1 <= step.watched <= len(step._graphs), "before the first capture"
    assert all(step._steps[shape] == 3 for shape in step._graphs), "three plain steps come first"
    assert sum(step._steps.values()) < len(losses), "and the others are replayed"
    assert (step.panel.mask is not None) == ragged, "a captured mask would stay"
    # 50 series: batches of three and of four, all padded to the longest series
    assert set(step._graphs) == {(3, 12), (4, 12)}


def test_one_long_series_does_not_lengthen_all_batches():
    panel, _ = make_panel(40, ragged=True)
    lengths = torch.full_like(panel.lengths, 2)
    lengths[0] = 12
    panel = Panel(panel.values, lengths).with_mask()
    assert _of_one_length(panel) is panel
    lengths = torch.full_like(panel.lengths, 4)
    padded = _of_one_length(Panel(panel.values, lengths).with_mask())
    assert padded.lengths.tolist() == [12] * 40
    assert padded.take(torch.arange(3))[1].sum(dim=1).tolist() == [4] * 3, "the mask stays"


def test_captures_need_all_parameters_trained():
    frozen = Pretrained(frozenset({"head.weight"}), frozen=True)
    with pytest.raises(ValueError, match="'cuda-graphs' needs all parameters trained"):
        make_plan(compile="cuda-graphs", device=torch.device("cuda"), pretrained=frozen)


def test_a_device_without_a_number_is_the_current_one():
    """A tensor sent to "cuda" reports "cuda:0"."""
    device = torch.device
    assert same_device(device("cuda:0"), device("cuda"))
    assert same_device(device("cuda:1"), device("cuda:1"))
    assert not same_device(device("cuda:1"), device("cuda:0"))
    assert not same_device(device("cpu"), device("cuda"))


@pytest.mark.parametrize(("size", "why"), [(1, "sent batch by batch"), (2, "several processes")])
def test_a_warning_says_why_steps_are_not_captured(size, why):
    """The data are on the CPU, as if they did not fit on the GPU."""
    panel, _ = make_panel()
    plan = make_plan(compile="cuda-graphs", device=torch.device("cuda"))
    with pytest.warns(UserWarning, match=why):
        assert step_class(plan, panel, Ranks(0, size)) is TrainingStep


@pytest.mark.parametrize("graphed", [True, False])
def test_a_captured_step_reads_its_learning_rate_from_a_tensor(graphed):
    plan = make_plan()
    object.__setattr__(plan, "compile", graphed and "cuda-graphs")  # refused on a CPU
    optimizer = make_optimizer(make_model(), plan)
    set_learning_rate(optimizer, 0.5)
    for group in optimizer.param_groups:
        assert isinstance(group["lr"], torch.Tensor) == group["capturable"] == graphed
        assert float(group["lr"]) == 0.5


def test_graphs_make_room_for_plain_steps(monkeypatch):
    """A graph keeps its memory, so that a batch of another shape has less."""
    plain, losses, _ = steps_of(TrainingStep, ragged=False)
    real = TrainingStep._gradients

    def beside_graphs(self, *args):
        if isinstance(self, GraphedStep) and self._graphs and not self._replaying:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(self, *args)

    class Full(Replayed):
        _replaying = False

        def _capture(self, step):
            def replay():
                self._replaying = True
                total = step()
                self._replaying = False
                return total

            return replay

    monkeypatch.setattr(TrainingStep, "_gradients", beside_graphs)
    with pytest.warns(UserWarning, match="no memory for steps beside the graphs") as caught:
        weights, again, step = steps_of(Full, ragged=False)
    assert len(caught) == 1
    assert not step._graphs
    assert losses == again
    assert equal(plain, weights)


SAMPLES = "they sample random numbers on the CPU"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda: None, ""),
        (lambda: warnings.warn("called a synchronizing CUDA operation", stacklevel=1), "they wait"),
        (lambda: torch.rand(1), SAMPLES),
        (lambda: np.random.rand(), SAMPLES),  # noqa: NPY002
        (lambda: warnings.warn("of something else", stacklevel=1), "of something else"),
    ],
)
def test_what_a_graph_would_not_repeat_is_seen(does, said, monkeypatch):
    """A step is watched as on a GPU, where torch warns of its debug mode first."""

    @contextmanager
    def mode(_):
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)
        yield

    monkeypatch.setattr(cuda_graphs, "_sync_debug_mode", mode)
    graphed = make_step(make_model(), *make_panel(8), make_plan(), kind=Replayed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert GraphedStep._watched(graphed, lambda: (does(), "total")[1]) == "total"
    assert len(caught) == bool(said)
    assert all(said in str(each.message) for each in caught)
    if said == "they wait":
        assert f"for the device, as .item() does ({__file__}" in str(caught[0].message)
    assert graphed._captures == (said in ("", "of something else"))
    if not said:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as pytest -W error: torch's own warning is nobody's
            GraphedStep._watched(graphed, does)


def test_more_shapes_than_graphs_are_said(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "_MOST_SHAPES", 1)
    with pytest.warns(UserWarning, match="more than 1 shapes of batches") as caught:
        *_, step = steps_of(Replayed, ragged=False)
    assert len(caught) == len(step._graphs) == 1
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        for size in [1, 2] * 5:
            step(torch.arange(size), torch.arange(size))
    assert not again, "once is enough"


@pytest.mark.parametrize("error", [None, KeyboardInterrupt("stop")])
def test_the_side_stream_waits_and_is_waited_for(error, monkeypatch):
    """Also after an error: what is on the way would change the weights beside what comes next."""
    order = []
    side, here = SimpleNamespace(name="side"), SimpleNamespace(name="here")
    for stream in (side, here):
        stream.wait_stream = lambda other, own=stream: order.append((own.name, other.name))
    monkeypatch.setattr(cuda_graphs, "_side_stream", lambda _: side)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: here)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    graphed = make_step(make_model(), *make_panel(8), make_plan(), kind=Replayed)

    def taken():
        order.append("step")
        if error is not None:
            raise error
        return "total"

    with nullcontext() if error is None else pytest.raises(KeyboardInterrupt):
        assert GraphedStep._on_side_stream(graphed, taken) == "total"
    assert order == [("side", "here"), "step", ("here", "side")]


def hidden(first: BaseException) -> RuntimeError:
    """Return the error that the end of a capture raises over another one."""
    try:
        try:
            raise first
        finally:
            raise RuntimeError("operation failed due to an invalidated capture")
    except RuntimeError as error:
        return error


@pytest.fixture
def streams(monkeypatch):
    """Let captures run as plain steps; return the streams that were made the current one."""
    for name in ("graph", "device"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: "before")
    monkeypatch.setattr(cuda_graphs, "_side_stream", lambda _: None)
    streams = []
    monkeypatch.setattr(torch.cuda, "set_stream", streams.append)
    return streams


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), None),
        (RuntimeError("CUDA error: out of memory"), None),
        (ValueError("of the user"), r"^of the user$"),
        (RuntimeError("no kernel"), r"cannot be captured.*no kernel.*compile=False"),
        (hidden(ValueError("of the user")), r"cannot be captured.*invalidated.*compile=False"),
        (hidden(torch.OutOfMemoryError("out")), r"memory ran out while.*\(out\).*new process"),
        (hidden(KeyboardInterrupt("stop")), "^stop$"),
    ],
)
def test_an_error_in_a_capture_says_what_to_do(inside, message, streams, monkeypatch):
    def fails(self, *args):
        raise inside

    class Fails(Replayed):
        """Its capture is that of CUDA, and after it a plain step has the memory of the graphs."""

        _capture = GraphedStep._capture

        def _give_up(self, reason):
            monkeypatch.setattr(TrainingStep, "_gradients", real)
            super()._give_up(reason)

    step = make_step(make_model(), *make_panel(8), make_plan(), kind=Fails)
    index = torch.arange(4)
    for _ in range(3):
        step(index, index)
    real = TrainingStep._gradients
    monkeypatch.setattr(TrainingStep, "_gradients", fails)
    if message is None:
        with pytest.warns(UserWarning, match="there is no memory for another graph"):
            step(index, index)
    else:
        with pytest.raises(BaseException, match=message) as raised:
            step(index, index)
        assert raised.value.__cause__ is not raised.value
    assert streams == ["before"], "the stream of the capture is not left to the program"


def test_draws_of_an_augmentation_on_the_cpu_are_seen_in_the_capture(streams):
    """Outside of it the step seeds them, and gives back the state that it found."""
    step = make_step(make_model(), *make_panel(8), make_plan(), kind=Replayed)
    with pytest.warns(UserWarning, match="they sample random numbers on the CPU"):
        assert GraphedStep._capture(step, lambda: torch.rand(1)) is None
    assert not step._captures
    assert callable(GraphedStep._capture(step, lambda: None))
