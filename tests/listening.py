"""Where a process and its children listen, and waiting until it does."""

import socket
import time
import urllib.request
from collections.abc import Callable

import pytest


def listening(pid: int) -> set[tuple[str, int]]:
    """Return the addresses and ports at which a process and its children listen."""
    psutil = pytest.importorskip("psutil")
    addresses = set()
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        try:
            sockets = process.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        addresses |= {tuple(s.laddr) for s in sockets if s.status == psutil.CONN_LISTEN}
    return addresses


def free_port() -> int:
    """Return a port of this machine that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(address: str) -> bool:
    """Whether a server answers a request."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_until(true: Callable[[], object], seconds: float = 240) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
