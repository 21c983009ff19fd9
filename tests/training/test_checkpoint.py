"""A training run that is killed resumes to exactly the weights it would have had."""

from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from process_settings import full_disk
from small_problem import (
    Stops,
    cross_entropy,
    equal,
    fit,
    make_model,
    make_panel,
    make_plan,
    make_run,
    weights_of,
    wrong_labels,
)
from torch import nn

from tsformer.augmentation import resolve
from tsformer.objectives import InputLayout, Masked
from tsformer.objectives.base import Pretext
from tsformer.training import Callback, History, NonFiniteLossError, TrainingPlan, train
from tsformer.training.checkpoint import CheckpointFile, fingerprint
from tsformer.training.plan import Pretrained

EPOCHS, STEPS_AN_EPOCH = 6, 5


def plan_in(folder: Path, **options):
    return make_plan(
        **{"n_epochs": EPOCHS, "checkpoint_dir": folder, "checkpoint_minutes": 0.0} | options
    )


def saved_at_end(folder: Path, **options):
    """Return a plan that saves one checkpoint, at the end: each takes some milliseconds."""
    return plan_in(folder, checkpoint_minutes=60.0, **options)


def test_resume_finds_its_own_checkpoint(tmp_path):
    first, again = make_model(), make_model()
    whole = fit(first, *make_panel(), saved_at_end(tmp_path / "new", resume=True))
    assert len(whole) == EPOCHS, "an empty folder is a beginning"
    history = fit(again, *make_panel(), saved_at_end(tmp_path / "new", resume=True))
    assert equal(weights_of(first), weights_of(again))
    assert list(history) == list(whole), "a run that ended is not repeated"
    repeated = fit(make_model(), *make_panel(), saved_at_end(tmp_path / "new"))
    assert repeated[0]["seconds"] != whole[0]["seconds"], "without resume it starts from scratch"
    plan = saved_at_end(tmp_path / "new", resume=True, seed=7)
    with pytest.warns(UserWarning, match="no checkpoint"):
        assert len(fit(make_model(), *make_panel(), plan)) == EPOCHS
    assert len(list(tmp_path.glob("new/training-*.pt"))) == 2


class Killed(Exception):
    """Ends a run in a step."""


def end_of_run(
    folder: Path, *, resume: bool, at_step=None, error=None, stops=False, validated=True
):
    """Return all that a run ends with; in a step it may raise an error, or lose its weights."""
    steps = 0

    def loss(outputs, targets):
        nonlocal steps
        steps += outputs.requires_grad
        if steps == at_step and error is not None:
            raise error
        return cross_entropy(outputs, targets) * (torch.nan if steps == at_step else 1.0)

    saves = saved_at_end if resume else plan_in
    plan = saves(folder, resume=resume, n_iter_no_change=50 if validated else None)
    model, history, message = make_model("tape"), History(), ""
    options = {"callbacks": [Stops(3)] if stops else [], "history": history}
    try:
        validation = wrong_labels() if validated else None
        train(model, *make_panel(), loss, plan, validation=validation, **options)
    except (Killed, NonFiniteLossError, ValueError, IndexError) as ended:
        message = str(ended)
    seconds = [row.pop("seconds") for row in (dict(row) for row in history[:3])]
    rows = [{**row, "seconds": 0.0} for row in history]
    weights = {name: x.tolist() for name, x in model.state_dict().items()}
    return repr((message, rows, history.best_epoch, weights)), seconds


def entries(state, path=()):
    """Yield the path of each value of a checkpoint; of several tensors in a dict, the first."""
    if not isinstance(state, (dict, list, tuple)):
        yield path
        return
    n_tensors = 0
    for key, value in state.items() if isinstance(state, dict) else enumerate(state):
        n_tensors += isinstance(value, torch.Tensor)
        if not (isinstance(value, torch.Tensor) and n_tensors > 1):
            yield from entries(value, (*path, key))


