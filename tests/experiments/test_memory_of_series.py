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
    # Some 200 to 260 MiB are needed whatever the size, the more the more the allocator fragments:
    # 400 MiB are enough to tell what grows with the data from what does not.
    measured = peaks(tmp_path, "array", 51_200)
    assert measured["fit_mib"] <= 1.3 * 400
    assert measured["predict_mib"] <= 1.3 * 400


@pytest.mark.parametrize("kept", ["memmap", "folder"])
def test_memory_does_not_grow_with_a_file(tmp_path, kept):
    measured = peaks(tmp_path, kept, 64_000)  # 500 MiB
    assert measured["fit_mib"] <= 400
    assert measured["predict_mib"] <= 400
