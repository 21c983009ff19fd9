"""Checks of the package on a GPU, each a function of the device.

The tests marked `cuda` call them, and so does `run.py`, which needs no pytest. On the CPU they
rehearse: CUDA features are simulated, or raise `NotHere`. Each takes about a second on a GPU.
"""

from __future__ import annotations

import copy
import gc
import importlib.util
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tsformer
from tsformer import (
    ModelConfig,
    RandomConvolutionClassifier,
    TSTransformer,
    TSTransformerClassifier,
    TSTransformerEncoder,
    TSTransformerRegressor,
)
from tsformer.augmentation import names as augmentation_names
from tsformer.augmentation import resolve as resolve_augmentation
from tsformer.data.panel import Panel, same_device
from tsformer.encodings import names
from tsformer.model.layers import attend
from tsformer.training import Callback, History, TrainingPlan, forward, train
from tsformer.training.step import TrainingStep

__all__ = ["CHECKS", "NotHere"]

#: Largest difference from float64 on the CPU, relative to the norm. By default
#: cuDNN convolves float32 in TF32, which has as many bits as float16.
TOLERANCE = {"float32": 1e-2, "bfloat16": 1e-1}
CPU = torch.device("cpu")
MIB = 2**20


class NotHere(Exception):
    """A check says nothing on this device, and why."""


# Small problems


def panel_of(n: int = 24, length: int = 20, *, ragged: bool = False) -> tuple[Panel, Tensor]:
    """Return rising and falling series of two channels, in float64, and their classes."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(n) % 2
    slope = torch.linspace(-1, 1, length)[None, :, None] * (2 * targets - 1)[:, None, None]
    values = slope + 0.3 * torch.randn(n, length, 2, generator=generator)
    lengths = torch.full((n,), length)
    if ragged:
        lengths = torch.randint(length // 2, length + 1, (n,), generator=generator)
    values = values.where((torch.arange(length) < lengths[:, None])[..., None], 0.0)
    return Panel(values.double(), lengths), targets


def series_of(n: int = 24, length: int = 30) -> tuple[Any, Any]:
    panel, targets = panel_of(n, length)
    return panel.values.transpose(1, 2).float().numpy(), targets.numpy()


def model_of(encoding: str = "tape+erpe", seed: int = 0, **config: Any) -> TSTransformer:
    """Return a model without dropout, whose weights depend on the seed alone."""
    torch.manual_seed(seed)
    sizes = {"n_channels": 2, "n_outputs": 2, "max_len": 20, "d_model": 16, "n_heads": 2}
    if encoding == "cape":  # without the draws of its own
        config["encoding_params"] = {"max_shift": 0.0, "max_jitter": 0.0, "max_scale": 1.0}
    if encoding == "lspe":
        config["encoding_params"] = {"dropout": 0.0}
    defaults = {"encoding": encoding, "n_layers": 2, "dropout": 0.0, "head_norm": "batch"}
    return TSTransformer(ModelConfig(**{**sizes, **defaults, **config}))


def plan_for(device: torch.device, **options: Any) -> TrainingPlan:
    defaults = {"n_epochs": 3, "batch_size": 5, "learning_rate": 5e-3, "weight_decay": 0.01}
    return TrainingPlan(**{**defaults, "device": device, "seed": 0, **options})


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def close(ours: Tensor, expected: Tensor, tolerance: float, label: str, least: float = 0) -> float:
    """Return the relative difference of two tensors; raise AssertionError if it is too large."""
    ours, expected = ours.detach().cpu().double(), expected.detach().cpu().double()
    assert ours.shape == expected.shape, f"{label}: {ours.shape} is not {expected.shape}"
    assert ours.isfinite().all(), f"{label} are not finite"
    apart = float((ours - expected).norm() / max(float(expected.norm()), least, 1e-12))
    assert apart <= tolerance, f"{label} differ by {apart:.2g} of their norm, more than {tolerance}"
    return apart


def same_model(ours: nn.Module, expected: nn.Module, tolerance: float, label: str) -> None:
    theirs = dict(expected.named_parameters())
    for name, value in ours.named_parameters():
        close(value, theirs[name], tolerance, f"the parameters {name} {label}", least=0.1)


def trained(
    model: nn.Module, device: torch.device, *, ragged: bool = False, **options: Any
) -> list[float]:
    """Train a model in float64, and return the losses of its epochs."""
    panel, targets = panel_of(ragged=ragged)
    history = train(model.double(), panel, targets, cross_entropy, plan_for(device, **options))
    return [row["loss"] for row in history]


# Encodings


def gradients(
    model: TSTransformer, inputs: tuple[Tensor, ...], *, bfloat16: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the outputs, and the gradients by name of their sum with fixed signs."""
    device = inputs[0].device
    with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
        outputs = model(*inputs)
    signs = torch.ones_like(outputs)
    signs[::2, 0] = -1
    (outputs * signs).sum().backward()
    return outputs, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def encoding_agrees(device: torch.device, *, encoding: str, precision: str) -> str:
    """Forward and backward match float64 on the CPU, with padding and irregular times."""
    model = model_of(encoding, d_model=32, n_heads=4, max_len=40).double().eval()
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([40, 25, 31, 40, 7, 12])
    x = torch.randn(6, 40, 2, generator=generator)
    mask = torch.arange(40) < lengths[:, None]
    times = torch.arange(40.0) + 0.3 * torch.rand(6, 40, generator=generator)
    copied = copy.deepcopy(model).float().to(device)
    expected, wanted = gradients(model, (x.double(), mask, times.double()), bfloat16=False)
    inputs = (x.to(device), mask.to(device), times.to(device))
    outputs, ours = gradients(copied, inputs, bfloat16=precision == "bfloat16")
    assert same_device(outputs.device, device)
    assert ours.keys() == wanted.keys()
    tolerance = TOLERANCE[precision]
    forwards = close(outputs, expected, tolerance, "outputs")
    whole, all_of_it = (torch.cat([g[n].cpu().flatten() for n in wanted]) for g in (ours, wanted))
    backwards = close(whole, all_of_it, tolerance, "gradients")
    norm = float(all_of_it.norm())
    largest = 0.0
    for name in wanted:
        if name.startswith("encoding."):
            least = 0.05 * norm  # what hardly matters may be rounding
            largest = max(largest, close(ours[name], wanted[name], 2 * tolerance, name, least))
    return f"outputs {forwards:.1e}, gradients {backwards:.1e}, of the encoding {largest:.1e}"