def changed(state, path):
    """Return a checkpoint with another value at the path."""
    if isinstance(state, dict):
        return {**state, path[0]: changed(state[path[0]], path[1:])}
    if isinstance(state, (list, tuple)):
        return [changed(x, path[1:]) if i == path[0] else x for i, x in enumerate(state)]
    if isinstance(state, bool):
        return not state
    if isinstance(state, torch.Tensor) and state.dtype == torch.uint8:
        return torch.Generator().manual_seed(99).get_state()
    return state + (100.0 if isinstance(state, float) else 1)


STOP, KEPT = ("position", "stop"), ("position", "kept")
KILLED = {"at_step": 18, "error": Killed()}


@pytest.mark.parametrize(
    ("begins", "ends", "n_spoilt", "covers"),
    [
        (KILLED, {}, 0, lambda path: path[:2] not in (STOP, KEPT) and "param_groups" not in path),
        ({"stops": True}, {}, 0, lambda path: path == STOP),
        *(  # weights that are not finite are not restored, so earlier ones are
            (
                KILLED | {"validated": False},
                {"at_step": 1, "validated": False},
                n,
                lambda path, n=n: path[:3] == (*KEPT, 2 - n),
            )
            for n in range(3)
        ),
    ],
    ids=["all", "stop", "newest", "earlier", "first"],
)
def test_a_changed_value_of_a_checkpoint_changes_the_end(begins, ends, n_spoilt, covers, tmp_path):
    """Or the checkpoint is refused: nothing is saved in vain, nothing that is saved is forgotten.

    The optimizer's options are not carried: they belong to the run that resumes.
    """
    end_of_run(tmp_path, resume=False, **begins)
    (path,) = tmp_path.glob("training-*.pt")
    saved = torch.load(path, weights_only=True)
    for _, weights in saved["position"]["kept"][3 - n_spoilt :]:
        weights["head.bias"].fill_(torch.nan)
    outcomes = {}
    covered = [entry for entry in entries(saved) if covers(entry)]
    for entry in [None, *covered]:
        if entry is not None and entry[:2] == ("optimizer", "state") and entry[2] > 0:
            continue
        torch.save(saved if entry is None else changed(saved, entry), path)
        outcomes[entry] = end_of_run(tmp_path, resume=True, **ends)
    assert len(outcomes) > 1
    assert [entry for entry in outcomes if entry and outcomes[entry] == outcomes[None]] == []


def test_fingerprint_differs_for_each_input():
    """Such as those of a grid search, which share a folder."""
    panel, targets = make_panel()
    half, zeros = torch.linspace(0.5, 1.5, 20), torch.zeros(2, 3)
    judged = wrong_labels()
    pretrained = [{"lr_scale": 1.0}, {"frozen": True}, {"lr_scale": 0.5}]
    runs = [make_run(), make_run(data=(panel, 1 - targets)), make_run(weights=half)]
    for options in pretrained:
        runs.append(make_run(plan=make_plan(pretrained=Pretrained(frozenset("a"), **options))))
    for changed_panel in (
        make_panel(seed=1)[0],
        replace(panel, mask=torch.arange(12).expand(20, 12) > 0),
        replace(panel, times=1.5 * torch.arange(12.0).expand(20, 12)),
        replace(panel, lengths=panel.lengths - 1),
    ):
        runs.append(make_run(data=(changed_panel, targets)))
    for judge in (
        *(judged, replace(judged, targets=1 - judged.targets), replace(judged, weights=half)),
        replace(judged, panel=make_panel(seed=2)[0]),
    ):
        runs.append(make_run(validation=judge))
    for name, x in (("a", zeros), ("a", zeros.mT), ("a", zeros.int()), ("b", zeros), ("a", half)):
        parameter = nn.Parameter(x, requires_grad=False)
        runs.append(make_run(torch.nn.ParameterDict({name: parameter})))
    for ratio in (0.1, 0.2):
        runs.append(make_run())
        runs[-1].loss = Pretext(Masked(ratio=ratio), InputLayout(2))
    assert len({fingerprint(run) for run in runs}) == len(runs)


