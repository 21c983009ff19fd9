"""The file format, against the library it comes from."""

from __future__ import annotations

import json
import struct

import pytest
import torch

from tsformer.safetensors import read, write

TENSORS = {
    "matrix": torch.randn(3, 5),
    "turned": torch.randn(5, 3).T,
    "every other": torch.arange(10.0)[::2],
    "scalar": torch.tensor(3.5),
    "empty": torch.zeros(0, 4),
    "64 bits": torch.randn(2, 2, dtype=torch.float64),
    "16 bits": torch.randn(7).half(),
    "bfloat": torch.randn(7).bfloat16(),
    "counts": torch.tensor([[1, -(2**40)]]),
    "small counts": torch.tensor([1, 2], dtype=torch.int32),
    "bytes": torch.tensor([0, 255], dtype=torch.uint8),
    "signed bytes": torch.tensor([-128, 127], dtype=torch.int8),
    "shorts": torch.tensor([-(2**15)], dtype=torch.int16),
    "mask": torch.tensor([True, False, True]),
    "ünï": torch.ones(1),
}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and torch.equal(a[k], b[k]) for k in a
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


def test_round_trip(path):
    write(TENSORS, path)
    assert same(read(path), TENSORS)


def test_no_tensors(path):
    write({}, path)
    assert read(path) == {}


def test_parameters_lose_their_gradient(path):
    write({"p": torch.nn.Parameter(torch.ones(2))}, path)
    assert not read(path)["p"].requires_grad


def test_the_formats_own_library_reads_ours(path):
    library = pytest.importorskip("safetensors.torch")
    write(TENSORS, path)
    assert same(library.load_file(path), TENSORS)


def test_we_read_what_the_formats_own_library_writes(path):
    library = pytest.importorskip("safetensors.torch")
    tensors = {name: tensor.contiguous() for name, tensor in TENSORS.items()}
    library.save_file(tensors, path, metadata={"format": "pt"})
    assert same(read(path), tensors)


def test_what_is_read_can_be_written_to(path):
    write({"a": torch.zeros(2), "b": torch.zeros(2)}, path)
    tensors = read(path)
    tensors["a"].add_(1)
    assert same(tensors, {"a": torch.ones(2), "b": torch.zeros(2)})


@pytest.mark.parametrize("left", [0, 4, 8, 50, -1])
def test_truncated(path, left):
    write(TENSORS, path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ValueError, match=r"weights.safetensors is not a whole safetensors file: "):
        read(path)


def entry(**changes) -> dict:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"\xff\xfe",
        [],
        {"a": 3},
        {"a": {}},
        {"a": entry(dtype="F7")},
        {"a": entry(shape=[3])},
        {"a": entry(shape=[-1, -2])},
        {"a": entry(shape=["2"])},
        {"a": entry(data_offsets=[0, 4])},
        {"a": entry(data_offsets=[8, 16])},
        {"a": entry(data_offsets=[-8, 0])},
        {"a": entry(data_offsets=[8])},
        {"a": entry(data_offsets=[0.0, 8.0])},
    ],
    ids=str,
)
def test_corrupted_header(path, header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        read(path)


def test_length_of_the_header_beyond_the_file(path):
    path.write_bytes(struct.pack("<Q", 2**60) + b"{}")
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        read(path)


def test_types_the_format_lacks_are_refused(path):
    with pytest.raises(ValueError, match=r"'z'.*complex64.*float32"):
        write({"z": torch.zeros(2, dtype=torch.complex64)}, path)
    assert not path.exists()
