"""TrainingPlan: the schedule, the budget, device and precision."""

import numpy as np
import pytest
import torch

from tsformer._torch_state import resolve_device, resolve_precision
from tsformer.training import TrainingPlan

CPU = torch.device("cpu")


def rates(n_steps: int, **options) -> np.ndarray:
    plan = TrainingPlan(
        n_epochs=1, batch_size=1, learning_rate=0.5, weight_decay=0.0, device=CPU, seed=0, **options
    )
    return np.array([plan.rate(step, n_steps) for step in range(n_steps + 1)])


def test_rate_rises_to_its_peak_and_falls_to_zero_along_a_cosine():
    rate = rates(100)
    np.testing.assert_allclose(rate[:10], 0.05 * np.arange(1, 11))
    assert rate.max() == rate[9] == rate[10] == 0.5
    assert (np.diff(rate[10:]) < 0).all()
    assert rate[55] == pytest.approx(0.25)
    assert rate[99] < 0.001
    assert rate[100] == 0
    assert rates(100, warmup=0.5).argmax() == 49


@pytest.mark.parametrize("n_steps", [1, 2, 3])
def test_rate_of_a_very_short_run(n_steps):
    rate = rates(n_steps)[:-1]
    assert rate[0] == 0.5
    assert (rate > 0).all()


SEES_NO_GPU = "sees no GPU of NVIDIA or AMD; choose from: 'auto', 'cpu'$"


@pytest.mark.skipif(torch.accelerator.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", f"did you mean 'cuda'. That is not there either: PyTorch .* {SEES_NO_GPU}"),
        (torch.device("cuda:1"), f"PyTorch .* {SEES_NO_GPU}"),
        ("mps", "PyTorch .* sees no GPU of Apple; choose from: 'auto', 'cpu'$"),
        ("CPU", "did you mean 'cpu'. Choose from: 'auto', 'cpu'$"),
        ("meta", "tensors on it have no values; choose from: 'auto', 'cpu'$"),
        ("tpu", "Expected one of cpu, cuda, .*; choose from: 'auto', 'cpu'$"),
        (None, "a device is named by a string, not by NoneType; choose from: 'auto', 'cpu'$"),
    ],
)
def test_a_device_that_is_not_there_is_not_offered(device, message):
    with pytest.raises(ValueError, match=f"^device .* cannot be used here: {message}") as raised:
        resolve_device(device)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("n_gpus", "offered"), [(1, "'cuda'"), (2, "'cuda', 'cuda:0', 'cuda:1'")], ids=["1", "2"]
)
def test_devices_that_are_there_are_offered(n_gpus, offered, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    message = f"did you mean 'cuda'. Choose from: 'auto', 'cpu', {offered}$"
    with pytest.raises(ValueError, match=message):
        resolve_device("gpu")


def test_precision(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    many, cuda = 2**14, torch.device("cuda")
    assert resolve_precision("auto", cuda, many)
    assert not resolve_precision("auto", cuda, many - 1)
    assert not resolve_precision("auto", CPU, many)
    assert not resolve_precision("float32", CPU)
    assert resolve_precision("bfloat16", CPU)
    with pytest.raises(ValueError, match="unknown precision 'bf16': did you mean 'bfloat16'"):
        resolve_precision("bf16", CPU)
