"""The decision stream's answers: each frame's decisions, in order, by one state of the log."""

import math
from dataclasses import replace

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.audit.filter import AuditRules
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    Acl,
    Operation,
    Question,
    ResourceType,
)
from authorizerd.config.configuration import parse
from authorizerd.daemon.decisions.question_cost import LOOKUPS_PER_NETWORK
from authorizerd.daemon.decisions.stream_server import (
    LOOKUPS_PER_QUESTION,
    QUESTIONS_PER_SLICE,
    QUESTIONS_PER_TURN,
)
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS
from authorizerd.protocol.decisions.stream import Answer, StreamQuestion
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.acl.questions import questions
from tests.daemon.decision_place import ROOT, Place
from tests.daemon.stream_questions import (
    ACLS,
    ALLOWED,
    DENIED,
    INVALID,
    MAY,
    MAY_NOT,
    NOT_READY,
    at_offset,
    question,
)
from tests.daemon.stream_service import (
    OFFSET_TIMEOUT_S,
    Client,
    connected,
    new_server,
    start_on_loopback,
)
from tests.oracles import scan
from tests.support.acls import acl
from tests.support.sizes import size
from tests.support.strategies import acls


def asked_as(asked: Question, by_name: bool) -> StreamQuestion:
    """Return a question as a client may write it, with names or codes."""
    host = "::0001" if asked.host == "0:0:0:0:0:0:0:1" else asked.host
    if by_name:
        operation, resource_type = Operation(asked.operation), ResourceType(asked.resource_type)
        return (asked.principal, host, operation.name, resource_type.name, asked.resource_name)
    return (asked.principal, host, asked.operation, asked.resource_type, asked.resource_name)


def expected(held: list[Acl], allow_everyone: bool, asked: Question) -> bytes:
    if (
        asked.operation not in OPERATIONS
        or asked.resource_type not in RESOURCE_TYPES
        or not asked.resource_name
    ):
        return INVALID
    return ALLOWED if scan.decide(held, allow_everyone, asked)[0] else DENIED


@settings(max_examples=size(10, 60), deadline=None)
@given(
    held=st.lists(acls(), max_size=8, unique=True),
    allow_everyone=st.booleans(),
    asked=st.lists(st.tuples(questions(), st.booleans()), max_size=8),
)
async def test_decisions_agree_with_a_plain_scan(
    held: list[Acl], allow_everyone: bool, asked: list[tuple[Question, bool]]
) -> None:
    """Questions use names or codes, and any spelling of an address. 2 means an invalid question."""
    place = Place(None, *held)
    place.authorizer.configure({"allow.everyone.if.no.acl.found": str(allow_everyone).lower()})
    async with trio.open_nursery() as nursery:
        _, client = await connected(nursery, place)
        answer = await client.ask([asked_as(each, by_name) for each, by_name in asked])
        nursery.cancel_scope.cancel()
    assert answer.error_code == ErrorCode.NONE
    assert answer.decisions == b"".join(expected(held, allow_everyone, each) for each, _ in asked)


DECIDED: list[tuple[StreamQuestion, bytes]] = [
    (MAY, ALLOWED),
    (question(operation=3, resource_type=2), ALLOWED),
    (question(operation=3), ALLOWED),
    (question(host=None), ALLOWED),
    (question("User:bob", "::1"), ALLOWED),
    (question("User:bob", "0:0::0:1"), ALLOWED),
    (question("User:bob", "::2"), DENIED),
    (question("User:bob", None), DENIED),
    (question(host="::ffff:10.0.0.1"), ALLOWED),
    (question("Group:alice"), DENIED),
    (question(ROOT, None, "ALTER", "CLUSTER", "kafka-cluster"), ALLOWED),
    (question(host=""), INVALID),
    (question(host="localhost"), INVALID),
    (question(host="10.0.0"), INVALID),
    (question(host="*"), INVALID),
    (question(host="10.0.0.1%x"), INVALID),
    (question(host="::1%lo"), INVALID),
    (question("User:bob", "::1%lo"), INVALID),
    (question(host="fe80::1%"), INVALID),
    (question(host="fe80::1%eth0"), ALLOWED),
    (question("alice"), INVALID),
    (question(""), INVALID),
    (question("User:*", name="status"), INVALID),
    (question(operation="read"), INVALID),
    (question(operation="ANY"), INVALID),
    (question(operation=1), INVALID),
    (question(operation=-1), INVALID),
    (question(operation=2**40), INVALID),
    (question(resource_type="Topic"), INVALID),
    (question(resource_type=0), INVALID),
    (question(resource_type=99), INVALID),
    (question(name=""), INVALID),
]


