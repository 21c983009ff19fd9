"""The speed benchmark, end to end, and the work that is counted on a GPU."""

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
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments.gpu import peak
from experiments.speed import benchmark, methods
from tsformer.encodings import EncodingStack
from tsformer.model.blocks import TransformerBlock


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
    assert peak.operations(d, length, batch, 2 * d) == counted
    reached = peak.reached("cpu", d, length, batch, 4)

    def half_a_second(call, device):
        call()
        return 0.5

    # A third of the work is forward.
    monkeypatch.setattr(peak, "seconds", half_a_second)
    reached = peak.reached("cpu", d, length, batch, 4)
    assert reached == {name: 3 * work / 0.5 for name, work in counted.items()}
    assert peak.peak(64, "cpu") == 2 * 64**3 / 0.5


def test_seconds_are_those_of_the_median_call():
    calls = []

    def call():
        calls.append(len(calls))
        time.sleep(0.2 if len(calls) == 6 else 0.004)

    assert 0.004 <= peak.seconds(call, "cpu", repeats=5) < 0.1
    assert len(calls) == 3 + 5
