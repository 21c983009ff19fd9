"""Processor seconds of a call, on a machine that does other things too."""

import gc
from collections.abc import Callable
from time import process_time


def least_seconds(function: Callable[[], object], times: int = 3) -> float:
    """Return the processor seconds of the fastest of several calls."""
    seconds = []
    for _ in range(times):
        gc.collect()  # objects of earlier tests would be collected during the call
        start = process_time()
        function()
        seconds.append(process_time() - start)
    return min(seconds)
