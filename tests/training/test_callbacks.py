"""Callbacks: when they are called, and the ones that come with the package."""

import pickle
import re
import sys
import time
from contextlib import nullcontext

import pytest
import torch
from small_problem import fit, make_plan
from torch import nn

from tsformer.data.panel import Panel
from tsformer.training import Callback, History, ProgressBar
from tsformer.training.progress import ProgressHint


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, mask=None, times=None):
        return self.layer(x.mean(1))


def run(*callbacks: Callback, n_epochs: int = 2) -> History:
    panel = Panel(torch.randn(8, 5, 3), torch.full((8,), 5))
    return fit(
        Flat(), panel, torch.arange(8) % 2, make_plan(n_epochs=n_epochs), callbacks=callbacks
    )


class Logs(Callback):
    def __init__(self, name: str, log: list[str], fails_at: str = "", error: type = RuntimeError):
        self.name, self.log, self.fails_at, self.error = name, log, fails_at, error

    def on_train_begin(self, state):
        assert state.epoch == 0
        self._note("begin")

    def on_epoch_end(self, state):
        assert state.history[-1]["epoch"] == state.epoch
        assert state.n_epochs == state.plan.n_epochs
        assert isinstance(state.model, Flat)
        self._note(f"epoch{state.epoch}")

    def on_train_end(self, state):
        self._note("end")

    def _note(self, event: str):
        self.log.append(f"{event} {self.name}")
        if event == self.fails_at:
            raise self.error


@pytest.mark.parametrize(
    ("fails_at", "expected"),
    [
        ("", "begin a, begin b, epoch1 a, epoch1 b, epoch2 a, epoch2 b, end b, end a"),
        ("begin", "begin a, begin b, end a"),
        ("epoch1", "begin a, begin b, epoch1 a, epoch1 b, end b, end a"),
        ("end", "begin a, begin b, epoch1 a, epoch1 b, epoch2 a, epoch2 b, end b, end a"),
    ],
)
def test_called_in_order_and_ended_like_nested_blocks(fails_at, expected):
    log = []
    with pytest.raises(RuntimeError) if fails_at else nullcontext():
        run(Logs("a", log), Logs("b", log, fails_at=fails_at))
    assert ", ".join(log) == expected


def test_stop_ends_training_after_this_epoch():
    class Stops(Callback):
        def on_epoch_end(self, state):
            state.stop = state.epoch == 3

    assert len(run(Stops(), n_epochs=10)) == 3


def test_history_as_a_frame():
    """Validation columns are there as soon as one epoch has them."""
    assert list(History().to_frame().columns) == ["loss", "lr", "seconds"]
    plain = {"epoch": 1, "loss": 1.0, "lr": 0.1, "seconds": 0.5}
    judged = plain | {"epoch": 2, "val_loss": 2.0, "val_score": 0.5}
    frame = History([plain, judged]).to_frame()
    assert frame.index.tolist() == [1, 2]
    assert frame["val_loss"].isna().tolist() == [True, False]
    assert frame.loc[2].tolist() == [1.0, 0.1, 0.5, 2.0, 0.5]


def test_progress_bar_in_a_terminal(capsys, monkeypatch):
    pytest.importorskip("rich", reason='the progress bar needs the extra "cli"')
    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = ProgressBar()
    history = run(bar)
    shown = capsys.readouterr()
    assert "2/2" in shown.err
    assert "\x1b[" in shown.err
    assert f"loss {history[-1]['loss']:.4f}" in shown.err
    assert shown.out == ""
    pickle.dumps(bar)


@pytest.mark.parametrize("rich", [True, False])
def test_progress_in_lines(capsys, monkeypatch, rich):
    if not rich:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr("tsformer.training.progress.SECONDS_BETWEEN_LINES", 600.0)
    bar = ProgressBar()
    history = run(bar)
    shown = capsys.readouterr()
    last = f"epoch 2/2  loss {history[-1]['loss']:.4f}  0:00:00 left"
    assert shown.err.splitlines() == ["epoch 0/2", last]
    assert shown.out == ""
    pickle.dumps(bar)


def test_a_closed_pipe_ends_the_lines_and_not_the_fit(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        flush = isatty = lambda self: False

    monkeypatch.setattr(sys, "stderr", Closed())
    assert len(run(ProgressBar())) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_fit_says_once_on_a_terminal_how_to_see_progress(capsys, monkeypatch, terminal):
    monkeypatch.setattr("tsformer.training.progress.SECONDS_WITHOUT_WORD", -1.0)
    monkeypatch.setattr(ProgressHint, "said", False)
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    for _ in range(2):
        run(ProgressHint(), n_epochs=3)
    said = "fit goes on; verbose=1 shows progress\n"
    assert capsys.readouterr().err == (said if terminal else "")


class Slow(Callback):
    """Lets each epoch take a while, and sees what was shown by then."""

    def __init__(self, capsys):
        self.capsys, self.shown = capsys, []

    def on_epoch_end(self, state):
        state.history[-1].update(val_loss=0.5, val_score=0.75)
        time.sleep(0.5)
        self.shown.append(self.capsys.readouterr().err)


def test_lines_appear_during_training(capsys, monkeypatch):
    monkeypatch.setattr("tsformer.training.progress.SECONDS_BETWEEN_LINES", 0.1)
    slow = Slow(capsys)
    run(slow, ProgressBar(), n_epochs=3)
    for epoch, shown in enumerate(slow.shown):
        assert f"epoch {epoch}/3" in shown
    assert "val_loss 0.5000  val_score 0.7500" in slow.shown[1]
    assert re.search(r"  0:00:0[012] left\n", slow.shown[2])
