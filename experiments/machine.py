"""The name of the processor or GPU that a measurement was made on."""

from __future__ import annotations

import platform
from pathlib import Path

import torch


def machine(device: str) -> str:
    """Return the GPU's name for "cuda", else the processor's as Linux gives it."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
