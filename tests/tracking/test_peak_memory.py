"""The peak of memory is this process' own, and starts anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import torch
from tsformer.tracking.memory import peak_memory_mb, reset_peak_memory
cpu = torch.device("cpu")
reset_peak_memory(cpu)
peaks = [peak_memory_mb(cpu)]
held = torch.ones(50_000_000)  # 200 MB
del held
peaks.append(peak_memory_mb(cpu))
reset_peak_memory(cpu)
peaks.append(peak_memory_mb(cpu))
print(*peaks)
"""
PARENT = """
import subprocess, sys
held = bytearray(b"1") * 1_000_000_000
print(subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=-1, check=True).stdout.decode())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells")
def test_a_peak_is_neither_the_parents_nor_an_earlier_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARENT, CHILD], capture_output=True, text=True, check=True
    )
    before, most, after = map(float, done.stdout.split())
    assert before < 900, "the parent's"
    assert 180 < most - before < 400
    assert after < before + 50
