"""Clients with several addresses: daemons that die, hang, are not ready or lag."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import trio

from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd_client import (
    ConnectionLostError,
    NotReadyError,
    Question,
    TimedOutError,
    TokenRefusedError,
    daemons,
)
from tests.clients.conftest import in_python
from tests.clients.python_clients import (
    SECONDS_MAX,
    AnyClient,
    NewClient,
    new_snapshot,
    running_pair,
    start,
)
from tests.clients.remote_clients import REMOTE, RemoteClient
from tests.clients.stand_in import GREETING, HELLO_FAULTS, start_stand_in
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback, until
from tests.fuzz.target import frame_contents
from tests.support.daemon_process import closed_address

ALICE = Question("User:alice", None, "READ", "TOPIC", "orders")
BOB = Question("User:bob", None, "READ", "TOPIC", "orders")
FAILOVER_SECONDS = 0.5
CALL_SECONDS_MAX = 20
"""Far above the time of a failover, for a busy machine; a question that waits this long fails."""


async def answered_by(client: AnyClient) -> int:
    """Return the offset of the daemon that answers."""
    decisions = await client.decide_many([ALICE, BOB])
    assert decisions.allowed == [True, False]
    return int(decisions.offset)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_daemon_that_fails_under_load_costs_no_answer(
    new_client: NewClient, tmp_path: Path, prepared_log: Path, number: signal.Signals
) -> None:
    """Every question is answered correctly, and none takes much longer than one failover."""
    decided: Counter[bool] = Counter()
    seconds: list[float] = []
    has_failed, may_end = trio.Event(), trio.Event()

    async def ask() -> None:
        while not may_end.is_set():
            started = trio.current_time()
            decisions = await client.decide_many([ALICE, BOB] * 5)
            seconds.append(trio.current_time() - started)
            assert decisions.allowed == [True, False] * 5
            decided[has_failed.is_set()] += 1

    async def wait_for(key: bool, count: int) -> None:
        await until(lambda: decided[key] >= count)

    with running_pair(tmp_path, prepared_log) as pair:
        client = new_client(
            [each.ready["decision_stream"] for each in pair],
            timeout_seconds=CALL_SECONDS_MAX,
            failover_timeout_seconds=FAILOVER_SECONDS,
        )
        async with trio.open_nursery() as askers:
            for _ in range(8):
                askers.start_soon(ask)
            await wait_for(False, 200)
            pair[0].process.send_signal(number)
            has_failed.set()
            await wait_for(True, 200)
            may_end.set()
        client.close()
        pair[0].process.kill()
    assert max(seconds) < FAILOVER_SECONDS + CALL_SECONDS_MAX / 4


async def test_silent_daemon_costs_one_failover_at_most(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """The silent daemon is set aside, and gets no other question."""
    unanswered: list[bytes] = []
    silent = await start_stand_in(nursery, GREETING, then_closes=False, unanswered=unanswered)
    second, _ = await start(nursery, 5)
    client = new_client([silent, second], failover_timeout_seconds=FAILOVER_SECONDS)
    started = trio.current_time()
    assert await answered_by(client) == 5
    assert FAILOVER_SECONDS <= trio.current_time() - started < CALL_SECONDS_MAX
    assert [await answered_by(client) for _ in range(5)] == [5] * 5
    assert len(unanswered) == 1


async def test_short_time_limit_is_divided_among_the_daemons(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    silent = [await start_stand_in(nursery, GREETING, then_closes=False) for _ in range(2)]
    last, _ = await start(nursery, 5)
    client = new_client([*silent, last], timeout_seconds=3, failover_timeout_seconds=60)
    assert await answered_by(client) == 5


async def test_daemon_not_ready_is_skipped(new_client: NewClient, nursery: trio.Nursery) -> None:
    """A question is asked once more only while another daemon may answer."""
    first, place = await start(nursery, None)
    second, other = await start(nursery, 5)
    client = new_client([first, second])
    assert await answered_by(client) == 5
    other.snapshot.publish(None)
    for _ in range(3):
        with pytest.raises(NotReadyError):
            await client.decide(ALICE)
    place.snapshot.publish(new_snapshot(7))
    with trio.fail_after(SECONDS_MAX):
        while True:
            try:
                assert await answered_by(client) == 7
                break
            except NotReadyError:
                await trio.sleep(0.01)


async def test_all_dead_is_an_error_that_names_each_address(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    addresses = [closed_address(), closed_address()]
    client = new_client(addresses, timeout_seconds=0.5)
    started = trio.current_time()
    with pytest.raises(ConnectionLostError, match="not connected: ") as raised:
        await client.decide(ALICE)
    assert trio.current_time() - started < SECONDS_MAX / 2
    assert all(f"{each}: " in str(raised.value) for each in addresses)


async def test_all_silent_ends_at_the_limit(new_client: NewClient, nursery: trio.Nursery) -> None:
    addresses = [await start_stand_in(nursery, GREETING, then_closes=False) for _ in range(2)]
    client = new_client(addresses, timeout_seconds=1, failover_timeout_seconds=0.2)
    started = trio.current_time()
    for _ in range(2):
        with pytest.raises((TimedOutError, ConnectionLostError)):
            await client.decide(ALICE)
    assert trio.current_time() - started < SECONDS_MAX / 2


async def test_daemon_that_refuses_is_skipped(new_client: NewClient, nursery: trio.Nursery) -> None:
    """Its reason is raised only if no other daemon can be reached."""
    refusing = await start_stand_in(nursery, HELLO_FAULTS["refuses the token"][0])
    second, _ = await start(nursery, 5)
    client = new_client([refusing, second])
    assert await answered_by(client) == 5
    alone = new_client([refusing, closed_address()])
    with pytest.raises(TokenRefusedError):
        await alone.decide(ALICE)


@in_python
async def test_client_returns_to_an_earlier_address(
    new_client: NewClient, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so once the daemon is ready, and no question fails or waits long meanwhile."""
    monkeypatch.setattr(daemons, "RETURN_SECONDS", 0.1)
    first, place = await start(nursery, None)
    second, _ = await start(nursery, 5)
    client = new_client([first, second])
    give_up = trio.current_time() + 1
    while trio.current_time() < give_up:
        assert await answered_by(client) == 5
        await trio.sleep(0.02)
    place.snapshot.publish(new_snapshot(7))
    give_up = trio.current_time() + SECONDS_MAX
    while await answered_by(client) == 5:
        assert trio.current_time() < give_up
        await trio.sleep(0.02)
    assert [await answered_by(client) for _ in range(10)] == [7] * 10


