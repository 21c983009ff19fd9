"""The most memory that a training held."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch

__all__ = ["peak_memory_mb", "reset_peak_memory"]

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def reset_peak_memory(device: torch.device) -> None:
    """Start a new peak: of the device's memory, or of this process' on the CPU.

    Only Linux lets a process do that. Elsewhere the peak is that since the process began.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif _CLEAR.exists():
        try:
            _CLEAR.write_text("5")
        except OSError:  # a hardened container: the peak is then that of the process so far
            return


def peak_memory_mb(device: torch.device) -> float:
    """Return the peak in MB (10^6 bytes); NaN where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if sys.platform == "win32":
        return math.nan
    if _STATUS.exists():
        # Not ru_maxrss: a new process has that of its parent there, and no reset reaches it.
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
