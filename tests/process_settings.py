"""What belongs to the process, and no call of the package may change."""

import locale
import logging
import os
import random
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import getcontext
from typing import Any

import numpy as np
import torch


def settings() -> dict[str, Any]:
    """Return the settings and random generators that all code of a process shares."""
    backends: Any = torch.backends
    loggers = [logging.root, *map(logging.getLogger, ("torch", "onnxscript", "tsformer"))]
    return {
        "logging": logging.root.manager.disable,
        "loggers": [(log.level, log.disabled, log.propagate, log.handlers) for log in loggers],
        "warnings": (list(warnings.filters), warnings.showwarning),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "hooks": (sys.excepthook, sys.displayhook, sys.getswitchinterval(), sys.stdout, sys.stderr),
        "recursion": sys.getrecursionlimit(),
        "decimals": repr(getcontext()),
        "numpy errors": np.geterr(),
        "numpy prints": np.get_printoptions(),
        "random": random.getstate(),
        "numpy random": str(np.random.get_state()),  # noqa: NPY002
        "torch random": torch.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "products": [
            owner.fp32_precision.replace("none", "ieee")
            for owner in (backends.mkldnn.matmul, backends.mkldnn.conv, backends.cuda.matmul)
        ],
        "kernels": [
            getattr(backends.cuda, f"{name}_sdp_enabled")()
            for name in ("flash", "math", "mem_efficient", "cudnn")
        ],
        "modes": torch._C._len_torch_function_stack(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
    }


@contextmanager
def full_disk() -> Iterator[None]:
    """A block in which no file can grow beyond a thousand bytes: the system itself refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
