"""Nothing in a step waits for a device: no encoding, stem or pooling reads a value back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from marks import exhaustive_except
from small_problem import make_model, make_panel, make_plan, make_step
from torch.utils._python_dispatch import TorchDispatchMode

from tsformer.encodings import EncodingStack, names

#: Operators whose result the host must know: on a GPU it would wait for all work before them.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::lift_fresh",  # numbers of Python become a tensor, which is then copied to the device
    "aten::unique_consecutive",
    "aten::_unique2",
}


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name in WAITING or (name == "aten::index" and _by_mask(args[1])):
            self.seen.add(name)
        return func(*args, **(kwargs or {}))


def _by_mask(indices):
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def step_on(encoding: str, **options):
    model, plan = make_model(encoding, **options), make_plan()
    panel, targets = make_panel(ragged=True)
    panel = type(panel)(panel.values, panel.lengths, torch.arange(12) < panel.lengths[:, None])
    step = make_step(model, panel, targets, plan, torch.ones(20))
    index = torch.arange(8)
    step(index, index)  # AdamW creates its state in the first
    inputs = panel.take(index)  # reads lengths, which always are on the host
    step.panel = SimpleNamespace(
        device=panel.device, symbolic=False, n_flags=0, take=lambda *_, **__: inputs
    )
    with Watch() as watch:
        step(index, index)
    return watch.seen


@pytest.mark.parametrize("encoding", exhaustive_except([*names(), "tape+erpe"]))
def test_no_encoding_reads_a_value_back(encoding):
    assert step_on(encoding) == set()


@pytest.mark.parametrize("stem", ["linear", "patch"])
@pytest.mark.parametrize("pooling", ["mean", "attention", "max"])
def test_no_stem_or_pooling_does(stem, pooling):
    assert step_on("none", stem=stem, pooling=pooling) == set()


def test_a_step_in_which_an_encoding_waits_is_seen(monkeypatch):
    real = EncodingStack.embed

    def reads(self, x, *args, **kwargs):
        return real(self, x, *args, **kwargs) * x.detach().abs().amax().ceil().sign().item()

    monkeypatch.setattr(EncodingStack, "embed", reads)
    assert step_on("lspe") == {"aten::_local_scalar_dense"}
