"""Watches for operations that make the host wait for a device."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: Operators whose result the host must know: on a GPU it would wait for all work before them.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::lift_fresh",  # numbers of Python become a tensor, which is then copied to the device
    "aten::unique_consecutive",
    "aten::_unique2",
}


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name in WAITING or (name == "aten::index" and _by_mask(args[1])):
            self.seen.add(name)
        return func(*args, **(kwargs or {}))


def _by_mask(indices):
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)
