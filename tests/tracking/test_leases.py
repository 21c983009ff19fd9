"""Leases: who is dead, who is silent, and signs of life that hold nothing up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

import tsformer.tracking.leases as leases
from tsformer.tracking.leases import Watch, beating, is_dead, lease_tags


def of(**process: object) -> dict[str, str]:
    """Tags like those of this process, except for this."""
    own = json.loads(lease_tags()["tsformer.process"])
    return {**lease_tags(), "tsformer.process": json.dumps({**own, **process})}


def test_this_process_is_alive() -> None:
    assert not is_dead(lease_tags())


def test_a_run_without_a_lease_is_of_an_earlier_version() -> None:
    assert is_dead({"tsformer.kind": "fit"})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_processes_of_this_machine_that_ended() -> None:
    process = subprocess.Popen(["sleep", "60"])
    tags = of(pid=process.pid, started=leases._started(process.pid))
    assert not is_dead(tags)
    process.kill()
    while leases._started(process.pid) != "ended":  # nobody has asked how it ended
        time.sleep(0.01)
    assert is_dead(tags)
    process.wait()
    assert is_dead(tags)
    assert is_dead(of(started="1")), "its id is that of another process now"
    assert not is_dead(of(started=leases._started(os.getpid())))


@pytest.mark.parametrize("place", ["host", "boot", "namespace"])
def test_of_another_machine_or_container_nothing_is_known(place: str) -> None:
    assert not is_dead(of(pid=2**22 + 1, **{place: "elsewhere"}))


class Heard:
    """A watch whose clock is set, on runs that show the signs they are given."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = Watch(lambda: self.now)

    def silent(self, seconds: float, lease: str = "60", **signs: str) -> list[str]:
        """Return who is silent, asked so many seconds later."""
        self.now += seconds
        runs: list[Any] = [
            SimpleNamespace(
                info=SimpleNamespace(run_id=run_id),
                data=SimpleNamespace(
                    tags={"tsformer.heartbeat": sign, "tsformer.lease_seconds": lease}
                ),
            )
            for run_id, sign in signs.items()
        ]
        return [run.info.run_id for run in self.watch.silent(runs)]


def test_silence_is_counted_from_the_latest_sign_that_was_seen() -> None:
    heard = Heard()
    for i in range(20):  # a sign every ten seconds keeps a lease of twenty
        assert heard.silent(5, "20", a=str(i // 2)) == []
    for _ in range(3):
        assert heard.silent(5, "20", a="9") == []
    assert heard.silent(5, "20", a="9") == ["a"]


def test_what_a_sign_says_does_not_matter() -> None:
    heard = Heard()
    for sign in ("2026", "1970", "2026", "1970"):
        assert heard.silent(9, "10", a=sign) == []


def test_time_in_which_nobody_listened_does_not_count() -> None:
    heard = Heard()
    heard.silent(1, a="1", b="1")
    assert heard.silent(10_000, a="1", b="1") == [], "both may have been asleep"
    for _ in range(5):
        assert heard.silent(10, a="1", b="2") == []
    assert heard.silent(10, a="1", b="2") == ["a"]


def test_each_run_has_the_lease_it_says() -> None:
    heard = Heard()
    heard.silent(0, "30", a="1")
    assert not any(heard.silent(10, "30", a="1") for _ in range(3))
    assert heard.silent(10, "30", a="1") == ["a"]
    assert heard.silent(0, "300", a="1") == []


def runs(client: Any, **created: bool) -> list[Any]:
    """Runs of these ids, or that could not be created."""
    return [SimpleNamespace(client=client if c else None, run_id=i) for i, c in created.items()]


def test_signs_of_life_go_on_though_the_store_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    signs: list[tuple[str, str]] = []
    several = threading.Event()

    class Client:
        def set_tag(self, run_id: str, tag: str, sign: str) -> None:
            signs.append((run_id, sign))
            if len(signs) == 9:
                several.set()
            if len(signs) % 2:
                raise ConnectionError("away")

    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.002)
    before = set(threading.enumerate())
    with beating(runs(Client(), a=True, lost=False, b=True)):
        (thread,) = set(threading.enumerate()) - before
        assert several.wait(10)
    assert {run_id for run_id, _ in signs} == {"a", "b"}
    assert len({sign for _, sign in signs}) == len(signs)
    thread.join(10)
    assert not thread.is_alive(), "they end with the block"


def test_a_store_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, back = threading.Event(), threading.Event()

    class Client:
        def set_tag(self, *args: str) -> None:
            hanging.set()
            back.wait(20)

    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.002)
    with beating(runs(Client(), a=True)):
        assert hanging.wait(10)
        begun = time.monotonic()
    assert time.monotonic() - begun < 10
    back.set()