def fused_kernels_are_used(device: torch.device, *, encoding: str) -> str:
    """A step computes no attention by plain arithmetic, in any precision."""
    used: set[str] = set()
    # On a CPU torch has no fused gradient of a trained bias in 16 bits.
    for bfloat16 in (False, True) if device.type == "cuda" else (False,):
        for ragged in (False, True):
            model = model_of(encoding).to(device).train()
            panel, _ = panel_of(8, ragged=ragged)
            x, mask, _ = (
                replace(panel, values=panel.values.float()).to(device).take(torch.arange(8))
            )
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
                with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                    outputs = model(x, mask)
                outputs.float().sum().backward()
            here = {op.key for op in seen.key_averages() if "_scaled_dot_product" in op.key}
            plain = {op for op in here if "math" in op}
            how = f"in {'bfloat16' if bfloat16 else 'float32'}{', padded' if ragged else ''}"
            assert not plain, f"{how} attention of {encoding} is not fused: {sorted(plain)}"
            forwards = {op for op in here if "backward" not in op}
            assert forwards, f"{how} no fused attention was seen"
            assert here - forwards, f"{how} no fused gradient was seen"
            used |= {op.removeprefix("aten::_scaled_dot_product_") for op in forwards}
    return ", ".join(sorted(used))


# Steps


