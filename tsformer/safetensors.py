"""The safetensors file format: named tensors as JSON header and raw bytes, nothing that can run.

The format's own library is not used because saving and loading belong to the core, which needs
torch, numpy, pandas and scikit-learn alone. The format is frozen and small; a test reads and
writes it with that library both ways.

A file is eight bytes of header length, little-endian; the header, a JSON object from a tensor's
name to its ``dtype``, ``shape`` and ``data_offsets``; and the bytes of all tensors without gaps.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["read", "write"]

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def write(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write named tensors to `path`.

    Raises
    ------
    ValueError
        If a tensor is of a type that the format lacks.
    """
    header: dict[str, Any] = {}
    chunks = []
    offset = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise ValueError(
                f"tensor {name!r} is of type {tensor.dtype}, which the safetensors format lacks; "
                f"it has {', '.join(map(str, _NAMES))}"
            )
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    path.write_bytes(b"".join([struct.pack("<Q", len(text)), text, *chunks]))


def read(path: Path) -> dict[str, Tensor]:
    """Read the named tensors of a file.

    Raises
    ------
    ValueError
        If the file is truncated, corrupted, or not of this format.
    """
    content = bytearray(path.read_bytes())
    try:
        (length,) = struct.unpack_from("<Q", content)
        if length > len(content) - 8:
            raise ValueError(f"its header should have {length} bytes")
        header = json.loads(content[8 : 8 + length])
        data = memoryview(content)[8 + length :]
        header.pop("__metadata__", None)
        if sum(
            entry["data_offsets"][1] - entry["data_offsets"][0] for entry in header.values()
        ) != len(data):
            raise ValueError("its tensors do not add up to its size")
        return {name: _tensor(entry, data) for name, entry in header.items()}
    except (
        struct.error,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        RuntimeError,
    ) as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from error


def _tensor(entry: Mapping[str, Any], data: memoryview) -> Tensor:
    dtype, shape, (start, stop) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if not 0 <= start <= stop <= len(data) or stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"a tensor of shape {shape} does not fit the bytes {start} to {stop}")
    if start == stop:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[start:stop]), dtype=dtype).reshape(shape)
