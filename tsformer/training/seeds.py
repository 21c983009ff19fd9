"""Seeding torch's global generators for a while, and restoring their state afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators of the CPU and of `device`, inside the block only.

    Module initialisation and dropout take no other generators. What the user's program draws after
    the block is what it would have drawn without it.
    """
    devices = [device] if device.type in ("cuda", "mps") else []
    with torch.random.fork_rng(devices=devices, device_type=device.type if devices else "cuda"):
        # Not torch.manual_seed, which reseeds all devices, including those not forked here.
        torch.default_generator.manual_seed(seed)
        for each in devices:
            getattr(torch, each.type).manual_seed(seed)
        yield
