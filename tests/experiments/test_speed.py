"""The speed benchmarks: the script end to end, and the variants that are tried."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments.speed import benchmark, gpu_peak, methods, short_series, trials, variants
from tsformer.encodings import EncodingStack
from tsformer.model.blocks import TransformerBlock
from tsformer.model.stems import ConvStem


@pytest.mark.slow
def test_script_measures_in_turns_writes_and_prints(tmp_path, capsys):
    out, as_json = tmp_path / "speed.csv", tmp_path / "speed.json"
    kept = "device,case,method,what,length,value,unit\ncuda,32x24x51,tsformer,training,51,1.0,s\n"
    out.write_text(kept + "cpu,32x24x51,tsformer,training,51,99.0,s\n", encoding="utf-8")
    arguments = ["--quick", "--rounds", "1", "--only", "32x24x51", "--out", tmp_path]
    arguments += ["--methods", "tsformer, linear stem;plain loop;tsai TST", "--json", as_json]
    benchmark.main(list(map(str, arguments)))
    printed = capsys.readouterr().out
    rows = pd.read_csv(out)
    assert list(rows["device"]).count("cuda") == 1, "another device's rows stay"
    assert 99.0 not in set(rows["value"]), "a run replaces the rows of its case and device"
    rows = rows[rows["device"] == "cpu"].reset_index()
    assert len(json.loads(as_json.read_text(encoding="utf-8"))) == len(rows)
    assert (rows["threads"] == 1).all()
    assert rows[["machine", "torch", "tsformer", "date"]].notna().all(axis=None)
    measured = rows[rows["what"] != "skipped"]
    by_method = measured.pivot_table("value", "what", ["method", "unit"])
    for method in ("tsformer, linear stem", "plain loop"):
        memory, wall, cpu = (by_method[method, unit] for unit in ("MiB", "s", "CPU s"))
        assert 100 < memory["memory at rest"] < memory["peak memory"] < 5000
        # An epoch has two more passes than inference, and 32 series are more work than one.
        assert 60 > cpu["training"] > cpu["inference"] > cpu["one series"] > 1e-5
        for what in ("training", "inference", "one series"):
            assert cpu[what] < 1.5 * wall[what], (
                "one thread takes no more than the time that passes"
            )
    if importlib.util.find_spec("tsai") is None:
        assert "No module named 'tsai'" in printed
    assert "| training, plain loop |" in printed
    assert "| 32 × 24 × 51 | linear |" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "plain lop"], "unknown methods ['plain lop']; there are ['tsformer',"),
        (["--only", "1x2x3"], "no case '1x2x3'; there are ['180x24x51',"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        benchmark.main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_method_that_dies_is_reported():
    options = argparse.Namespace(tsai_python=sys.executable, device="cpu", threads=1)
    case = methods.Case(4, 1, 8, epochs=1)
    with (
        pytest.raises(RuntimeError, match="the process of 'plain loop' ended with 1"),
        benchmark.Worker("plain loop", case, options) as worker,
    ):
        worker.do("no such action")


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
    assert gpu_peak.operations(d, length, batch, 2 * d) == counted
    reached = gpu_peak.reached("cpu", d, length, batch, 4)

    def half_a_second(call, device):
        call()
        return 0.5

    # A third of the work is forward.
    monkeypatch.setattr(gpu_peak, "seconds", half_a_second)
    reached = gpu_peak.reached("cpu", d, length, batch, 4)
    assert reached == {name: 3 * work / 0.5 for name, work in counted.items()}
    assert gpu_peak.peak(64, "cpu") == 2 * 64**3 / 0.5


def test_seconds_are_those_of_the_median_call():
    calls = []

    def call():
        calls.append(len(calls))
        time.sleep(0.2 if len(calls) == 6 else 0.004)

    assert 0.004 <= gpu_peak.seconds(call, "cpu", repeats=5) < 0.1
    assert len(calls) == 3 + 5


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_attention_by_chunks_is_attention(heads):
    q, k, v = (torch.randn(8, 10, 4, requires_grad=True) for _ in range(3))
    weight = torch.randn(8, 10, 4)
    found = variants.ChunkedAttention.apply(q, k, v, 0.5, heads)
    expected = F.scaled_dot_product_attention(q, k, v, scale=0.5)
    torch.testing.assert_close(found, expected)
    for a, b in zip(
        torch.autograd.grad(found, (q, k, v), weight),
        torch.autograd.grad(expected, (q, k, v), weight),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["channels_first", "one_product", "product_per_branch"])
@pytest.mark.parametrize("length", [30, 300])
def test_other_convolutions_are_the_stem(name, length):
    stem = ConvStem(3, 16, length)
    x, t = torch.randn(2, length, 3), torch.arange(length)[None].float()
    variant = variants.StemVariant(stem, getattr(variants, name))
    torch.testing.assert_close(variant(x), stem(x, None, t)[0])


@pytest.mark.parametrize(("bits", "rate"), [(8, 26 / 256), (16, 6554 / 65536)])
def test_dropout_of_few_bits_is_dropout(bits, rate):
    x = torch.ones(1001, 100, requires_grad=True)
    out = variants.FewBitsDropout.apply(x, 0.1, bits)
    assert torch.unique(out).tolist() == pytest.approx([0, 1 / (1 - rate)])
    assert (out == 0).float().mean().item() == pytest.approx(rate, abs=0.005)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_of_three_variants_the_quickest_is_fastest(monkeypatch):
    clock = 0.0

    def busy(seconds):
        def call():
            nonlocal clock
            clock += seconds

        return call

    monkeypatch.setattr(trials.time, "process_time", lambda: clock)
    tried = {"as it is": busy(0.0625), "quick": busy(0.015625), "slow": busy(0.125)}
    table = trials.race(tried, seconds=0).set_index("variant")
    assert table["faster"].to_dict() == {"as it is": 1.0, "quick": 4.0, "slow": 0.5}
    assert table["ms"]["as it is"] == 62.5


def test_trials_are_timed_against_the_first():
    case = methods.Case(4, 2, 12, epochs=1, batch=2)
    for tried in (trials.step_variants(case, "linear"), variants.attention_variants(case)):
        table = trials.race(tried, seconds=0)
        assert table["variant"].tolist() == list(tried)
        assert table["faster"][0] == 1.0
        assert (table["ms"] > 0).all()
        assert (table["rounds"] == 3).all()
    assert torch.get_float32_matmul_precision() == "highest"


def test_an_epoch_of_a_short_series_is_timed_without_what_a_fit_begins_with(monkeypatch):
    """The first fit of a process takes 5 s, each fit 2, each epoch .25, and so says the clock."""
    clock = 0.0
    fits = []

    class Method:
        def __init__(self, epochs: int):
            self.epochs = epochs

        def fit(self, X, y):
            nonlocal clock
            clock += (2.0 if fits else 5.0) + 0.25 * self.epochs
            fits.append(self.epochs)

    monkeypatch.setattr(short_series.time, "process_time", lambda: clock)
    assert short_series.seconds_of(Method, methods.Case(4, 1, 20, 1)) == 0.25
    assert fits == [1, 1, 1 + short_series.EPOCHS]


@pytest.mark.slow
def test_short_series_take_turns_and_a_second_run_adds_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(short_series, "EPOCHS", 1)
    monkeypatch.setattr(short_series, "CASES", {"small": methods.Case(48, 1, 20, 1)})
    monkeypatch.setattr(short_series, "VARIANTS", {"default": {}, "no dropout": {"dropout": 0.0}})
    command = ["--out", str(tmp_path), "--cases", "small", "--rounds"]
    short_series.main([*command, "1"])
    first = pd.read_csv(tmp_path / "short_series.csv")
    assert list(first["variant"]) == ["default", "no dropout"]
    short_series.main([*command, "2"])
    both = pd.read_csv(tmp_path / "short_series.csv")
    assert list(both["round"]) == [0, 0, 1, 1]
    pd.testing.assert_frame_equal(both[:2], first)
