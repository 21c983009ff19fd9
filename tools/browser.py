"""MLflow's pages in a headless Chromium: for the tests in tests/ui and for screenshots.

    python tools/browser.py

prints the path of Chromium, or exits with 1.
"""

from __future__ import annotations

import collections
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Return the path of Chromium: $CHROMIUM, the system's, or the one Playwright installed."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is not None:
        return path
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if os.path.exists(path) else None


@contextmanager
def open_browser(chromium: str) -> Iterator[Browser]:
    """Start a browser, and close it on exit."""
    from playwright.sync_api import sync_playwright

    # Root, as in a container, has no sandbox; all pages are served by this machine.
    flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def running_ui(store: str, *arguments: str) -> Iterator[dict[str, str]]:
    """Run `tsformer ui` on a free port; yield the addresses that it prints, once it responds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tsformer", "ui", "--tracking-uri", store]
    server = subprocess.Popen(
        [*command, "--port", str(port), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,  # its own process group, to be terminated as a whole
    )
    try:
        addresses = _read_addresses(server)
        _wait_for(port)
        # The server logs every request there, and would wait for ever once the pipe is full.
        threading.Thread(target=collections.deque, args=(server.stdout, 0), daemon=True).start()
        yield addresses
    finally:
        os.killpg(server.pid, signal.SIGINT)
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait_for(port: int) -> None:
    """Return when the server accepts connections."""
    end = time.monotonic() + 90
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def _read_addresses(server: subprocess.Popen[str]) -> dict[str, str]:
    addresses = {}
    assert server.stdout is not None
    alarm = threading.Timer(90, server.terminate)
    alarm.start()
    for line in server.stdout:
        if "http://" in line:
            page, address = line.split("http://")
            addresses[page.strip()] = f"http://{address.strip()}"
        elif addresses:  # the line after the addresses
            break
    alarm.cancel()
    if not addresses:
        raise RuntimeError(f"`tsformer ui` printed no address; its exit code is {server.poll()}")
    return addresses


if __name__ == "__main__":
    chromium = find_chromium()
    print(chromium or "Chromium was not found")
    sys.exit(0 if chromium else 1)