@pytest.mark.parametrize(("asked", "decision"), DECIDED)
async def test_an_invalid_question_does_not_affect_the_others(
    nursery: trio.Nursery, asked: StreamQuestion, decision: bytes
) -> None:
    """It is answered with 2, in its place, and counted."""
    server, client = await connected(nursery, Place(None, *ACLS))
    answer = await client.ask([MAY, asked, MAY_NOT])
    assert answer == Answer(1, ErrorCode.NONE, 0, ALLOWED + decision + DENIED)
    assert server.counts.invalid == (decision == INVALID)


@settings(max_examples=40, deadline=None)
@given(frames=st.lists(st.lists(st.sampled_from(DECIDED), max_size=300), max_size=6))
async def test_decision_depends_only_on_its_own_question(
    frames: list[list[tuple[StreamQuestion, bytes]]],
) -> None:
    """Not on the questions before it, nor on the slices in which a frame is decided."""
    async with trio.open_nursery() as nursery:
        _, client = await connected(nursery, Place(None, *ACLS))
        for number, decided in enumerate(frames):
            asked = [each for each, _ in decided]
            await client.stream.send_all(client.frames.ask(number, asked))
        answers = [await client.answer() for _ in frames]
        nursery.cancel_scope.cancel()
    assert answers == [
        Answer(number, ErrorCode.NONE, 0, b"".join(decision for _, decision in decided))
        for number, decided in enumerate(frames)
    ]


async def test_a_long_frame_uses_one_state_while_other_tasks_run(nursery: trio.Nursery) -> None:
    """A change published meanwhile applies to the next frame."""
    place = Place(None, *ACLS)
    place.snapshot.publish(at_offset(7, *ACLS))
    _, client = await connected(nursery, place)
    many = 8 * QUESTIONS_PER_SLICE
    await client.stream.send_all(client.frames.ask(1, [question(host=None)] * many))
    await client.stream.send_all(client.frames.ask(2, [MAY]))
    turns = 0
    while place.authorizer.counts_of("Stream").allowed == 0:
        await trio.lowlevel.checkpoint()
    while place.authorizer.counts_of("Stream").allowed < many:
        place.snapshot.publish(at_offset(8))
        turns += 1
        await trio.lowlevel.checkpoint()
    assert turns >= 6
    assert await client.answer() == Answer(1, ErrorCode.NONE, 7, ALLOWED * many)
    assert await client.answer() == Answer(2, ErrorCode.NONE, 8, DENIED)


@pytest.mark.parametrize("content", [(1, []), (1, [MAY]), (1, None)])
async def test_small_frames_take_turns(nursery: trio.Nursery, content: tuple[object, ...]) -> None:
    server, client = await connected(nursery, Place(None, *ACLS))
    count = 1000
    await client.stream.send_all(frame(msgspec.msgpack.encode(content)) * count)
    turns = 0
    while server.statistics.requests <= count:
        turns += 1
        await trio.lowlevel.checkpoint()
    assert turns >= count // QUESTIONS_PER_TURN
    for _ in range(count):
        assert (await client.answer()).correlation_id == 1


