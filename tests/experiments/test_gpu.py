"""The checks of the GPU path, on a GPU and rehearsed on the CPU, and the command that runs them."""

import json

import pandas as pd
import pytest
import torch
from marks import ONE_OF_EACH_HOOK
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments.gpu import peak, run
from experiments.gpu.checks import CHECKS, NotHere
from tsformer.encodings import EncodingStack
from tsformer.model.transformer import EncoderConfig, TransformerBlock

CPU = torch.device("cpu")
#: Groups of which a few checks are enough after each change, since each takes a while.
LONG = ("fused kernels", "no waiting", "checkpoint", "explanation", "estimator")
ENOUGH = ("tape+erpe", "classifier", "to the device", "warp", "attention_rollout")


def cases() -> list[object]:
    params = []
    for name in CHECKS:
        group, _, subject = name.partition(": ")
        slow = group in LONG and subject not in ENOUGH
        if group.endswith("on the CPU"):
            slow = subject not in ONE_OF_EACH_HOOK
        params.append(pytest.param("cpu", name, marks=[pytest.mark.exhaustive] if slow else []))
    on_gpu = CHECKS if torch.cuda.is_available() else ["all of them"]
    params += [pytest.param("cuda", name, marks=pytest.mark.cuda) for name in on_gpu]
    return params


@pytest.mark.parametrize(("device", "name"), cases())
def test_check(device, name):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    try:
        CHECKS[name](torch.device(device))
    except NotHere as reason:
        pytest.skip(str(reason))


def options(folder):
    """The command's own options, so that a test fails where they change."""
    command = ["--device", "cpu", "--tiny", "--seconds", "300", "--checks", "data"]
    return run.arguments([*command, "--out", str(folder)])


@pytest.mark.slow
def test_the_whole_of_it_in_small(tmp_path, monkeypatch):
    """In this process, for speed."""
    monkeypatch.setattr(
        run.Run, "one_process", lambda self, name, most: run.main(self.arguments_of(name))
    )
    whole = run.Run(options(tmp_path))
    whole.run_all()
    assert whole.succeeded()
    state = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert state["outcome"] == "done"
    assert [outcome["outcome"] for outcome in state["parts"].values()] == ["done"] * len(run.PARTS)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    for text in ("| data | 2 | 0 | 0 | 0 |", "12 × 2 × 20 | conv stem, float32", "| speed-up |"):
        assert text in page
    training = pd.DataFrame(run.read_rows(tmp_path / "training.jsonl"))
    assert training["seconds"].notna().all(), "no method failed"


def test_operations_are_those_that_torch_counts(monkeypatch):
    d, length, batch = 32, 24, 2
    block = TransformerBlock(EncoderConfig(d_model=d, n_heads=4, dropout=0.0))
    hooks = EncodingStack("none", n_layers=1, d_model=d, n_heads=4, max_len=length).one_pass()[0]
    x, t = torch.randn(batch, length, d), torch.arange(length)[None].float()
    counted = {}
    for name, call in (
        ("attention", lambda: block.attention(x, t, hooks)),
        ("feed-forward", lambda: block.feed_forward(x)),
    ):
        # torch counts nothing in the fused kernel of a CPU.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            call()
        counted[name] = counter.get_total_flops()
    assert peak.operations(d, length, batch, 2 * d) == counted

    # A third of the work is forward.
    monkeypatch.setattr(peak, "seconds", lambda call, device: (call(), 0.5)[1])
    reached = peak.reached("cpu", d, length, batch, 4)
    assert reached == {name: 3 * work / 0.5 for name, work in counted.items()}
    assert peak.peak(64, "cpu") == 2 * 64**3 / 0.5
