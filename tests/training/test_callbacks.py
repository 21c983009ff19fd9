"""Callbacks: when they are called, and the ones that come with the package."""

import pickle
import sys
from contextlib import nullcontext

import pytest
from small_problem import fit, make_model, make_panel, make_plan

from tsformer.training import Callback, History, ProgressBar
from tsformer.training.progress import ProgressHint


def run(*callbacks: Callback, n_epochs: int = 2) -> History:
    plan = make_plan(n_epochs=n_epochs, batch_size=8)
    return fit(make_model(stem="linear"), *make_panel(8), plan, callbacks=callbacks)


class Logs(Callback):
    def __init__(self, name: str, log: list[str], fails_at: str = ""):
        self.name, self.log, self.fails_at = name, log, fails_at

    def on_train_begin(self, state):
        assert state.epoch == 0
        self._note("begin")

    def on_epoch_end(self, state):
        assert state.history[-1]["epoch"] == state.epoch
        assert state.n_epochs == state.plan.n_epochs
        self._note(f"epoch{state.epoch}")

    def on_train_end(self, state):
        self._note("end")

    def _note(self, event: str):
        self.log.append(f"{event} {self.name}")
        if event == self.fails_at:
            raise RuntimeError


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


def test_a_closed_pipe_ends_the_lines_and_not_the_fit(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    assert len(run(ProgressBar())) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_fit_says_once_on_a_terminal_how_to_see_progress(capsys, monkeypatch, terminal):
    monkeypatch.setattr("tsformer.training.progress.SECONDS_WITHOUT_WORD", -1.0)
    monkeypatch.setattr(ProgressHint, "shown", False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    for _ in range(2):
        run(ProgressHint(), n_epochs=3)
    hint = "fit continues; verbose=1 shows progress\n"
    assert capsys.readouterr().err == (hint if terminal else "")


def test_lines_appear_during_training(capsys, monkeypatch):
    """One line every few seconds, the first and the last."""
    now, shown = [0.0], []
    monkeypatch.setattr("tsformer.training.progress.monotonic", lambda: now[0])

    class Looks(Callback):
        def on_epoch_end(self, state):
            state.history[-1].update(val_loss=0.5, val_score=0.75)
            shown.append(capsys.readouterr().err)
            now[0] += 4.0

    history = run(Looks(), bar := ProgressBar("one"), n_epochs=4)
    ends = [f"loss {row['loss']:.4f}  val_loss 0.5000  val_score 0.7500" for row in history]
    assert shown == ["epoch 0/4  one\n", "", f"epoch 2/4  one  {ends[1]}  0:00:08 left\n", ""]
    assert capsys.readouterr().err == f"epoch 4/4  one  {ends[3]}  0:00:00 left\n"
    pickle.dumps(bar)
