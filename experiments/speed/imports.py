"""How long `import tsformer` takes beyond torch: CPU time in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

_STATEMENTS = {
    "import tsformer": "import tsformer",
    "import of the classifier": "from tsformer import TSTransformerClassifier",
}
_TIMED = """
import time, torch
start = time.process_time()
{statement}
print(time.process_time() - start)
"""


def import_rows(repeats: int = 5) -> Iterator[dict[str, Any]]:
    """Yield the median seconds of each statement after `import torch`; they take turns."""
    seconds: dict[str, list[float]] = {what: [] for what in _STATEMENTS}
    for _ in range(repeats):
        for what, statement in _STATEMENTS.items():
            command = [sys.executable, "-c", _TIMED.format(statement=statement)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds[what].append(float(done.stdout))
    for what, taken in seconds.items():
        yield {
            "method": "tsformer",
            "what": what,
            "value": statistics.median(taken),
            "unit": "CPU s",
        }