@contextmanager
def waits_are_errors(device: torch.device) -> Iterator[None]:
    if device.type != "cuda":
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def steps_do_not_wait(device: torch.device, *, encoding: str, augmentation: str = "") -> str:
    """No step reads a value back, or copies one to the device without page-locked memory."""
    real = TrainingStep.__call__
    steps = 0

    def strict(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        nonlocal steps
        steps += 1
        with waits_are_errors(device):
            return real(self, *args, **kwargs)

    chosen = resolve_augmentation(augmentation) if augmentation else None
    with mock.patch.object(TrainingStep, "__call__", strict):
        for bfloat16 in (False, True):
            for ragged in (False, True):
                panel, targets = panel_of(ragged=ragged)
                panel = replace(panel, values=panel.values.float())
                plan = plan_for(device, n_epochs=1, bfloat16=bfloat16, augmentation=chosen)
                train(model_of(encoding, dropout=0.1), panel, targets, cross_entropy, plan)
    assert steps == 4 * 5, steps
    return "" if device.type == "cuda" else "a CPU waits for nothing: only the steps were taken"


def graphs_are_the_steps(device: torch.device, *, ragged: bool) -> str:
    """Steps replayed from CUDA graphs end in the weights of steps that are taken."""
    if device.type != "cuda":
        raise NotHere("CUDA graphs need a CUDA device; tests/training/test_cuda_graphs.py has more")
    plain, graphed = model_of(), model_of()
    losses = trained(plain, device, ragged=ragged, n_epochs=6)
    with graphs_are_used():
        again = trained(graphed, device, ragged=ragged, n_epochs=6, compile="cuda-graphs")
    assert np.allclose(losses, again, rtol=1e-4), f"losses {again} are not {losses}"
    same_model(graphed, plain, 1e-4, "of replayed steps")
    return ""


def graphs_draw_anew(device: torch.device, *, dropout: float, augmentation: str) -> str:
    """A replayed step draws other dropout or other augmentations each time."""
    if device.type != "cuda":
        raise NotHere("CUDA graphs need a CUDA device")
    panel, targets = panel_of(20)
    panel = replace(panel, values=panel.values.float())
    chosen = resolve_augmentation(augmentation) if augmentation else None
    plan = plan_for(
        device,
        n_epochs=8,
        batch_size=20,  # one step an epoch, on the same series
        learning_rate=1e-12,  # the weights stay: losses differ by the draws alone
        weight_decay=0.0,
        compile="cuda-graphs",
        bfloat16=True,
        augmentation=chosen,
    )
    with graphs_are_used():
        history = train(model_of(dropout=dropout), panel, targets, cross_entropy, plan)
    losses = [row["loss"] for row in history]
    replayed = np.array(losses[4:])
    assert np.isfinite(losses).all(), losses
    assert np.diff(np.sort(replayed)).min() > 1e-5, f"replayed steps draw the same: {losses}"
    return ""


class Waits(nn.Module):
    """A model that reads a value back in its forward pass, as a user's encoding may."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = model_of()

    def forward(self, x: Tensor, mask: Tensor | None, times: Tensor | None) -> Tensor:
        outputs: Tensor = self.inner(x, mask, times)
        return outputs if float(x.abs().max().item()) > 0 else 0 * outputs


def what_waits_is_not_captured(device: torch.device) -> str:
    """A model that cannot be captured takes plain steps, to the same weights, and a warning."""
    if device.type != "cuda":
        raise NotHere("CUDA graphs need a CUDA device")
    plain, waits = model_of(), Waits()
    losses = trained(plain, device, n_epochs=4)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        again = trained(waits, device, n_epochs=4, compile="cuda-graphs")
    assert_warned(seen, "they wait for the device")
    assert np.allclose(losses, again, rtol=1e-4), f"losses {again} are not {losses}"
    same_model(waits.inner, plain, 1e-4, "of what waits")
    return ""


def graphs_give_their_memory_back(device: torch.device) -> str:
    """After a run with graphs no more is held than after the first one, which libraries share."""
    if device.type != "cuda":
        raise NotHere("CUDA graphs need a CUDA device")
    held = []
    for _ in range(3):
        with graphs_are_used():
            trained(model_of(), device, ragged=True, n_epochs=6, compile="cuda-graphs")
        gc.collect()
        torch.cuda.empty_cache()
        held.append((torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)))
    (first, _), *_, (last, reserved) = held
    assert last - first < MIB, f"{(last - first) / MIB:.0f} MiB more after each: {held}"
    return f"{last / MIB:.0f} MiB are held, {reserved / MIB:.0f} MiB reserved"


# Memory


@contextmanager
def limited(device: torch.device, n_bytes: float) -> Iterator[None]:
    """Let this process have so much of a GPU's memory, inside the block."""
    gc.collect()
    torch.cuda.empty_cache()
    index = torch.cuda.current_device() if device.index is None else device.index
    total = torch.cuda.get_device_properties(index).total_memory
    torch.cuda.set_per_process_memory_fraction(min(n_bytes / total, 1.0), index)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, index)


