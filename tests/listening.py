"""Where a process and its children listen."""

from __future__ import annotations

import pytest


def listening(pid: int) -> set[tuple[str, int]]:
    """Return the addresses and ports at which a process and its children listen."""
    psutil = pytest.importorskip("psutil")
    found = set()
    for each in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        try:
            sockets = each.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        found |= {tuple(s.laddr) for s in sockets if s.status == psutil.CONN_LISTEN}
    return found
