"""The collector runs only when called, and never scans frozen objects again."""

import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.acl.expected_offset import ExpectedOffset
from authorizerd.acl.model import AclFilter
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT
from authorizerd.acl.steps import Steps, finish
from authorizerd.acl.updates import AclTail, plan_creations, plan_deletions
from authorizerd.actors import steps
from authorizerd.actors.steps import CONTAINERS_MIN, collect_if_many, finish_in_turns
from authorizerd.config.alterations import (
    Alteration,
    AlterationError,
    AlterOperation,
    want_incremental,
)
from authorizerd.daemon import worker
from authorizerd.daemon.process.gc_control import (
    COLLECT_SECONDS,
    automatic_collection_off,
    collect_regularly,
)
from authorizerd.image.cluster import EMPTY_IMAGE
from authorizerd.protocol.worker_changes import encode_state
from authorizerd.protocol.worker_feed import Begin, encode_message, report_reader
from tests.support.acls import acl, snapshot_of


@pytest.fixture(autouse=True, scope="module")
def _thawed() -> Iterator[None]:
    """Collect what the tests have frozen, and freeze the collected tests again."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def make_cycles() -> None:
    for _ in range(2 * CONTAINERS_MIN):  # other objects that are freed reduce the collector's count
        cycle: list[object] = []
        cycle.append(cycle)


def is_looked_at(container: object) -> bool:
    return any(each is container for each in gc.get_objects())


def test_automatic_collections_stay_off_within_the_block() -> None:
    with automatic_collection_off():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_frozen_objects_are_not_scanned_again() -> None:
    loaded: list[object] = []
    assert is_looked_at(loaded)
    with automatic_collection_off():
        assert not is_looked_at(loaded)
        changed: list[object] = []
        make_cycles()
        assert collect_if_many()
        assert not is_looked_at(changed)


def test_nothing_is_frozen_where_collections_are_automatic() -> None:
    loaded: list[object] = []
    make_cycles()
    assert not collect_if_many()
    assert is_looked_at(loaded)


def test_cycles_are_collected_before_the_freeze() -> None:
    with automatic_collection_off():
        frozen = gc.get_freeze_count()
        make_cycles()
        assert collect_if_many()
        assert gc.get_freeze_count() - frozen < CONTAINERS_MIN / 2


@pytest.mark.usefixtures("autojump_clock")
async def test_cycles_are_collected_without_changes_too() -> None:
    with automatic_collection_off():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_regularly)
            make_cycles()
            assert gc.get_count()[0] >= CONTAINERS_MIN
            await trio.sleep(2 * COLLECT_SECONDS)
            assert gc.get_count()[0] < CONTAINERS_MIN
            nursery.cancel_scope.cancel()


async def test_a_collection_of_long_work_scans_few_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that the work has created since its last collection are frozen, not scanned."""
    chunk, chunks = CONTAINERS_MIN, 40
    scanned: list[int] = []

    def note(phase: str, _: object) -> None:
        if phase == "start":
            scanned.append(gc.get_count()[0])

    def work() -> Steps[list[list[object]]]:
        made: list[list[object]] = []
        for _ in range(chunks):
            made += ([] for _ in range(chunk))
            yield
        return made

    monkeypatch.setattr(steps, "TURN_SECONDS", 0)  # each chunk is a turn
    with automatic_collection_off():
        frozen = gc.get_freeze_count()
        gc.callbacks.append(note)
        try:
            made = await finish_in_turns(work())
        finally:
            gc.callbacks.remove(note)
        assert gc.get_freeze_count() - frozen > 0.9 * len(made)
    assert scanned
    assert max(scanned) < 2 * CONTAINERS_MIN
    assert sum(scanned) < chunk * chunks / 2


async def test_turns_of_a_worker_are_followed_by_collections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    def count() -> bool:
        nonlocal turns
        turns += not gc.isenabled()
        return False

    monkeypatch.setattr(steps, "collect_if_many", count)
    monkeypatch.setattr(steps, "TURN_SECONDS", 0)  # each step of the load is a turn
    near, far = trio.testing.memory_stream_pair()
    reports = report_reader()
    asking, asked = socket.socketpair(type=socket.SOCK_SEQPACKET)
    async with near, trio.open_nursery() as nursery:
        nursery.start_soon(worker.follow_feed, far)
        configuration = {"node.id": "1", "log.dirs": str(tmp_path)}
        await near.send_all(encode_message(Begin(1, configuration, questions=asked.fileno())))
        state = snapshot_of(acl("User:a", topic="t")), EMPTY_IMAGE
        for data in encode_state(2, lambda: state, lambda _: None):
            await near.send_all(data)
        done = None
        while done is None or done.number < 2:
            if (done := reports.next_message()) is None:
                reports.receive_data(await near.receive_some())
        await near.send_eof()
    asking.close()
    asked.close()
    assert turns


def _find_conflict() -> None:
    assert AclTail(EMPTY_SNAPSHOT, 9).find_conflict(ExpectedOffset(10**6)) is not None


def _alter() -> None:
    with suppress(AlterationError):
        asked = Alteration("log.retention.ms", AlterOperation.APPEND, "x")
        want_incremental([asked], frozenset())


@pytest.mark.parametrize(
    "refuse",
    [
        lambda: finish(plan_creations(AclTail(EMPTY_SNAPSHOT), [acl("alice")], lambda: b"")),
        lambda: finish(plan_deletions(AclTail(EMPTY_SNAPSHOT), [AclFilter(operation=0)])),
        _find_conflict,
        _alter,
    ],
    ids=["creation", "deletion", "conflict", "config"],
)
def test_refused_change_leaves_no_cycle(refuse: Callable[[], object]) -> None:
    """It is frozen while it waits, so the daemon would never free it, nor the states it holds."""
    refuse()
    gc.collect()
    gc.disable()
    try:
        refuse()
        assert gc.collect() == 0
    finally:
        gc.enable()