def peak_of(device: torch.device, call: Callable[[], object]) -> tuple[float, float]:
    """Return the bytes reserved before a call, and the peak it adds.

    A limit counts reserved memory, including unused parts of blocks.
    """
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
    call()
    torch.cuda.synchronize(device)
    return reserved, torch.cuda.max_memory_allocated(device) - before


def assert_warned(seen: list[warnings.WarningMessage], *texts: str) -> None:
    messages = [str(w.message) for w in seen]
    matching = any(text in message for text in texts for message in messages)
    assert matching, f"no warning says {' or '.join(map(repr, texts))}: {messages}"


def runs_out_once(kind: type, method: str, too_many: Callable[..., bool]) -> Any:
    """Return a patch that lets a method run out of memory where it is given too many series."""
    real = getattr(kind, method)

    def narrow(self: Any, *args: Any, **kwargs: Any) -> Any:
        if too_many(self, *args):
            raise torch.OutOfMemoryError("simulated")
        return real(self, *args, **kwargs)

    return mock.patch.object(kind, method, narrow)


def wide_model(seed: int = 0) -> TSTransformer:
    """Return a model with most of its memory in the blocks."""
    sizes = {"max_len": 512, "d_model": 64, "n_heads": 4, "n_layers": 4, "head_norm": None}
    return model_of("tape", seed, stem="linear", **sizes)


def a_batch_that_does_not_fit_names_its_size(device: torch.device) -> str:
    small = device.type != "cuda"
    panel, targets = panel_of(8, 20) if small else panel_of(64, 512)
    panel = replace(panel, values=panel.values.float())
    plan = plan_for(device, n_epochs=2, batch_size=len(panel), learning_rate=1e-3)
    make = model_of if small else wide_model

    def fit() -> History:
        return train(make(), panel, targets, cross_entropy, plan)

    note = "simulated"
    if small:
        fewer = runs_out_once(TrainingStep, "_gradients", lambda *_: True)
    else:
        fit()  # what libraries allocate and keep is no need of the next
        before, needed = peak_of(device, fit)
        fewer = limited(device, before + 0.5 * needed + 32 * MIB)
        note = f"with half of {needed / MIB:.0f} MiB"
    message = "no error"
    with fewer:
        try:
            fit()
        except MemoryError as error:
            message = str(error)
    assert "choose a smaller batch_size" in message, message
    return note


