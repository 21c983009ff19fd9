"""The memory that docs/guide/large_data.md promises, measured by the script that it names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.memory.peak import measured, write, write_series

LENGTH = 2048
#: MiB beyond the process that are enough for a small model, however many the series.
ENOUGH = 400

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux"),
]


def peaks(folder: Path, kept: str, n: int, limit: int | None = None) -> dict[str, Any]:
    write_series(folder / "X.npy", n, 1, LENGTH)
    return measured(folder / "X.npy", kept, n=n, tiny=True, limit=limit)


@pytest.mark.exhaustive
def test_an_array_in_memory_takes_at_most_its_size_and_a_third_more(tmp_path):
    # Some 200 to 260 MiB are needed whatever the size, the more the more the allocator fragments:
    # 400 MiB are enough to tell what grows with the data from what does not.
    measured = peaks(tmp_path, "array", 51_200)
    assert measured["fit_mib"] <= 1.3 * 400
    assert measured["predict_mib"] <= 1.3 * 400


def test_memory_does_not_grow_with_an_array_that_is_mapped(tmp_path):
    n = 32_000  # 250 MiB, beside 250 that any fit needs
    write_series(tmp_path / "X.npy", n, 1, LENGTH)
    # The scaling has read all series before the first batch; training is cut off.
    row = measured(tmp_path / "X.npy", "memmap", n=n, tiny=True, seconds=1)
    assert row["fit_mib"] <= ENOUGH
    assert row["predict_mib"] <= ENOUGH
    assert row["fit_seconds_before"] > 0
    assert 0 < row["fit_per_cpu_second"] < row["predict_per_cpu_second"]


@pytest.mark.exhaustive
def test_a_limit_of_address_space_need_not_grow_with_files(tmp_path):
    """With ``ulimit -v`` mapped pages count, read or not: a file of 800 MiB."""
    measured = peaks(tmp_path, "path", 102_400, limit=ENOUGH)
    assert measured["fit_mib"] <= ENOUGH
    assert measured["predict_mib"] <= ENOUGH
    assert np.isfinite(np.load(tmp_path / "X.path.out")).all()


def test_rows_of_other_runs_are_kept(tmp_path):
    keys = {"model": "tiny", "n": 8, "channels": 1, "length": 4}
    for kept, fit_mib in (("memmap", 1), ("path", 2), ("memmap", 3)):
        write(tmp_path / "memory.csv", pd.DataFrame([{**keys, "kept": kept, "fit_mib": fit_mib}]))
    rows = pd.read_csv(tmp_path / "memory.csv").set_index("kept")
    assert rows["fit_mib"].to_dict() == {"path": 2, "memmap": 3}


def test_parquet_is_unpacked_part_by_part(tmp_path):
    """Also where all rows are in one group, as many programs write them."""
    pa = pytest.importorskip("pyarrow", reason='needs the extra "parquet"')
    pq = pytest.importorskip("pyarrow.parquet")
    values = np.arange(2**27, dtype=np.float32)  # 512 MiB
    lists = pa.FixedSizeListArray.from_arrays(values, LENGTH)
    pq.write_table(pa.table({"series": lists}), tmp_path / "X.parquet", row_group_size=len(lists))
    done = subprocess.run(
        [sys.executable, "-c", UNPACKED, tmp_path / "X.parquet"], capture_output=True, text=True
    )
    assert done.stdout.split() == [str(len(lists))], done.stderr


UNPACKED = """
import resource, sys
import pyarrow.parquet
from tsformer.data.parquet import ParquetSeries, unpacked
before = 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if "VmSize" in line)
resource.setrlimit(resource.RLIMIT_AS, (before + 300 * 2**20,) * 2)
print(len(unpacked(ParquetSeries(sys.argv[1]))))
"""