async def test_only_super_users_get_decisions_before_loading(nursery: trio.Nursery) -> None:
    """Other questions are answered with 3. A frame of only such questions fails (KIP-801)."""
    place = Place(None, loaded=False)
    server, client = await connected(nursery, place)
    root = question(ROOT)
    assert await client.ask([root, MAY, root]) == Answer(1, 0, -1, ALLOWED + NOT_READY + ALLOWED)
    assert await client.ask([MAY, question("nobody")]) == Answer(1, 0, -1, NOT_READY + INVALID)
    not_ready = Answer(1, ErrorCode.AUTHORIZER_NOT_READY, -1, b"")
    assert await client.ask([MAY, MAY_NOT]) == not_ready
    assert server.counts.not_ready == 4
    place.snapshot.publish(at_offset(3, *ACLS))
    assert await client.ask([MAY, MAY_NOT]) == Answer(1, 0, 3, ALLOWED + DENIED)


@pytest.mark.usefixtures("autojump_clock")
async def test_a_frame_waits_for_its_offset(nursery: trio.Nursery) -> None:
    """Earlier frames are answered at once, later frames after it."""
    place = Place(None)
    _, client = await connected(nursery, place)
    ask = client.frames.ask
    await client.stream.send_all(ask(1, [MAY]) + ask(2, [MAY], 5) + ask(3, [MAY]))
    assert await client.answer() == Answer(1, 0, 0, DENIED)
    await trio.sleep(OFFSET_TIMEOUT_S / 2)
    place.snapshot.publish(at_offset(4, *ACLS))
    await wait_all_tasks_blocked()
    place.snapshot.publish(at_offset(6, *ACLS))
    assert await client.answer() == Answer(2, 0, 6, ALLOWED)
    assert await client.answer() == Answer(3, 0, 6, ALLOWED)
    assert trio.current_time() < OFFSET_TIMEOUT_S
    assert await client.ask([MAY], min_offset=6) == Answer(1, 0, 6, ALLOWED)


@pytest.mark.usefixtures("autojump_clock")
async def test_a_client_that_never_pauses_ends_with_its_certificate(nursery: trio.Nursery) -> None:
    place = Place(None, *ACLS)
    server, client = await connected(nursery, place)
    (connection,) = server._open
    await client.stream.send_all(client.frames.ask(1, [MAY], 5))
    await wait_all_tasks_blocked()
    await client.stream.send_all(client.frames.ask(2, [MAY]))
    connection.expires_at = -math.inf
    await trio.sleep(3 * SWEEP_SECONDS)
    place.snapshot.publish(at_offset(6, *ACLS))
    assert await client.answer() == Answer(1, 0, 6, ALLOWED)
    assert await client.is_closed()
    assert server.statistics.connections_expired == 1


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("timeout_s", [OFFSET_TIMEOUT_S, 3])
async def test_the_wait_for_an_offset_is_bounded(nursery: trio.Nursery, timeout_s: int) -> None:
    """The frame then fails with REQUEST_TIMED_OUT. The limit can change while the daemon runs."""
    server, client = await connected(nursery, Place(None, *ACLS))
    if timeout_s != OFFSET_TIMEOUT_S:
        found = parse("node.id=1\nlog.dirs=/log", source="server.properties")
        server.reconfigure(replace(found, update_timeout_ms=timeout_s * 1000), 10)
    started = trio.current_time()
    refused = await client.ask([MAY], min_offset=2**63)
    assert refused == Answer(1, ErrorCode.REQUEST_TIMED_OUT, 0, b"")
    assert trio.current_time() - started == pytest.approx(timeout_s)
    assert (await client.ask([MAY])).decisions == ALLOWED


