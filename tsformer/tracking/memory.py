"""Peak memory of a fit."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak of the device's memory or, on Linux, of this process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif _CLEAR.exists():
        try:
            _CLEAR.write_text("5")
        except OSError:  # a hardened container: the peak is then that since the process started
            return


def peak_memory_mb(device: torch.device) -> float:
    """Return the peak in MB (10^6 bytes); NaN if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if sys.platform == "win32":
        return math.nan
    if _STATUS.exists():
        # Not ru_maxrss: a new process inherits its parent's, and it cannot be reset.
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
