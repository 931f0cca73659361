"""``/v1/watch``: nothing lost, nothing twice, in order; rights, limits and slow clients."""

import math
from pathlib import Path
from unittest.mock import patch

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import AclRemoved, ChangeBatch
from authorizerd.acl.steps import finish
from authorizerd.actors import acl_journal
from authorizerd.actors.acl_journal import CHANGE_BYTES, CHANGES_PER_PART
from authorizerd.actors.published_state import STALE
from authorizerd.actors.record_applier import Renew
from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.queries.acl_watch import AHEAD_SECONDS, HEARTBEAT_SECONDS, WATCH_PATH
from authorizerd.daemon.queries.watchers import WatchStatistics
from authorizerd.protocol.http.messages import Response
from authorizerd.protocol.http.streamed import StreamedResponse
from tests.daemon.decision_place import entry, settings_of
from tests.daemon.decisions.acl_place import DESCRIBE, DESCRIBE_ID, AclPlace, Client
from tests.support.acl_events import copy_of, shown, shown_id
from tests.support.acls import snapshot_of
from tests.support.log_files import added
from tests.support.strategies import logs

PROXY_TOKEN = "proxy.secret"
ROOT_TOKEN_FILE = entry("root", "User:root")

pytestmark = pytest.mark.usefixtures("autojump_clock")


ACTIONS = st.lists(
    st.one_of(st.just("apply"), st.just("connect"), st.integers(1, 900)), max_size=12
)


@given(
    log=logs(unknown_codes=True),
    actions=ACTIONS,
    journal_bytes=st.sampled_from([CHANGE_BYTES, 4 * CHANGE_BYTES, 1 << 20]),
    part=st.integers(1, 3),
)
async def test_client_that_lists_and_watches_ends_with_the_daemons_acls(
    tmp_path_factory: pytest.TempPathFactory,
    log: list[ChangeBatch],
    actions: list[str | int],
    journal_bytes: int,
    part: int,
) -> None:
    """Wherever its connections break, and however much changes meanwhile."""
    batches = iter(log)
    folder = tmp_path_factory.mktemp("tokens")
    with patch.object(acl_journal, "CHANGES_PER_PART", part):
        async with trio.open_nursery() as nursery:
            place = await AclPlace(folder, journal_bytes=journal_bytes).load(nursery)
            client = Client(place, nursery)
            for action in actions:
                if action == "apply":
                    batch = next(batches, None)
                    if batch is not None:
                        await place.change(*batch.changes)
                elif action == "connect":
                    await client.connect()
                else:
                    assert isinstance(action, int)
                    await client.connect(bytes_max=action)
            await client.connect()
            for batch in batches:
                await place.change(*batch.changes)
            await client.disconnect()
            await client.connect()
            await client.disconnect()
            assert client.copy.acls == copy_of(place.applier.applied.newest)
            if journal_bytes == 1 << 20:
                assert client.listings == 1
            assert place.watchers.statistics.watchers_open == 0
            nursery.cancel_scope.cancel()


async def test_watch_begins_with_the_newest_offset_and_sends_changes(place: AclPlace) -> None:
    """Each batch is one event, with its changes in order. A removal has its whole ACL."""
    await place.change(added(1))
    session = await place.watch()
    await place.change(added(2), AclRemoved(added(1).id), AclRemoved(added(2).id))
    begin, changed = session.events
    assert (begin.name, begin.data, begin.id) == ("begin", {"after": 1, "offset": 1}, "1")
    assert (changed.name, changed.id) == ("acls", "2")
    one, two = added(1), added(2)
    assert changed.data == {
        "offset": 2,
        "more": False,
        "changes": [
            {"change": "add", "id": shown_id(two.id), "acl": shown(two.acl)},
            {"change": "remove", "id": shown_id(one.id), "acl": shown(one.acl)},
            {"change": "remove", "id": shown_id(two.id), "acl": shown(two.acl)},
        ],
    }
    assert place.watchers.statistics == WatchStatistics(watchers_open=1, events_sent=1)