def graphs_that_do_not_fit_are_given_up(device: torch.device) -> str:
    """With memory for one graph and two sizes of batches, plain steps go on from the same weights.

    This was added after the last run that is committed.
    """
    if device.type != "cuda":
        raise NotHere(
            "CUDA graphs need a CUDA device; tests/training/test_cuda_graphs.py simulates"
        )
    panel, targets = panel_of(127, 512)  # batches of 64 and 63
    panel = replace(panel, values=panel.values.float())
    options: dict[str, Any] = {"n_epochs": 5, "batch_size": 64, "learning_rate": 1e-3}

    def fit(model: nn.Module, **changes: Any) -> list[float]:
        plan = plan_for(device, **options, **changes)
        return [row["loss"] for row in train(model, panel, targets, cross_entropy, plan)]

    fit(wide_model())
    losses: list[float] = []
    before, needed = peak_of(device, lambda: losses.extend(fit(wide_model())))
    with (
        limited(device, before + 1.4 * needed + 32 * MIB),
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("always")
        again = fit(wide_model(), compile="cuda-graphs")
    reasons = ("there is no memory for another graph", "for steps beside the graphs")
    assert_warned(seen, *reasons)
    torch.rand(1, device=device)  # a generator that is left in a capture would raise
    assert np.allclose(losses, again, rtol=1e-2), f"losses {again} are not {losses}"
    return f"with 140 % of {needed / MIB:.0f} MiB"


def a_prediction_that_does_not_fit_is_halved(device: torch.device) -> str:
    if device.type != "cuda":
        raise NotHere("a CPU cannot be given less memory; tests/training/test_loop.py simulates")
    model = wide_model().to(device).eval()
    panel, _ = panel_of(256, 512)
    panel = replace(panel, values=panel.values.float()).to(device)
    forward(model, panel)  # as above
    outputs: list[Tensor] = []
    before, needed = peak_of(device, lambda: outputs.append(forward(model, panel)))
    with limited(device, before + 0.5 * needed + 16 * MIB):
        outputs.append(forward(model, panel))
    close(outputs[1], outputs[0], 1e-2, "outputs")
    return f"with half of {needed / MIB:.0f} MiB"


def attention_holds_no_matrix_of_scores(device: torch.device) -> str:
    """In a forward and a backward pass, peak memory stays below one matrix of all scores."""
    if device.type != "cuda":
        raise NotHere("torch does not count the memory of a CPU")
    B, H, N, E = 4, 4, 4096, 16
    matrix = 2 * B * H * N * N  # bytes in bfloat16
    q, k, v = (
        torch.randn(B, H, N, E, device=device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )

    def once() -> None:
        attend(q, k, v, None, None, E**-0.5).sum().backward()

    _, used = peak_of(device, once)
    assert used < matrix / 2, f"{used / MIB:.0f} MiB were used; all scores take {matrix / MIB:.0f}"
    return f"{used / MIB:.0f} MiB; all scores take {matrix / MIB:.0f}"


@contextmanager
def graphs_are_used() -> Iterator[None]:
    """Fail if plain steps replace captured steps, which would pass the same checks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*not captured in CUDA graphs", UserWarning)
        yield


# Whole fits


class Stops(Callback):
    """Interrupts training after an epoch, as Ctrl-C does."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def on_epoch_end(self, state: Any) -> None:
        if state.epoch == self.epoch:
            raise KeyboardInterrupt


def a_checkpoint_moves(device: torch.device, *, to_device: bool, graphs: bool = False) -> str:
    """A run begun on one device is resumed on the other, to the weights of an unbroken one."""
    if graphs and device.type != "cuda":
        raise NotHere("CUDA graphs need a CUDA device")
    first, second = (CPU, device) if to_device else (device, CPU)
    kind = {d: "cuda-graphs" if graphs and d is device else False for d in (CPU, device)}
    panel, targets = panel_of()
    straight, moved = model_of().double(), model_of().double()
    whole = train(straight, panel, targets, cross_entropy, plan_for(CPU, n_epochs=6))
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"n_epochs": 6, "checkpoint_dir": Path(folder)}
        options["checkpoint_minutes"] = 0.0
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "training was interrupted")
            train(
                model_of().double(),
                panel,
                targets,
                cross_entropy,
                plan_for(first, compile=kind[first], **options),
                callbacks=[Stops(3)],
            )
        plan = plan_for(second, resume=True, compile=kind[second], **options)
        history = train(moved, panel, targets, cross_entropy, plan)
    losses, expected = ([row["loss"] for row in rows] for rows in (history, whole))
    assert len(losses) == 6, f"{len(losses)} epochs"
    assert np.allclose(losses, expected, rtol=1e-3), f"losses {losses} are not {expected}"
    same_model(moved, straight, 1e-3, f"resumed on {second}")
    return ""


def data_on_the_host_train_alike(device: torch.device) -> str:
    """Series too large for the device are sent batch by batch."""
    ends = []
    for exceeds in (False, True):
        model = model_of()
        pinned = mock.patch.object(Panel, "pinned", Panel.pinned if _has_gpu() else lambda p: p)
        share = -1.0 if exceeds else 1.0
        there = mock.patch("tsformer.training.inference._SHARE_OF_DATA", share)
        with pinned, there:
            trained(model, device, ragged=True)
        ends.append(model)
    same_model(ends[1], ends[0], 1e-6, "of data on the host")
    return ""