#: Another value of each field of a plan that changes what is trained.
OTHER_PLAN = {
    **{"n_epochs": 9, "batch_size": 5, "learning_rate": 1e-3, "weight_decay": 0.2, "warmup": 0.2},
    **{"max_grad_norm": 2.0, "augmentation": resolve("warp"), "n_iter_no_change": 7},
    **{"pretrained": Pretrained(frozenset("a")), "bfloat16": True, "seed": 7, "design": "other"},
}
#: And of the fields that do not.
SAME_RUN = {
    **{"device": torch.device("meta"), "compile": True, "resume": True},
    **{"checkpoint_dir": Path("elsewhere"), "checkpoint_minutes": 1.0},
}


@pytest.mark.parametrize("name", [field.name for field in fields(TrainingPlan)])
def test_fingerprint_reads_each_field_of_plan(name):
    run = make_run()
    expected, value = fingerprint(run), (OTHER_PLAN | SAME_RUN)[name]
    run.state.plan = replace(run.state.plan, **{name: value})
    assert (fingerprint(run) == expected) == (name in SAME_RUN)


@pytest.mark.parametrize("how", ["some bytes", "a stretch of zeros", "cut off"])
def test_damaged_checkpoint_is_named(how, tmp_path):
    """Random damage, also such as torch itself does not notice, and would train on."""
    checkpoint = CheckpointFile(tmp_path, "run", 0.0)
    checkpoint.save({"weights": torch.arange(2000.0)})
    whole, rng = checkpoint.path.read_bytes(), np.random.default_rng(0)
    for _ in range(20):
        content = bytearray(whole)
        start = rng.integers(len(content))
        if how == "cut off":
            del content[start:]
        elif how == "a stretch of zeros":
            content[start : start + 2000] = bytes(len(content[start : start + 2000]))
        else:
            content[start] ^= int(rng.integers(1, 256))
        checkpoint.path.write_bytes(content)
        with suppress(ValueError):  # or it reads what was saved
            assert torch.equal(checkpoint.load()["weights"], torch.arange(2000.0))
    checkpoint.path.write_bytes(whole[:-1])
    with pytest.raises(ValueError):
        checkpoint.load()


@pytest.mark.parametrize("section", ["optimizer", "position", "history", "random", "model"])
def test_checkpoint_of_another_version_is_refused(section, tmp_path):
    fit(make_model(), *make_panel(), saved_at_end(tmp_path))
    (path,) = tmp_path.glob("training-*.pt")
    state = torch.load(path, weights_only=True)
    torch.save(state | {section: {"of": "another version"}}, path)
    model = make_model()
    before = weights_of(model)
    with pytest.raises(ValueError):
        fit(model, *make_panel(), saved_at_end(tmp_path, resume=True))
    assert equal(weights_of(model), before)


def test_full_disk_warns_and_retries(tmp_path):
    """The system refuses files of more than a thousand bytes, until the fourth epoch."""
    disk = ExitStack()
    straight, model = make_model(), make_model()
    fit(straight, *make_panel(), make_plan(n_epochs=EPOCHS))

    class Frees(Callback):
        def on_epoch_end(self, state):
            if state.epoch == 4:
                assert not list(tmp_path.iterdir()), "an unfinished file is left"
                disk.close()

    disk.enter_context(full_disk())
    with disk, pytest.warns(UserWarning) as warned:
        history = fit(model, *make_panel(), plan_in(tmp_path), callbacks=[Frees()])
    assert len(warned) == 4 * STEPS_AN_EPOCH
    assert equal(weights_of(model), weights_of(straight))
    resumed = fit(make_model(), *make_panel(), saved_at_end(tmp_path, resume=True))
    assert list(resumed) == list(history)


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


@pytest.mark.parametrize("validated", [False, True])
def test_resume_ends_like_the_whole_run(validated, tmp_path):
    whole, _ = end_of_run(tmp_path / "whole", resume=False, validated=validated)
    step = int(np.random.default_rng().integers(2, 31))
    killed = {"at_step": step, "error": Killed(), "validated": validated}
    end_of_run(tmp_path / "killed", resume=False, **killed)
    resumed, _ = end_of_run(tmp_path / "killed", resume=True, validated=validated)
    assert resumed == whole, f"killed in step {step}"
