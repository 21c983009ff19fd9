"""A training run that is killed resumes to exactly the weights it would have had."""

import hashlib
import io
import multiprocessing
import os
import resource
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from marks import exhaustive_except
from small_problem import (
    cross_entropy,
    equal,
    fit,
    make_model,
    make_panel,
    make_plan,
    weights_of,
    wrong_labels,
)

from tsformer.objectives import InputLayout, Masked
from tsformer.objectives.base import Pretext
from tsformer.training import Callback, History, train
from tsformer.training.checkpoint import Checkpointer, CheckpointFile, fingerprint
from tsformer.training.plan import Pretrained
from tsformer.training.run import LoopState, TrainingRun, TrainingState
from tsformer.training.step import OneProcess

EPOCHS, STEPS_AN_EPOCH = 6, 5


def plan_in(folder: Path, **options):
    return make_plan(
        **{"n_epochs": EPOCHS, "checkpoint_dir": folder, "checkpoint_minutes": 0.0} | options
    )


def saved_at_end(folder: Path, **options):
    """Return a plan that saves one checkpoint, at the end: each takes some milliseconds."""
    return plan_in(folder, checkpoint_minutes=60.0, **options)


#: With early stopping or without, of equal or unequal lengths.
KINDS = [(False, False), (False, True), (True, True)]


def train_until_killed(step: int, folder: Path, *, ragged: bool, validated: bool) -> None:
    """Train, and kill this process with SIGKILL in the middle of a step."""
    torch.set_num_threads(1)
    steps = 0

    def deadly(outputs, targets):
        nonlocal steps
        steps += outputs.requires_grad
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(outputs, targets)

    plan = plan_in(folder, n_iter_no_change=2 if validated else None)
    validation = wrong_labels() if validated else None
    train(make_model(), *make_panel(ragged=ragged), deadly, plan, validation=validation)


def killed_at(step: int, folder: Path, *, ragged: bool, validated: bool) -> None:
    # Spawned: a fork of a process in which tests before this one left threads (OpenMP's, MLflow's)
    # can wait for ever for a lock that one of them held.
    process = multiprocessing.get_context("spawn").Process(
        target=train_until_killed,
        args=(step, folder),
        kwargs={"ragged": ragged, "validated": validated},
    )
    process.start()
    process.join(timeout=300)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(("validated", "ragged"), exhaustive_except(KINDS, [True]))
def test_killed_at_a_random_step_it_ends_bit_for_bit_alike(validated, ragged, tmp_path):
    options = {"n_iter_no_change": 2} if validated else {}
    validation = {"validation": wrong_labels()} if validated else {}
    panel, targets = make_panel(ragged=ragged)
    straight = make_model()
    whole = fit(straight, panel, targets, make_plan(n_epochs=EPOCHS, **options), **validation)

    last = len(whole) * STEPS_AN_EPOCH
    step = int(np.random.default_rng().integers(2, last + 1))
    killed_at(step, tmp_path, ragged=ragged, validated=validated)
    resumed, steps = make_model(), 0

    def count(module, _):
        nonlocal steps
        steps += module.training

    handle = resumed.blocks[0].register_forward_pre_hook(count)
    history = fit(resumed, panel, targets, plan_in(tmp_path, resume=True, **options), **validation)
    handle.remove()
    assert steps == last - (step - 1), f"killed in step {step} of {last}"
    assert equal(straight.state_dict(), resumed.state_dict()), f"killed in step {step}"
    assert [row["loss"] for row in history] == [row["loss"] for row in whole]
    assert history.best_epoch == whole.best_epoch


def test_what_resume_goes_on_with(tmp_path):
    first, again = make_model(), make_model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = fit(first, *make_panel(), saved_at_end(tmp_path / "new", resume=True))
        assert len(whole) == EPOCHS, "an empty folder is a beginning"
        history = fit(again, *make_panel(), saved_at_end(tmp_path / "new", resume=True))
    assert equal(weights_of(first), weights_of(again))
    assert list(history) == list(whole), "a run that ended is not repeated"
    repeated = fit(make_model(), *make_panel(), saved_at_end(tmp_path / "new"))
    assert repeated[0]["seconds"] != whole[0]["seconds"], "without resume it starts from scratch"
    plan = saved_at_end(tmp_path / "new", resume=True, seed=7)
    with pytest.warns(UserWarning, match=r"no checkpoint of this training run .* 1 checkpoints th"):
        assert len(fit(make_model(), *make_panel(), plan)) == EPOCHS
    assert len(list(tmp_path.glob("new/training-*.pt"))) == 2