@pytest.mark.parametrize(
    ("query", "header"), [("after=1", None), ("", b"1"), ("after=0", b"1"), ("after=1", b"")]
)
async def test_watch_resumes_by_offset(place: AclPlace, query: str, header: bytes | None) -> None:
    """The first event keeps the client's place, because the changes follow it."""
    for number in range(1, 4):
        await place.change(added(number))
    headers = [] if header is None else [(b"last-event-id", header)]
    session = await place.watch(query, headers=headers)
    assert [event.id for event in session.events] == ["1", "2", "3"]
    assert session.events[0].data == {"after": 1, "offset": 3}


async def test_offset_that_has_left_memory_is_gone(nursery: trio.Nursery, tmp_path: Path) -> None:
    place = await AclPlace(tmp_path, journal_bytes=CHANGE_BYTES).load(nursery)
    for number in range(1, 4):
        await place.change(added(number))
    status, text = await place.refusal(WATCH_PATH, "after=1")
    assert status == 410
    assert "list the ACLs again" in text
    assert place.watchers.statistics.watchers_open == 0


async def test_offset_applied_soon_is_waited_for(nursery: trio.Nursery, place: AclPlace) -> None:
    """Another worker may be ahead. An offset that no log reaches is refused."""

    async def apply_later() -> None:
        await trio.sleep(AHEAD_SECONDS / 2)
        await place.change(added(1))

    nursery.start_soon(apply_later)
    session = await place.watch("after=1")
    assert session.events[0].data == {"after": 1, "offset": 1}
    started = trio.current_time()
    status, text = await place.refusal(WATCH_PATH, "after=7")
    assert (status, "not known here" in text) == (410, True)
    assert trio.current_time() - started == pytest.approx(AHEAD_SECONDS)


async def test_long_batch_is_sent_in_parts_and_resumed_as_a_whole(place: AclPlace) -> None:
    """Only the last part has the offset as its id."""
    session = await place.watch()
    with patch.object(acl_journal, "CHANGES_PER_PART", 2):
        await place.change(*map(added, range(1, 6)))
    parts = session.events[1:]
    assert [len(part.data["changes"]) for part in parts] == [2, 2, 1]
    assert [part.data["more"] for part in parts] == [True, True, False]
    assert [part.id for part in parts] == ["0", "0", "1"]
    assert place.watchers.statistics.events_sent == 1


