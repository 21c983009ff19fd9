"""Claims: who has a fit, who may take it over, and who may not."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from tsformer.tracking import RunStore, TrackedRun, prepare_store
from tsformer.tracking.claims import Claims
from tsformer.tracking.leases import LEASE_SECONDS, Watch

pytest.importorskip("mlflow", reason='needs the extra "tracking"')


@pytest.fixture
def store(uri: str, request: pytest.FixtureRequest) -> RunStore:
    return prepare_store(uri, request.node.name)


@pytest.fixture
def mine(store: RunStore) -> Claims:
    return Claims(store, "mine")


@pytest.fixture
def others(store: RunStore) -> Claims:
    return Claims(store, "others")


def start(claims: Claims, key: str = "key", tags: Mapping[str, str] | None = None) -> TrackedRun:
    everything = {**claims.tags(), **(tags or {})}
    return claims.store.start(key, kind="fit", key=key, tags=everything)


def elsewhere(claims: Claims, key: str = "key", lease_seconds: float = 20) -> TrackedRun:
    """Claim a fit as a process of another machine would."""
    tags = claims.tags(lease_seconds)
    process = {**json.loads(tags["tsformer.process"]), "host": "elsewhere"}
    return start(claims, key, {**tags, "tsformer.process": json.dumps(process)})


def dead(claims: Claims, key: str = "key") -> TrackedRun:
    """Claim a fit as a process of this machine that has ended."""
    process = {**json.loads(claims.tags()["tsformer.process"]), "pid": 2**22 + 1}
    return start(claims, key, {"tsformer.process": json.dumps(process)})


def statuses(store: RunStore) -> dict[str, str]:
    return {run.info.run_id: run.info.status for run in store.runs()}


def test_nobody_has_it(mine: Claims) -> None:
    known = mine.look_up("key")
    assert (known.finished, known.failed, known.held, known.losses) == (None, [], False, 0)
    assert pickle.loads(pickle.dumps(mine)) == mine


def test_who_lives_keeps_it(mine: Claims, others: Claims, store: RunStore) -> None:
    here, there = start(others), elsewhere(others, "other")
    assert mine.look_up("key").held
    assert mine.look_up("other").held
    watch = Watch()
    assert mine.free(["key", "other", "nobody's"], watch) == {"nobody's"}
    mine.release(["key", "other"])
    assert set(statuses(store).values()) == {"RUNNING"}
    assert not here.ended()
    assert not there.ended()


def test_what_a_dead_process_of_this_machine_had_is_free_at_once(
    mine: Claims, others: Claims
) -> None:
    left = dead(others)
    assert not mine.look_up("key").held
    assert left.ended()
    left = dead(others)
    assert mine.free(["key"], Watch()) == {"key"}
    assert left.ended()
    left, unrelated = dead(others), dead(others, "of another study")
    mine.release(["key"])
    assert left.ended()
    assert not unrelated.ended()


def test_what_a_silent_process_elsewhere_had_is_free_after_its_lease(
    mine: Claims, others: Claims
) -> None:
    now = [0.0]
    watch = Watch(lambda: now[0])
    silent, talks = elsewhere(others), elsewhere(others, "talks")
    for i in range(3):
        assert mine.free(["key", "talks"], watch) == set()
        now[0] += 9
        talks.tags({"tsformer.heartbeat": str(i)})
    assert mine.free(["key", "talks"], watch) == {"key"}
    assert silent.ended()
    assert not talks.ended()
    # A fit that gives no sign while it computes would be taken over for ever.
    assert mine.look_up("key").lease_seconds == 2 * LEASE_SECONDS
    assert mine.look_up("talks").lease_seconds == LEASE_SECONDS


def test_of_two_that_claim_at_once_one_has_it(
    mine: Claims, others: Claims, store: RunStore
) -> None:
    first, second = start(mine), start(others)
    # Whoever asks first, and whoever asks again.
    assert [others.confirm("key", second), mine.confirm("key", first)] == [False, True]
    assert mine.confirm("key", first)
    assert statuses(store) == {first.run_id: "RUNNING"}, "the other is out of the way"


def test_a_claim_that_is_confirmed_holds_against_an_older_one(
    mine: Claims, others: Claims, store: RunStore
) -> None:
    first = start(mine)
    assert mine.confirm("key", first)
    tags = {"tsformer.key": "key", "tsformer.kind": "fit", **others.tags()}
    made = store.client().create_run(store.experiment_id, start_time=1000, tags=tags)
    late = TrackedRun(store.client(), made.info.run_id)
    assert not others.confirm("key", late), "its clock is behind"
    assert mine.confirm("key", first)


def test_a_fit_that_was_finished_since_it_was_looked_up(mine: Claims, others: Claims) -> None:
    assert not mine.look_up("key").held
    with start(others) as run:
        assert others.confirm("key", run)
    late = start(mine)
    assert not mine.confirm("key", late)
    found = mine.look_up("key").finished
    assert found is not None
    assert found.info.run_id == run.run_id


def test_without_a_store_everybody_fits(mine: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mine.confirm("key", TrackedRun(None, ""))
    run = start(mine)

    def away(*args: Any, **options: Any) -> list[Any]:
        raise ConnectionError("away")

    monkeypatch.setattr(RunStore, "runs", away)
    assert mine.confirm("key", run)
    with pytest.raises(ConnectionError):
        mine.free(["key"], Watch())


def test_release_ends_what_is_ones_own(mine: Claims, others: Claims) -> None:
    own, theirs, unrelated = start(mine), start(others), start(mine, "of another study")
    mine.release(["key"])
    assert own.ended()
    assert not theirs.ended()
    assert not unrelated.ended()


def test_losses_are_those_of_ones_own_call(mine: Claims, others: Claims) -> None:
    for _ in range(2):
        start(mine)
        known = mine.look_up("key")
        dead(others)
        others.look_up("key")
    assert known.losses == 2
    assert mine.look_up("key").losses == 2
    assert others.look_up("key").losses == 2
    assert Claims(mine.store, "third").look_up("key").losses == 0


def test_failures_of_others_are_told(mine: Claims, others: Claims) -> None:
    for claims in (mine, others):
        start(claims).end("FAILED")
    (failed,) = mine.look_up("key").failed
    assert failed.data.tags["tsformer.owner"] == "others"