async def test_frames_are_answered_in_order_however_they_are_split(nursery: trio.Nursery) -> None:
    """They arrive over a real socket, with many frames in flight."""
    address = await start_on_loopback(nursery, new_server(Place(None, *ACLS)))
    stream = await trio.open_tcp_stream("127.0.0.1", int(address.rpartition(":")[2]))
    async with stream:
        client = Client(stream)
        await client.greet()
        sent = b"".join(client.frames.ask(n, [MAY, MAY_NOT] * (n % 5)) for n in range(300))

        async def send() -> None:
            for at in range(0, len(sent), 997):
                await stream.send_all(sent[at : at + 997])

        nursery.start_soon(send)
        for number in range(300):
            answer = await client.answer()
            assert answer == Answer(number, 0, 0, (ALLOWED + DENIED) * (number % 5))


async def test_unreadable_questions_fail_only_their_frame(nursery: trio.Nursery) -> None:
    """The frame gets INVALID_REQUEST and no decisions. The connection stays open."""
    _, client = await connected(nursery, Place(None, *ACLS))
    not_utf_8 = msgspec.msgpack.encode((9, [MAY])).replace(b"orders", b"order\xff")
    for content in (msgspec.msgpack.encode((9, [MAY[:4]])), not_utf_8):
        await client.stream.send_all(frame(content))
        assert await client.answer() == Answer(9, ErrorCode.INVALID_REQUEST, 0, b"")
    assert (await client.ask([MAY])).decisions == ALLOWED


async def test_decisions_are_counted_for_the_stream(nursery: trio.Nursery) -> None:
    """They are counted by result. Frames, including the hello, are counted separately."""
    place = Place(None, *ACLS)
    server, client = await connected(nursery, place)
    await client.ask([MAY, MAY, MAY_NOT, question(name=""), question("User:*")])
    counts = place.authorizer.counts["Stream"]
    assert (counts.allowed, counts.denied, counts.invalid, counts.not_ready) == (2, 1, 2, 0)
    assert list(place.authorizer.counts) == ["Stream"]
    assert server.statistics.requests == 2


@pytest.mark.parametrize("level", [AuditLevel.INFO, AuditLevel.DEBUG])
async def test_decisions_of_a_stream_are_audited(nursery: trio.Nursery, level: AuditLevel) -> None:
    """Denials are at level INFO, allowed decisions at DEBUG."""
    place = Place(None, *ACLS)
    place.auditor.reconfigure(level, AuditRules())
    _, client = await connected(nursery, place)
    await client.ask([MAY, MAY_NOT])
    denied = (
        "INFO Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 on resource"
        " = Topic:LITERAL:orders for request = Stream with resourceRefCount = 1 based on rule"
        " DefaultDeny"
    )
    assert place.audit_log.lines[-1] == denied
    assert len(place.audit_log.lines) == (1 if level == AuditLevel.INFO else 2)
    assert all("request = Stream" in line for line in place.audit_log.lines)


PREFIXES = [
    acl("User:alice", "READ", topic="p" * size, pattern="PREFIXED")
    for size in range(1, 4 * LOOKUPS_PER_QUESTION + 1)
]
"""A question looks up each of their lengths."""
NETWORKS = [
    acl("User:alice", "READ", topic="t", host=f"10.0.0.0/{length}")
    for length in range(1, 4 * LOOKUPS_PER_QUESTION // LOOKUPS_PER_NETWORK + 1)
]
"""The rule of a question, which the audit names, is sought in each of them."""


@pytest.mark.parametrize("costly", [PREFIXES, NETWORKS], ids=["prefix lengths", "networks"])
async def test_questions_of_many_lookups_take_more_turns(
    nursery: trio.Nursery, costly: list[Acl]
) -> None:
    """The lookups per turn stay the same, however many a question needs."""
    place = Place(None, *ACLS, *costly)
    _, client = await connected(nursery, place)
    many = 8 * QUESTIONS_PER_SLICE
    await client.stream.send_all(client.frames.ask(1, [question(host=None)] * many))
    turns = 0
    while place.authorizer.counts_of("Stream").allowed < many:
        turns += 1
        await trio.lowlevel.checkpoint()
    assert turns >= 4 * 8
    assert (await client.answer()).decisions == ALLOWED * many
