"""The checks of the GPU path, on a GPU and rehearsed on the CPU, and the command that runs them."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from marks import ONE_OF_EACH_HOOK
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments.gpu import checks, methods, peak, run
from experiments.gpu.checks import CHECKS, NotHere
from tsformer.encodings import EncodingStack
from tsformer.model.transformer import TransformerBlock

CPU = torch.device("cpu")
#: Groups of which a few checks are enough after each change, since each takes a while.
LONG = ("fused kernels", "no waiting", "checkpoint", "explanation", "estimator")
ENOUGH = ("tape+erpe", "classifier", "to the device", "warp", "attention_rollout")


def cases() -> list[object]:
    found = []
    for name in CHECKS:
        group, _, what = name.partition(": ")
        slow = group in LONG and what not in ENOUGH
        if group.endswith("on the CPU"):
            slow = what not in ONE_OF_EACH_HOOK
        found.append(pytest.param("cpu", name, marks=[pytest.mark.exhaustive] if slow else []))
    on_gpu = CHECKS if torch.cuda.is_available() else ["all of them"]
    found += [pytest.param("cuda", name, marks=pytest.mark.cuda) for name in on_gpu]
    return found


@pytest.mark.parametrize(("device", "name"), cases())
def test_check(device, name):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    try:
        CHECKS[name](torch.device(device))
    except NotHere as reason:
        pytest.skip(str(reason))


def test_wrong_gradients_are_seen(monkeypatch):
    real = checks.gradients

    def wrong(model, inputs, *, bfloat16):
        outputs, found = real(model, inputs, bfloat16=bfloat16)
        if inputs[0].dtype == torch.float32:
            found["head.weight"] *= 1.5
        return outputs, found

    monkeypatch.setattr(checks, "gradients", wrong)
    with pytest.raises(AssertionError, match="gradients differ by"):
        CHECKS["float32 as on the CPU: tape"](CPU)


def options(folder):
    """The command's own options, so that a test fails where they change."""
    command = ["--device", "cpu", "--tiny", "--seconds", "300", "--checks", "data"]
    return run.arguments([*command, "--out", str(folder)])


def test_each_check_says_how_it_ended(monkeypatch):
    def fails(device):
        raise AssertionError("two are not one\nand more")

    def nowhere(device):
        raise NotHere("not on this device")

    found = {"a: fails": fails, "a: is not here": nowhere, "b: passes": lambda device: "a note"}
    monkeypatch.setattr(checks, "CHECKS", found | {"b: is done": fails})
    rows = list(run.check_rows(CPU, {"b: is done"}, ""))
    assert [row["outcome"] for row in rows[::2]] == ["died"] * 3, "what if the process ends in it"
    ends = [(row["outcome"], row["note"]) for row in rows[1::2]]
    assert ends == [
        ("failed", "AssertionError: two are not one"),
        ("skipped", "not on this device"),
        ("passed", "a note"),
    ]
    assert [row["check"] for row in run.check_rows(CPU, set(), "b: p")] == ["b: passes"] * 2


def test_a_process_that_dies_in_a_check_is_followed_by_another(tmp_path, monkeypatch, capsys):
    ended = iter([-11, run.POISONED, 0])
    path = tmp_path / "checks.jsonl"

    def one_process(self, part, most):
        assert most > 50
        with path.open("a") as file:
            file.write(json.dumps({"check": f"of {part}"}) + "\n")
        return next(ended)

    monkeypatch.setattr(run.Run, "one_process", one_process)
    begun = run.Run(options(tmp_path))
    begun.parts = {"checks": {"outcome": "not begun", "seconds": 0.0}}
    begun.run("checks")
    assert begun.parts["checks"]["outcome"] == "done"
    with path.open("a") as file:
        file.write('{"check"')  # it was killed while it wrote this
    assert len(run.read_rows(path)) == 3
    ended = iter([-11])
    path.write_text("")
    monkeypatch.setattr(run.Run, "one_process", lambda *_: next(ended))
    begun.run("checks")  # without a row it would end in the same place again
    assert begun.parts["checks"]["outcome"] == "failed with status -11"
    assert not begun.succeeded()


@pytest.mark.slow
def test_the_whole_of_it_in_small(tmp_path, monkeypatch):
    """In this process, for speed."""
    monkeypatch.setattr(
        run.Run, "one_process", lambda self, part, most: run.main(self.arguments_of(part))
    )
    whole = run.Run(options(tmp_path))
    whole.run_all()
    assert whole.succeeded()
    state = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert state["outcome"] == "done"
    assert [own["outcome"] for own in state["parts"].values()] == ["done"] * len(run.PARTS)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    for what in ("| data | 2 | 0 | 0 | 0 |", "12 × 2 × 20 | conv stem, float32", "| speed-up |"):
        assert what in page
    training = pd.DataFrame(run.read_rows(tmp_path / "training.jsonl"))
    assert training["seconds"].notna().all(), "no method failed"


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