def test_the_best_weights_are_resumed(tmp_path):
    ends = []
    for resume in (False, True):
        model, plan = make_model(), saved_at_end(tmp_path, resume=resume, n_iter_no_change=2)
        history = fit(model, *make_panel(), plan, validation=wrong_labels())
        assert history.best_epoch < len(history)
        ends.append(weights_of(model))
    assert equal(*ends)


def test_the_options_of_the_optimizer_are_those_of_the_run_that_resumes(tmp_path):
    """A run on a GPU captured its steps, with the learning rate in a tensor; this one does not."""
    fit(make_model(), *make_panel(), saved_at_end(tmp_path))
    (path,) = tmp_path.glob("training-*.pt")
    state = torch.load(path, weights_only=True)
    for group in state["optimizer"]["param_groups"]:
        group |= {"lr": torch.tensor(5.0), "capturable": True}
    torch.save(state, path)
    seen = []

    class Looks(torch.optim.AdamW):
        def load_state_dict(self, state_dict):
            super().load_state_dict(state_dict)
            seen.extend((group["lr"], group["capturable"]) for group in self.param_groups)
            assert all("exp_avg" in self.state[p] for g in self.param_groups for p in g["params"])

    with mock.patch("torch.optim.AdamW", Looks):
        fit(make_model(), *make_panel(), saved_at_end(tmp_path, resume=True))
    assert seen == [(make_plan().learning_rate, False)] * 2


def file_name(plan=None, panel=None, targets=None, weights=None, validation=None, model=None):
    """Return the name of the checkpoint of a training run."""
    own_panel, own_targets = make_panel()
    state = TrainingState(model or make_model(), plan or make_plan(), History())
    run = TrainingRun(state, cross_entropy, validation)
    others = own_targets if targets is None else targets, weights
    at = LoopState(run, torch.Generator())
    made = Checkpointer(Path.cwd(), run, None, at, panel or own_panel, others, OneProcess())
    return made.file.path.name


def test_each_training_run_has_a_file_of_its_own(tmp_path, monkeypatch):
    """Such as those of a grid search, which share a folder."""
    monkeypatch.chdir(tmp_path)
    panel, targets = make_panel()
    half = torch.linspace(0.5, 1.5, 20)
    judged, trained = wrong_labels(), make_model()
    fit(trained, panel, targets, make_plan(n_epochs=1))
    pretrained = Pretrained(frozenset("a")), Pretrained(frozenset("a"), 0.5)
    others = [
        {},
        {"plan": make_plan(seed=7)},
        {"plan": make_plan(learning_rate=1e-3)},
        *({"plan": make_plan(pretrained=each)} for each in pretrained),
        {"panel": make_panel(seed=1)[0]},
        {"panel": replace(panel, mask=torch.arange(12).expand(20, 12) > 0)},
        {"panel": replace(panel, times=1.5 * torch.arange(12.0).expand(20, 12))},
        {"panel": replace(panel, lengths=panel.lengths - 1)},
        {"targets": 1 - targets},
        {"weights": half},
        {"model": trained},
        {"validation": judged},
        {"validation": replace(judged, targets=1 - judged.targets)},
        {"validation": replace(judged, weights=half)},
        {"validation": replace(judged, panel=make_panel(seed=2)[0])},
    ]
    assert len({file_name(**each) for each in others}) == len(others)
    assert file_name(plan=make_plan(device=torch.device("meta"), compile=True)) == file_name()
    zeros = torch.zeros(2, 3)
    weights = [{"a": zeros}, {"a": zeros.mT}, {"a": zeros.int()}, {"b": zeros}]
    assert len({fingerprint(make_plan(), each, [], []) for each in weights}) == 4
    tasks = [Pretext(Masked(ratio=ratio), InputLayout(2)) for ratio in (0.1, 0.2)]
    assert len({fingerprint(make_plan(), {}, [], [], task) for task in tasks}) == 2