@in_python
async def test_daemon_that_is_not_ready_gets_no_question(
    new_client: NewClient, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the hello tells an attempt to return that the ACLs are not loaded."""
    monkeypatch.setattr(daemons, "RETURN_SECONDS", 0.05)
    place = Place(None, loaded=False)
    server = new_server(place)
    second, _ = await start(nursery, 5)
    client = new_client([await start_on_loopback(nursery, server), second])
    for _ in range(20):
        assert await answered_by(client) == 5
        await trio.sleep(0.05)
    assert server.counts.not_ready == 2  # both questions of the first frame
    assert server.statistics.requests >= 4  # the hellos of at least two attempts to return


@in_python
async def test_attempt_to_return_delays_one_question_briefly(
    new_client: NewClient, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "RETURN_SECONDS", 0.1)
    silent = await start_stand_in(nursery, then_closes=False)
    second, _ = await start(nursery, 5)
    client = new_client([silent, second], failover_timeout_seconds=3)
    assert await answered_by(client) == 5
    delays: list[float] = []
    while sum(each > 0.2 for each in delays) < 2:
        started = trio.current_time()
        assert await answered_by(client) == 5
        delays.append(trio.current_time() - started)
        await trio.sleep(0.02)
    # A busy machine may delay one of them more.
    assert min(each for each in delays if each > 0.2) < 2


@pytest.mark.parametrize("new_client", REMOTE, indirect=True)
async def test_client_returns_to_an_earlier_address_once_it_is_ready(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """The hello's answer says so. These clients read a clock that the test moves."""
    place = Place(None, loaded=False)
    server = new_server(place)
    first = await start_on_loopback(nursery, server)
    second, _ = await start(nursery, 5)
    client = new_client([first, second])
    assert isinstance(client, RemoteClient)
    for _ in range(8):
        assert await answered_by(client) == 5
        await trio.sleep(0.05)  # for the attempt to return, which runs in the background
        client.move_clock(25)
    assert server.counts.not_ready == 2  # both questions of the first frame
    assert server.statistics.requests >= 4
    place.snapshot.publish(new_snapshot(7))
    offsets = [5]
    with trio.fail_after(SECONDS_MAX):
        while offsets[-1] == 5:
            offsets.append(await answered_by(client))
            await trio.sleep(0.05)
            client.move_clock(25)
    assert [await answered_by(client) for _ in range(10)] == [7] * 10


async def test_question_with_an_offset_moves_on_from_a_daemon_that_lags(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    lagging, _ = await start(nursery, 3)
    current, _ = await start(nursery, 9)
    client = new_client([lagging, current], failover_timeout_seconds=FAILOVER_SECONDS)
    assert await answered_by(client) == 3
    assert (await client.decide_many([ALICE], min_offset=9)).offset == 9


async def test_last_daemon_may_use_all_the_time_for_an_offset(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """If all daemons lag, the question waits until one has the offset."""
    lagging = [await start(nursery, 3) for _ in range(3)]
    client = new_client(
        [address for address, _ in lagging],
        timeout_seconds=SECONDS_MAX,
        failover_timeout_seconds=FAILOVER_SECONDS,
    )

    async def catch_up() -> None:
        await trio.sleep(6 * FAILOVER_SECONDS)
        for _, place in lagging:
            place.snapshot.publish(new_snapshot(9))

    nursery.start_soon(catch_up)
    assert (await client.decide_many([ALICE], min_offset=9)).offset == 9


async def test_own_writes_are_read_through_another_daemon(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """The offset of the daemon that made the change is required of the others."""
    (written, _), (other, place) = await start(nursery, 9), await start(nursery, 3)
    writer, client = new_client(written), new_client(other, timeout_seconds=0.3)
    offset = await writer.read_offset()
    assert offset == 9
    assert await client.decide(ALICE)
    client.require_offset(offset)
    client.require_offset(2)
    for call in (client.decide(ALICE), client.decide(ALICE, min_offset=4)):
        with pytest.raises(TimedOutError):
            await call
    place.snapshot.publish(new_snapshot(9))
    assert await client.decide(ALICE)


async def test_offset_of_a_daemon_that_is_not_ready_is_an_error(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    address, _ = await start(nursery, None)
    client = new_client(address)
    with pytest.raises(NotReadyError):
        await client.read_offset()


async def test_filter_goes_on_with_a_daemon_that_has_other_offsets(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """The first daemon dies after one frame. Its offset is not required of the second."""
    dying = await start_stand_in(nursery, GREETING, encode_answer(1, 0, 10**6, b"\1" * 256))
    second, _ = await start(nursery, 5)
    client = new_client([dying, second])
    names = ["orders"] * 300
    allowed = await client.filter_allowed("User:alice", None, "READ", "TOPIC", names)
    assert allowed == names


async def test_no_address_is_rejected(new_client: NewClient) -> None:
    with pytest.raises(ValueError, match="at least one address"):
        new_client([])


async def test_second_frame_of_a_filter_requires_the_offset_of_the_first(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """Otherwise the names could be decided by ACLs that go back in time."""
    unanswered: list[bytes] = []
    first = encode_answer(1, 0, 9, b"\1" * 256)
    address = await start_stand_in(
        nursery, GREETING, first, then_closes=False, unanswered=unanswered
    )
    client = new_client(address, timeout_seconds=0.5)
    with pytest.raises(TimedOutError):
        await client.filter_allowed("User:alice", None, "READ", "TOPIC", ["orders"] * 300)
    (frame,) = frame_contents(b"".join(unanswered))
    correlation_id, questions, min_offset = msgspec.msgpack.decode(frame)
    assert (correlation_id, len(questions), min_offset) == (2, 44, 9)


@pytest.mark.parametrize("count", [1, 2])
async def test_question_is_sent_once_more_than_there_are_addresses(
    new_client: NewClient, nursery: trio.Nursery, count: int
) -> None:
    """The daemons end at each question."""
    questions = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal questions
        async with stream:
            await stream.receive_some()
            await stream.send_all(GREETING)
            questions += bool(await stream.receive_some())

    listeners = [(await nursery.start(trio.serve_tcp, serve, 0))[0] for _ in range(count)]
    ports = [each.socket.getsockname()[1] for each in listeners]
    client = new_client([f"127.0.0.1:{port}" for port in ports], timeout_seconds=5)
    with pytest.raises(ConnectionLostError):
        await client.decide(ALICE)
    assert questions == count + 1
