"""elect: of runs created for the same thing at once everyone takes the same one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tsformer.tracking import RunStore
from tsformer.tracking.election import CHOSEN, elect

pytest.importorskip("mlflow", reason='needs the extra "tracking"')


@pytest.fixture
def create(store: RunStore, request: pytest.FixtureRequest) -> Callable[[int], str]:
    """Create a candidate that says it began at a time, and return its id."""

    def run(began: int) -> str:
        tags = {"tsformer.key": request.node.name}
        made = store.client().create_run(store.experiment_id, start_time=began, tags=tags)
        return str(made.info.run_id)

    return run


@pytest.fixture
def candidates(store: RunStore, request: pytest.FixtureRequest) -> Callable[[], list[Any]]:
    return lambda: store.runs("RUNNING", {"tsformer.key": request.node.name})


@pytest.mark.parametrize("newest", [False, True])
def test_the_oldest_or_the_newest_for_whoever_asks(
    newest: bool, store: RunStore, create: Any, candidates: Any
) -> None:
    assert elect(candidates, store.client(), newest=newest) is None
    runs = [create(began) for began in (2000, 1000, 3000)]
    for _ in range(2):
        assert elect(candidates, store.client(), newest=newest) == runs[2 if newest else 1]


def test_who_was_elected_stays_though_the_next_says_it_is_older(
    store: RunStore, create: Any, candidates: Any
) -> None:
    first = create(2000)
    assert elect(candidates, store.client()) == first
    create(1000)  # the clock of another machine is behind
    assert elect(candidates, store.client()) == first


def test_a_candidate_that_appears_while_another_is_being_elected(
    store: RunStore, create: Any, candidates: Any
) -> None:
    class Slow:
        """A client that is about to write when somebody else elects."""

        def __init__(self) -> None:
            self.other: str | None = None

        def log_param(self, *args: str) -> None:
            if self.other is None:
                create(1000)
                self.other = elect(candidates, store.client())
            store.client().log_param(*args)

    create(2000)
    slow = Slow()
    assert elect(candidates, slow) == slow.other  # type: ignore[arg-type]


def test_who_saw_the_younger_alone_does_not_elect_it_after_the_older(
    store: RunStore, create: Any, candidates: Any
) -> None:
    class Slow:
        """A client that pauses after its first write, when somebody with an old list elects."""

        def __init__(self, seen: list[Any]) -> None:
            self.lists = iter([seen])
            self.other: str | None = None

        def log_param(self, *args: str) -> None:
            store.client().log_param(*args)
            if self.other is None:
                self.other = elect(lambda: next(self.lists, None) or candidates(), store.client())

    create(2000)
    slow = Slow(candidates())
    create(1000)
    elected = elect(candidates, slow)  # type: ignore[arg-type]
    assert elected == slow.other
    chosen = [run for run in candidates() if run.data.params.get(CHOSEN) == run.info.run_id]
    assert [run.info.run_id for run in chosen] == [elected]


def test_threads_that_create_and_elect_at_once(
    store: RunStore, create: Any, candidates: Any
) -> None:
    elected: list[str | None] = []
    start = threading.Barrier(4)

    def take_part() -> None:
        start.wait()
        create(1000)
        elected.append(elect(candidates, store.client()))

    threads = [threading.Thread(target=take_part) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(elected) == 4
    assert len(set(elected)) == 1
    chosen = [run for run in candidates() if run.data.params.get(CHOSEN) == run.info.run_id]
    assert [run.info.run_id for run in chosen] == elected[:1]


def test_a_store_that_fails_elects_nobody(store: RunStore, create: Any, candidates: Any) -> None:
    class Broken:
        def log_param(self, *args: str) -> None:
            raise ConnectionError("away")

    create(1000)
    with pytest.raises(ConnectionError, match="away"):
        elect(candidates, Broken())  # type: ignore[arg-type]