def series_in_a_file_train_alike(device: torch.device) -> str:
    """Series read from a file in batches give the same model as in memory."""
    X, y = series_of()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, X)
        options: dict[str, Any] = {"max_epochs": 2, "random_state": 0, "precision": "float32"}
        models = [
            TSTransformerClassifier(d_model=16, n_heads=2, device=device, **options).fit(data, y)
            for data in (X, path)
        ]
        ours, expected = (
            torch.from_numpy(model.predict_proba(data))
            for model, data in zip(models, (path, X), strict=True)
        )
    close(ours, expected, 1e-2, "probabilities")
    return ""


def _has_gpu() -> bool:
    return torch.cuda.is_available()


def estimator_works(device: torch.device, *, kind: str) -> str:
    """An estimator fits and predicts on the device, and predicts alike where it is unpickled."""
    X, y = series_of()
    small: dict[str, Any] = {"d_model": 16, "n_heads": 2, "max_epochs": 2, "random_state": 0}
    small |= {"device": device}
    target: Any = y
    estimator: Any
    if kind == "classifier":
        estimator = TSTransformerClassifier(**small, early_stopping=True)
    elif kind == "members":
        estimator = TSTransformerClassifier(**small, n_estimators=3)
    elif kind == "regressor":
        estimator, target = TSTransformerRegressor(**small), X.mean(axis=(1, 2))
    elif kind == "random convolutions":
        estimator = RandomConvolutionClassifier(n_features=168, random_state=0, device=device)
    elif kind.startswith("pretrained"):
        encoder = TSTransformerEncoder(objective=kind.partition(", ")[2], **small).fit(X)
        estimator = TSTransformerClassifier(**small, init_from=encoder)
    else:  # of codes
        X = (X > 0).astype(int)[:, :1]
        estimator = TSTransformerClassifier(**small, stem="embedding")
    with graphs_are_used():
        estimator.fit(X, target)
    assert same_device(estimator.device_, device), estimator.device_
    predict = getattr(estimator, "predict_proba", estimator.predict)
    predictions = torch.from_numpy(np.asarray(predict(X)))
    assert predictions.isfinite().all()
    with mock.patch("tsformer.estimators.saving.resolve_device", return_value=CPU):
        twin = pickle.loads(pickle.dumps(estimator))
    assert twin.device_ == CPU
    again = getattr(twin, "predict_proba", twin.predict)(X)
    least = 0.2 * predictions.numel() ** 0.5  # predictions close to zero have a small norm
    close(torch.from_numpy(np.asarray(again)), predictions, 0.1, "predictions", least)
    if hasattr(estimator, "attention"):
        estimator.attention(X[:2])
    return ""


def a_fit_is_reproduced(device: torch.device) -> str:
    """The same call twice gives the same model, up to the rounding of parallel sums."""
    X, y = series_of()
    small: dict[str, Any] = {"d_model": 16, "n_heads": 2, "max_epochs": 8, "random_state": 0}
    first, second, reseeded = (
        torch.from_numpy(
            TSTransformerClassifier(**{**small, **params}, device=device).fit(X, y).predict_proba(X)
        )
        for params in ({}, {}, {"random_state": 1})
    )
    apart = close(second, first, 1e-3, "probabilities")
    least = float((reseeded - first).norm() / first.norm())
    assert least > 0.01, f"another seed gives nearly the same probabilities: {least:.2g}"
    return f"probabilities {apart:.1e}, of another seed {least:.1e}"


def a_saved_model_is_loaded_on_the_cpu(device: torch.device) -> str:
    if importlib.util.find_spec("safetensors") is None:
        raise NotHere("saving needs safetensors, which is not installed")
    X, y = series_of()
    small: dict[str, Any] = {"d_model": 16, "n_heads": 2, "max_epochs": 2, "random_state": 0}
    model = TSTransformerClassifier(**small, n_estimators=2, device=device).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        loaded = tsformer.load(folder, device="cpu")
    assert loaded.device_ == CPU
    ours, expected = (torch.from_numpy(fitted.predict_proba(X)) for fitted in (loaded, model))
    close(ours, expected, 0.1, "probabilities")
    return ""