@pytest.mark.parametrize("how", ["some bytes", "a stretch of zeros", "the start", "cut off"])
def test_whatever_is_damaged_the_message_names_the_file(how, tmp_path):
    """Random damage, also such as torch itself does not notice, and would train on."""
    fit(make_model(), *make_panel(), saved_at_end(tmp_path))
    (path,) = tmp_path.glob("training-*.pt")
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    checkpoint = CheckpointFile(tmp_path, path.stem.removeprefix("training-"), 0.0)
    read, refused = fingerprint_of(checkpoint.load()), 0
    for _ in range(40):
        content = bytearray(whole)
        if how == "cut off":
            del content[rng.integers(len(content)) :]
        elif how == "a stretch of zeros":
            start = rng.integers(len(content))
            content[start : start + 2000] = bytes(len(content[start : start + 2000]))
        else:
            within = 6000 if how == "the start" else len(content)
            for place in rng.integers(within, size=rng.integers(1, 20)):
                content[place] = rng.integers(256)
        path.write_bytes(content)
        try:
            state = checkpoint.load()
        except ValueError as error:
            refused += str(error).startswith(f"checkpoint {path} cannot be read (")
        else:
            assert fingerprint_of(state) == read, "what was read is not what was saved"
            refused += 1
    assert refused == 40


def fingerprint_of(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return hashlib.sha256(buffer.getvalue()).digest()


@pytest.mark.parametrize(
    "part",
    exhaustive_except(["optimizer", "position", "model", "random"], ["position", "random"]),
)
def test_a_file_of_another_version_is_refused(part, tmp_path):
    fit(make_model(), *make_panel(), saved_at_end(tmp_path))
    (path,) = tmp_path.glob("training-*.pt")
    state = torch.load(path, weights_only=True)
    torch.save(state | {part: {"of": "another version"}}, path)
    model = make_model()
    before = weights_of(model)
    with pytest.raises(ValueError, match=rf"{path.name} cannot be read .* delete it to start"):
        fit(model, *make_panel(), saved_at_end(tmp_path, resume=True))
    assert equal(weights_of(model), before)


def test_a_full_disk_is_a_warning_and_the_next_checkpoint_is_tried(tmp_path):
    """The system refuses files of more than a thousand bytes, until the fourth epoch."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    straight, model = make_model(), make_model()
    whole = fit(straight, *make_panel(), make_plan(n_epochs=EPOCHS))

    class Frees(Callback):
        def on_epoch_end(self, state):
            if state.epoch == 4:
                assert not list(tmp_path.iterdir()), "an unfinished file is left"
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        message = r"training-\w+.pt could not be written \(.*File too large\); train"
        with pytest.warns(UserWarning, match=message) as warned:
            history = fit(model, *make_panel(), plan_in(tmp_path), callbacks=[Frees()])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(warned) == 4 * STEPS_AN_EPOCH
    assert [row["loss"] for row in history] == [row["loss"] for row in whole]
    assert equal(weights_of(model), weights_of(straight))
    resumed = fit(make_model(), *make_panel(), saved_at_end(tmp_path, resume=True))
    assert list(resumed) == list(history)


def test_threads_that_save_the_same_run_do_not_meet(tmp_path):
    checkpoint = CheckpointFile(tmp_path, "same", 0.0)
    state = {"weights": torch.arange(10_000)}
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: checkpoint.save(state), range(40)))
    assert torch.equal(checkpoint.load()["weights"], state["weights"])
    assert os.listdir(tmp_path) == ["training-same.pt"]


@pytest.mark.parametrize(("minutes", "n_saved"), [(0.5, 31), (1.5, 11)])
def test_minutes_between_checkpoints(minutes, n_saved, tmp_path, monkeypatch):
    """Of 30 steps of half a minute each."""
    now, kept, save, due = [0.0], [], CheckpointFile.save, CheckpointFile.due
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("tsformer.training.checkpoint.time", clock)

    def later(file):
        now[0] += 30.0
        return due(file)

    monkeypatch.setattr(CheckpointFile, "due", later)
    monkeypatch.setattr(CheckpointFile, "save", lambda *args: (kept.append(1), save(*args)))
    fit(make_model(), *make_panel(), plan_in(tmp_path, checkpoint_minutes=minutes))
    assert len(kept) == n_saved
    assert len(list(tmp_path.iterdir())) == 1, "an unfinished file is left"


@pytest.mark.slow
def test_a_continued_history_resumes_too(tmp_path):
    """As with warm_start: the earlier epochs are the caller's, the later ones the checkpoint's."""
    ends = []
    for options in ({}, {"resume": True}):
        model, history = make_model(), History()
        fit(model, *make_panel(), make_plan(n_epochs=2), history=history)
        fit(model, *make_panel(), plan_in(tmp_path, **options), history=history)
        ends.append((weights_of(model), [row["epoch"] for row in history]))
    assert equal(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1] == list(range(1, 3 + EPOCHS))
