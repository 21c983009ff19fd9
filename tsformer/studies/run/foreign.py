"""Code of others in a fit: what ends the program elsewhere ends the fit alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["exits_as_errors"]


@contextmanager
def exits_as_errors(*, own_code: bool = False) -> Iterator[None]:
    """Raise RuntimeError in place of SystemExit and of a KeyboardInterrupt without Ctrl-C.

    With `own_code`, callbacks of the user run in the block, whose KeyboardInterrupt counts as
    Ctrl-C.
    """
    with _interrupts() as interrupted:
        try:
            yield
        except SystemExit as error:
            raise RuntimeError(
                f"its code called sys.exit({error.code!r}), which ended this fit only"
            ) from error
        except KeyboardInterrupt as error:
            if own_code or interrupted():
                raise
            raise RuntimeError(
                "its code raised KeyboardInterrupt, which ended this fit only"
            ) from error


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Return a function that tells whether Ctrl-C was pressed inside the block."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before):  # Ctrl-C reaches the main thread; workers ignore it
        yield lambda: False
        return
    received = []

    def handle(number: int, frame: Any) -> None:
        received.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        # A handler of the code itself tells nobody: its interruption counts as Ctrl-C.
        yield lambda: bool(received) or signal.getsignal(signal.SIGINT) is not handle
    finally:
        signal.signal(signal.SIGINT, before)