def explanations_are_those_of_the_cpu(device: torch.device, *, method: str) -> str:
    if method != "attention_rollout" and importlib.util.find_spec("captum") is None:
        raise NotHere("this explanation needs captum, which is not installed")
    X, y = series_of()
    model = TSTransformerClassifier(d_model=16, n_heads=2, max_epochs=2, random_state=0).set_params(
        device=device, precision="float32"
    )
    model.fit(X, y)
    with mock.patch("tsformer.estimators.saving.resolve_device", return_value=CPU):
        twin = pickle.loads(pickle.dumps(model))
    ours, expected = (
        torch.from_numpy(fitted.explain(X[:4], method, target=y[:4])) for fitted in (model, twin)
    )
    close(ours, expected, 0.05, "relevances")
    return ""


def _checks() -> dict[str, Callable[[torch.device], str]]:
    checks: dict[str, Callable[[torch.device], str]] = {}
    kinds = ["classifier", "members", "regressor", "random convolutions"]
    kinds += ["pretrained, masked", "pretrained, contrastive", "codes"]
    for kind in kinds:
        checks[f"estimator: {kind}"] = partial(estimator_works, kind=kind)
    checks["estimator: the same fit twice"] = a_fit_is_reproduced
    encodings = [*names(), "tape+erpe"]
    for precision in TOLERANCE:
        for encoding in encodings:
            checks[f"{precision} as on the CPU: {encoding}"] = partial(
                encoding_agrees, encoding=encoding, precision=precision
            )
    for encoding in encodings:
        checks[f"fused kernels: {encoding}"] = partial(fused_kernels_are_used, encoding=encoding)
    for encoding in encodings:
        checks[f"no waiting: {encoding}"] = partial(steps_do_not_wait, encoding=encoding)
    for augmentation in augmentation_names():
        checks[f"no waiting: {augmentation}"] = partial(
            steps_do_not_wait, encoding="none", augmentation=augmentation
        )
    for ragged in (False, True):
        how = "unequal" if ragged else "equal"
        checks[f"CUDA graphs: series of {how} length"] = partial(
            graphs_are_the_steps, ragged=ragged
        )
    every = "+".join(augmentation_names())
    for label, options in {
        "dropout": {"dropout": 0.3, "augmentation": ""},
        "augmentation": {"dropout": 0.0, "augmentation": every},
    }.items():
        checks[f"CUDA graphs: draws of {label}"] = partial(graphs_draw_anew, **options)
    checks["CUDA graphs: a model that waits"] = what_waits_is_not_captured
    checks["CUDA graphs: memory"] = graphs_give_their_memory_back
    checks["out of memory: a batch"] = a_batch_that_does_not_fit_names_its_size
    checks["out of memory: graphs"] = graphs_that_do_not_fit_are_given_up
    checks["out of memory: prediction"] = a_prediction_that_does_not_fit_is_halved
    checks["peak memory: attention"] = attention_holds_no_matrix_of_scores
    checks["checkpoint: to the device"] = partial(a_checkpoint_moves, to_device=True)
    checks["checkpoint: to the CPU"] = partial(a_checkpoint_moves, to_device=False)
    checks["checkpoint: to CUDA graphs"] = partial(a_checkpoint_moves, to_device=True, graphs=True)
    checks["checkpoint: from CUDA graphs"] = partial(
        a_checkpoint_moves, to_device=False, graphs=True
    )
    checks["checkpoint: a saved model"] = a_saved_model_is_loaded_on_the_cpu
    for method in ("attention_rollout", "gradient_x_input", "integrated_gradients", "occlusion"):
        checks[f"explanation: {method}"] = partial(explanations_are_those_of_the_cpu, method=method)
    checks["data: on the host"] = data_on_the_host_train_alike
    checks["data: in a file"] = series_in_a_file_train_alike
    return checks


#: Name -> check, the most important first; a check returns a note or raises.
CHECKS = _checks()