async def test_only_the_slow_client_must_list_again(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The journal does not wait for anybody."""
    place = await AclPlace(tmp_path, journal_bytes=2 * CHANGE_BYTES).load(nursery)
    slow, quick = await place.watch(), await place.watch()
    slow.may_read = trio.Event()
    for number in range(1, 7):
        await place.change(added(number))
    assert [event.id for event in quick.events] == [*map(str, range(7))]
    assert place.journal._bytes <= 2 * CHANGE_BYTES
    slow.may_read.set()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.names() == ["begin", "acls", "expired"]
    assert slow.reader.last_id == "1"
    assert slow.has_ended
    assert place.watchers.statistics.watchers_ended_expired == 1


async def test_client_that_stops_reading_is_counted(place: AclPlace) -> None:
    response = await place.ask(WATCH_PATH)
    assert isinstance(response, StreamedResponse)

    async def refuse(data: bytes) -> None:
        raise ClosingError("the client has not read its answer for 30 s")

    with pytest.raises(ClosingError):
        await response.write(refuse)
    response.close()
    assert place.watchers.statistics.watchers_ended_slow == 1
    assert 0 < response.stall_seconds <= 60
    assert response.is_live


async def test_quiet_watch_has_heartbeats_that_move_its_place(place: AclPlace) -> None:
    """Records other than ACLs move the offset as well."""
    session = await place.watch()
    await place.change()
    assert session.reader.last_id == "0"
    await trio.sleep(1.5 * HEARTBEAT_SECONDS)
    assert session.reader.last_id == "1"
    assert session.reader.comments == ["heartbeat"]
    assert session.names() == ["begin"]


async def test_heartbeat_does_not_skip_a_change_that_has_just_come(place: AclPlace) -> None:
    """Its place moves only to what was sent. The order of the two tasks is random in each round."""
    rounds = 30
    session = await place.watch()
    for number in range(1, rounds + 1):
        await trio.sleep(HEARTBEAT_SECONDS)  # the time of the next heartbeat
        finish(place.journal.collect(snapshot_of(), [added(number)]))
        place.journal.commit(number)
        await trio.testing.wait_all_tasks_blocked()
    assert session.reader.comments
    assert all(int(last_id) == events - 1 for last_id, events in session.places)
    assert len(session.events) == rounds + 1


async def test_only_get_and_head_are_answered(place: AclPlace) -> None:
    response = await place.ask(WATCH_PATH, method="POST")
    assert isinstance(response, Response)
    assert (response.status, response.headers) == (405, ((b"Allow", b"GET, HEAD"),))


async def test_no_change_is_sent_after_a_reload_that_takes_the_right_away(place: AclPlace) -> None:
    session = await place.watch(token=PROXY_TOKEN)
    place.callers.reconfigure(settings_of())
    await place.change(added(1))
    assert session.names() == ["begin", "closed"]
    assert "authorizerd.callers.read does not list it" in session.events[-1].data["reason"]
    assert session.has_ended
    assert session.reader.last_id == "0"
    assert place.watchers.statistics.watchers_ended_forbidden == 1


async def test_removed_token_ends_a_watch_in_the_middle_of_a_batch(place: AclPlace) -> None:
    """A slow reader may take a large batch for minutes."""
    session = await place.watch(token=PROXY_TOKEN)
    session.may_read = trio.Event()
    await place.change(*(added(number) for number in range(1, 2 * CHANGES_PER_PART + 1)))
    place.rewrite_tokens(ROOT_TOKEN_FILE)
    session.may_read.set()
    await trio.testing.wait_all_tasks_blocked()
    assert session.names() == ["begin", "acls", "closed"]


@pytest.mark.parametrize("is_quiet", [True, False])
async def test_removed_token_ends_its_watches(place: AclPlace, is_quiet: bool) -> None:
    """At the next change, or at the next heartbeat."""
    session = await place.watch(token=PROXY_TOKEN)
    place.rewrite_tokens(ROOT_TOKEN_FILE)
    if is_quiet:
        await trio.sleep(1.5 * HEARTBEAT_SECONDS)
    else:
        await place.change(added(1))
    assert session.names() == ["begin", "closed"]
    assert session.has_ended


async def test_suspended_decisions_hold_changes_back(place: AclPlace) -> None:
    """Nobody else may begin meanwhile. Afterwards, nothing is missing."""
    await place.feed.send(Renew(trio.current_time() + 1))
    session = await place.watch()
    await trio.sleep(1.1)
    await place.change(added(1))
    await trio.sleep(1.5 * HEARTBEAT_SECONDS)
    assert session.names() == ["begin", "suspended"]
    assert session.events[-1].data["reason"] == STALE
    assert session.reader.last_id == "0"
    assert (await place.refusal(WATCH_PATH, "after=0"))[0] == 503
    await place.feed.send(Renew(math.inf))
    await trio.testing.wait_all_tasks_blocked()
    assert session.names() == ["begin", "suspended", "resumed", "acls"]
    assert session.reader.last_id == "1"


async def test_places_are_limited_for_all_and_for_each_caller(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """One caller gets at most half of them, rounded up."""
    place = await AclPlace(tmp_path, connections_max=3).load(nursery, (DESCRIBE_ID, DESCRIBE))
    first = await place.watch()
    await place.watch()
    status, text = await place.refusal(WATCH_PATH)
    assert (status, "authorizerd.watch.max.connections" in text) == (503, True)
    await place.watch(token=PROXY_TOKEN)
    assert (await place.refusal(WATCH_PATH, token=PROXY_TOKEN))[0] == 503
    first.scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    await place.watch(token=PROXY_TOKEN)
    statistics = place.watchers.statistics
    assert (statistics.watchers_open, statistics.watchers_refused) == (3, 2)
    assert statistics.watchers_ended_closed == 1


async def test_head_takes_no_place(nursery: trio.Nursery, tmp_path: Path) -> None:
    place = await AclPlace(tmp_path, connections_max=1).load(nursery)
    response = await place.ask(WATCH_PATH, method="HEAD")
    assert isinstance(response, StreamedResponse)
    response.close()
    assert place.watchers.statistics.watchers_open == 0
