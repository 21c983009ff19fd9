"""The plain loop of the speed benchmark, and the operations counted on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments.gpu import methods, peak
from tsformer.encodings import EncodingStack
from tsformer.model.transformer import TransformerBlock


@pytest.mark.slow
def test_the_plain_loop_learns():
    """It is not a straw man: it separates two classes of sines."""
    steps = np.arange(40)
    y = np.arange(64) % 2
    noise = np.random.default_rng(0).standard_normal((64, 1, 40))
    X = (np.sin(steps * np.where(y, 0.3, 0.6)[:, None])[:, None] + 0.1 * noise).astype(np.float32)
    method = methods.plain_loop(methods.Case(64, 1, 40, epochs=15), "cpu").fit(X, y)
    assert method.losses[-1] < 0.3 * method.losses[0]
    assert (method.predict_proba(X).argmax(1) == y).mean() > 0.95


def test_operations_are_those_that_torch_counts(monkeypatch):
    d, length, batch = 32, 24, 2
    block = TransformerBlock(d, 4, 2 * d, 0.0, norm_first=True)
    hooks = EncodingStack("none", n_layers=1, d_model=d, n_heads=4, max_len=length).one_pass()[0]
    x, t = torch.randn(batch, length, d), torch.arange(length)[None].float()
    counted = {}
    for name, part in (
        ("attention", lambda: block.attention(x, t, hooks)),
        ("feed-forward", lambda: block.feed_forward(x)),
    ):
        # torch counts nothing in the fused kernel of a CPU.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            part()
        counted[name] = counter.get_total_flops()
    assert peak.operations(d, length, batch, 2 * d) == counted

    def half_a_second(call, device):
        call()
        return 0.5

    # A third of the work is forward.
    monkeypatch.setattr(peak, "seconds", half_a_second)
    reached = peak.reached("cpu", d, length, batch, 4)
    assert reached == {name: 3 * work / 0.5 for name, work in counted.items()}
    assert peak.peak(64, "cpu") == 2 * 64**3 / 0.5
