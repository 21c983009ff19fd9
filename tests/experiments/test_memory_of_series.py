"""The memory that docs/guide/large_data.md promises, measured by the script that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.memory.peak import measured, write_series

LENGTH = 2048

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux"),
]


def peaks(folder: Path, kept: str, n: int) -> dict[str, Any]:
    write_series(folder / "X.npy", n, 1, LENGTH)
    return measured(folder / "X.npy", kept, n=n, tiny=True)


def test_an_array_in_memory_takes_at_most_its_size_and_a_third_more(tmp_path):
    measured = peaks(tmp_path, "array", 25_600)  # 200 MiB
    assert measured["fit_mib"] <= 1.3 * 200
    assert measured["predict_mib"] <= 1.3 * 200


@pytest.mark.parametrize("kept", ["memmap", "folder"])
def test_memory_does_not_grow_with_a_file(tmp_path, kept):
    measured = peaks(tmp_path, kept, 64_000)  # 500 MiB
    assert measured["fit_mib"] <= 400
    assert measured["predict_mib"] <= 400
