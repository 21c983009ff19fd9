"""The page on what was measured on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

from tools import gpu_page


def test_without_results_it_says_so(tmp_path):
    assert "No run on a GPU has been committed" in gpu_page.page(tmp_path)


def write(folder: Path, part: str, rows: list[dict]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")


def speed(case: str, method: str, seconds: float) -> dict:
    length = int(case.split("x")[2])
    row = {"method": method, "case": case, "length": length, "seconds": seconds}
    return row | {"series_per_second": 100 / seconds, "ms_per_step": 50 * seconds, "peak_mib": 70.0}


def test_what_was_asked_for_is_reached_or_missed(tmp_path):
    parts = ("machine", "checks", "training", "matmul", "problems")
    state = {part: {"outcome": "done", "seconds": 1.0} for part in parts}
    state["matmul"]["outcome"] = "cut off"
    run = {"outcome": "killed", "tiny": False, "parts": state}
    (tmp_path / "run.json").write_text(json.dumps(run))
    write(tmp_path, "machine", [{"what": "device", "value": "NVIDIA H100"}])
    checks = [
        {"check": "a: one", "outcome": "died", "note": "the process ended in it"},
        {"check": "a: one", "outcome": "passed", "note": ""},
        {"check": "a: two", "outcome": "died", "note": "the process ended in it"},
        {"check": "b: three", "outcome": "failed", "note": "AssertionError: 1 | 2"},
    ]
    write(tmp_path, "checks", checks)
    training = [speed("180x24x51", "plain loop", 1.0), speed("256x6x100", "plain loop", 1.0)]
    training += [speed("180x24x51", "conv stem, bfloat16", 0.1)]
    training += [speed("256x6x100", "linear stem, bfloat16", 0.5)]
    failed = {"case": "180x24x51", "length": 51, "error": "RuntimeError: no kernel"}
    training += [{"method": "conv stem, float32", **failed}]
    write(tmp_path, "training", training)
    matmul = [{"what": gpu_page.WIDE, "tflops": 80.0, "share": 0.2}]
    write(tmp_path, "matmul", matmul)
    fits = [
        {"dataset": "A", "device": "cuda", "fit": "one model", "accuracy": 0.9, "fit_seconds": 2.0},
        {"dataset": "B", "device": "cuda", "fit": "one model", "accuracy": 0.8, "fit_seconds": 4.0},
        {"dataset": "A", "device": "cpu", "fit": "one model", "accuracy": 0.7, "fit_seconds": 9.0},
        {"dataset": "B", "device": "cpu", "fit": "one model", "error": "ImportError: no sktime"},
    ]
    write(tmp_path, "problems", fits)
    page = gpu_page.page(tmp_path)
    for what in (
        "| problem | one model | one model, on the processor |",
        "| A | 0.900 in 2.0 s | 0.700 in 9.0 s |",
        "| B | 0.800 in 4.0 s | – |",
        "| B | ImportError: no sktime |",
        "was killed before its end",
        "| matmul | cut off | 1 |",
        "NVIDIA H100",
        "| a | 1 | 0 | 1 | 0 |",
        r"| b: three | failed | AssertionError: 1 \| 2 |",
        "10.0 at 180 × 24 × 51 by conv stem, bfloat16 (reached)",
        "2.0 at 256 × 6 × 100 by linear stem, bfloat16 (missed)",
        "RuntimeError: no kernel",
        f"25% of the peak in {gpu_page.WIDE} (missed)",
    ):
        assert what in page, what
    assert "a: one |" not in page
    assert "mean of" not in page, "one problem alone has all fits"
