"""The behaviour that all clients share: those of Python, JavaScript and Java."""

import socket
from pathlib import Path
from random import Random

import msgspec
import pytest
import trio

import authorizerd_client
from authorizerd.daemon.net.turns import Admission
from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd.protocol.framing import frame
from authorizerd_client import (
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    Decisions,
    ForbiddenError,
    InvalidQuestionError,
    OffsetNotReachedError,
    OverloadedError,
    Question,
    TimedOutError,
    TokenRefusedError,
)
from tests.clients.conftest import in_python, require_tokens
from tests.clients.python_clients import (
    CLIENTS,
    SECONDS_MAX,
    AnyClient,
    BlockingInThread,
    NewClient,
)
from tests.clients.stand_in import (
    ANSWER_FAULTS,
    GREETING,
    HELLO_FAULTS,
    start_server,
    start_stand_in,
)
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, running
from tests.support.sizes import size

ALICE = Question("User:alice", None, "READ", "TOPIC", "orders")
BOB = ("User:bob", "::1", 3, 2, "orders")
TOKEN = "proxy.secret"


async def test_real_daemon_decides(new_client: NewClient, token_daemon: DaemonProcess) -> None:
    client = new_client(f"tcp://{token_daemon.ready['decision_stream']}", token=TOKEN)
    assert client.offset == -1
    assert await client.decide(ALICE) is True
    assert await client.decide(BOB) is False
    assert client.offset == token_daemon.ready["offset"]
    for count in (0, 1, 7, 1000):
        decisions = await client.decide_many([ALICE, BOB] * count, min_offset=client.offset)
        assert decisions.allowed == [True, False] * count
        assert decisions.offset == client.offset
    mixed = await client.decide_many([ALICE, ("nobody", None, 1, 2, ""), ALICE])
    assert (mixed.codes, mixed.allowed) == (b"\1\2\1", [True, False, True])


def test_decisions_are_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match=r"use \.allowed"):
        bool(Decisions(7, b"\1"))


async def test_filter_allowed_takes_any_number_of_names(
    new_client: NewClient, token_daemon: DaemonProcess
) -> None:
    client = new_client(token_daemon.ready["decision_stream"], frame_bytes_max=2000, token=TOKEN)
    names = [f"topic-{number}" for number in range(1000)]
    about = ("User:alice", None, "READ", "TOPIC")
    assert await client.filter_allowed(*about, names) == names[::2]
    assert await client.filter_allowed(*about, []) == []
    with pytest.raises(InvalidQuestionError, match="invalid question"):
        await client.filter_allowed(*about, ["orders", ""])
    with pytest.raises(InvalidQuestionError, match="fewer questions"):
        await client.filter_allowed(*about, ["orders", "x" * 2000])


async def test_token_and_its_rights_are_checked(
    new_client: NewClient, token_daemon: DaemonProcess
) -> None:
    address = token_daemon.ready["decision_stream"]
    for token in (None, "proxy.wrong"):
        refused = new_client(address, token=token)
        for call in (refused.connect(), refused.decide(ALICE)):
            with pytest.raises(TokenRefusedError):
                await call
    client = new_client(address, token="self.secret")
    with pytest.raises(ForbiddenError) as forbidden:
        await client.decide(ALICE)
    assert (forbidden.value.code, str(forbidden.value)[-10:]) == (31, "(error 31)")
    assert await client.decide(("User:self", *ALICE[1:])) is False


async def test_offset_that_is_not_reached_is_an_error(
    new_client: NewClient, token_daemon: DaemonProcess
) -> None:
    client = new_client(token_daemon.ready["decision_stream"], token=TOKEN)
    with pytest.raises(OffsetNotReachedError):
        await client.decide(ALICE, min_offset=10**9)
    assert await client.decide(ALICE)


async def check_rejection(client: AnyClient, question: authorizerd_client.AnyQuestion) -> None:
    """Check that a question is not sent, and harms no other one."""
    with pytest.raises(InvalidQuestionError):
        await client.decide(question)
    assert client.offset == -1
    assert await client.decide(ALICE)


@pytest.mark.parametrize("name", ["\ud800", "\udc00\ud800", "x\ud800x", "x" * 200_000])
async def test_question_that_no_frame_can_hold_is_not_sent(
    new_client: NewClient, token_daemon: DaemonProcess, name: str
) -> None:
    client = new_client(token_daemon.ready["decision_stream"], token=TOKEN)
    await check_rejection(client, ("User:a", None, "READ", "TOPIC", name))


@pytest.mark.parametrize("new_client", [*CLIENTS, "javascript"], indirect=True)
@pytest.mark.parametrize("question", [
    ("User:a", None, 2**64, 2, "orders"), ("User:a", None, 3, 2, object()),
])  # fmt: skip
async def test_question_with_a_value_of_another_type_is_not_sent(
    new_client: NewClient, token_daemon: DaemonProcess, question: authorizerd_client.AnyQuestion
) -> None:
    client = new_client(token_daemon.ready["decision_stream"], token=TOKEN)
    await check_rejection(client, question)


async def test_calls_above_the_frames_in_flight_wait(
    new_client: NewClient, token_daemon: DaemonProcess
) -> None:
    """Each call gets its own answer."""
    limit = {} if isinstance(new_client("h:1"), BlockingInThread) else {"frames_in_flight_max": 16}
    client = new_client(
        token_daemon.ready["decision_stream"], token=TOKEN, timeout_seconds=SECONDS_MAX, **limit
    )
    answered: list[bool] = []

    async def ask(number: int) -> None:
        asked = [ALICE, BOB] if number % 2 else [BOB, ALICE, ALICE]
        allowed = (await client.decide_many(asked)).allowed
        answered.append(allowed == [each is ALICE for each in asked])

    async with trio.open_nursery() as nursery:
        for number in range(500):
            nursery.start_soon(ask, number)
    assert answered == [True] * 500


async def test_restarted_daemon_is_found_again(
    new_client: NewClient, tmp_path: Path, log_dir: Path, nursery: trio.Nursery
) -> None:
    config = {"authorizerd.decision.stream": f"unix:{tmp_path}/stream"}
    client = new_client(f"unix:{tmp_path}/stream")
    with running(tmp_path, log_dir, config) as daemon:
        assert await client.decide(ALICE)
        assert daemon.stop()[0] == 0
    for _ in range(3):
        with pytest.raises(ConnectionLostError, match="not connected: "):
            await client.decide(ALICE, timeout_seconds=0.3)
    decided: list[bool] = []

    async def ask_early() -> None:
        decided.append(await client.decide(ALICE, timeout_seconds=SECONDS_MAX))

    nursery.start_soon(ask_early)
    await trio.sleep(0.05)
    with running(tmp_path, log_dir, config) as daemon:
        assert await client.decide(ALICE, timeout_seconds=SECONDS_MAX)
        daemon.stop()
    with running(tmp_path, log_dir, config):
        assert await client.decide(
            ALICE, timeout_seconds=SECONDS_MAX
        )  # the client has not noticed the restart
    assert decided == [True]


async def test_daemon_with_too_many_connections_refuses(
    new_client: NewClient, tmp_path: Path, log_dir: Path
) -> None:
    """Callers with tokens keep their connections; one without would give way."""
    config = require_tokens(tmp_path) | {"max.connections": "1"}
    with running(tmp_path, log_dir, config) as daemon:
        address = daemon.ready["decision_stream"]
        first, second = new_client(address, token=TOKEN), new_client(address, token=TOKEN)
        assert await first.decide(ALICE)
        with pytest.raises(OverloadedError) as refused:
            await second.decide(ALICE)
        assert refused.value.retry_after_seconds == 1


async def test_overloaded_daemon_refuses_one_question(
    new_client: NewClient, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(None, acl("User:alice", "READ", topic="orders"))
    client = new_client(await start_on_loopback(nursery, new_server(place)))
    await client.connect()
    with monkeypatch.context() as overload:
        overload.setattr(Admission, "is_late", True)
        overload.setattr(Admission, "admits", lambda _: False)
        with pytest.raises(OverloadedError) as refused:
            await client.decide(ALICE)
    assert refused.value.retry_after_seconds == 0.1
    assert await client.decide(ALICE)


@pytest.mark.parametrize(("sent", "error"), HELLO_FAULTS.values(), ids=HELLO_FAULTS)
async def test_invalid_hello_is_an_error(
    new_client: NewClient, nursery: trio.Nursery, sent: bytes, error: str
) -> None:
    client = new_client(await start_stand_in(nursery, sent), timeout_seconds=1)
    for call in (client.connect(), client.decide(ALICE)):
        with pytest.raises(AuthorizerdError) as raised:
            await call
        assert type(raised.value).__name__ == error


@pytest.mark.parametrize(("sent", "error"), ANSWER_FAULTS.values(), ids=ANSWER_FAULTS)
async def test_invalid_answer_is_never_a_permission(
    new_client: NewClient, nursery: trio.Nursery, sent: bytes, error: str
) -> None:
    """The second question fails like the first: the client discards what was left in its buffer."""
    client = new_client(await start_stand_in(nursery, GREETING, sent))
    for _ in range(2):
        with pytest.raises(AuthorizerdError) as raised:
            await client.decide(ALICE)
        assert type(raised.value).__name__ == error


def is_permission(data: bytes) -> bool:
    """Return True if bytes begin with a complete answer that allows the first question."""
    length = int.from_bytes(data[:4], "big")
    content = data[4 : 4 + length]
    try:
        fields = msgspec.msgpack.decode(content)
        correlation_id, error_code, offset, decisions, *_ = fields
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError):
        return False
    answer = (correlation_id, error_code, decisions)
    return len(content) == length and type(offset) is int and answer == (1, 0, b"\1")


@in_python
async def test_damaged_answer_is_never_a_permission(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """Unless it still is the answer that allows."""
    chance = Random(1)
    damaged = b""

    async def converse(_: int, stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(damaged)

    address = await start_server(nursery, converse)
    for code in range(size(200, 30_000)):
        data = bytearray(encode_answer(1, 0, 7, bytes([code % 4])))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data))
            data[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        damaged = bytes(data)
        client = new_client(address)
        try:
            allowed = await client.decide(ALICE)
        except AuthorizerdError:
            allowed = False
        client.close()
        assert allowed is is_permission(damaged), damaged


async def test_fields_of_later_versions_are_ignored(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    appended = b"\x82\xa1a\xcb" + bytes(8) + b"\xc0\xd4\0\0"
    answer = frame(b"\x95" + encode_answer(1, 0, 0, b"\1\0")[5:] + appended)
    client = new_client(await start_stand_in(nursery, GREETING, answer))
    assert (await client.decide_many([ALICE] * 2)).allowed == [True, False]


async def test_only_the_decision_1_allows(new_client: NewClient, nursery: trio.Nursery) -> None:
    codes = bytes(range(256))
    client = new_client(await start_stand_in(nursery, GREETING, encode_answer(1, 0, 0, codes)))
    assert (await client.decide_many([ALICE] * 256)).allowed == [code == 1 for code in codes]
    assert client.offset == 7
    other = new_client(await start_stand_in(nursery, GREETING, encode_answer(1, 0, 0, b"\4")))
    assert await other.decide(ALICE) is False


@pytest.mark.parametrize("answers", [(), (GREETING,)], ids=["never", "only the hello"])
async def test_call_to_a_silent_peer_ends_at_the_time_limit(
    new_client: NewClient, nursery: trio.Nursery, answers: tuple[bytes, ...]
) -> None:
    address = await start_stand_in(nursery, *answers, then_closes=False)
    client = new_client(address, timeout_seconds=0.5)
    started = trio.current_time()
    for _ in range(2):
        with pytest.raises(TimedOutError if answers else ConnectionLostError):
            await client.decide(ALICE)
    assert 0.5 < trio.current_time() - started < SECONDS_MAX / 2


async def test_call_to_a_peer_that_does_not_read_ends_at_the_time_limit(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """The frame is larger than the buffers of two sockets; half of it is sent."""
    address = await start_stand_in(nursery, GREETING, then_closes=False)
    client = new_client(address, timeout_seconds=1, frame_bytes_max=2**26)
    await client.connect()  # encoding the question may take as long as a call
    question = (*ALICE[:4], "x" * 2**25)
    with pytest.raises(TimedOutError):
        await client.decide(question)


async def test_each_attempt_has_its_own_limit(new_client: NewClient, nursery: trio.Nursery) -> None:
    """One call tries a silent peer several times within its own limit."""
    hellos: list[bytes] = []
    address = await start_stand_in(nursery, then_closes=False, unanswered=hellos)
    client = new_client(address, timeout_seconds=1, connect_timeout_seconds=0.05)
    started = trio.current_time()
    with pytest.raises(ConnectionLostError, match="did not answer in time"):
        await client.decide(ALICE)
    assert trio.current_time() - started > 0.2
    assert len(hellos) > 1


async def test_closed_client_stays_closed(new_client: NewClient, nursery: trio.Nursery) -> None:
    """Also if it is closed during the last attempt: the first connection breaks."""
    is_asked = trio.Event()

    async def converse(number: int, stream: trio.SocketStream) -> None:
        await stream.receive_some()
        if number > 1:
            is_asked.set()
            await trio.sleep_forever()

    address = await start_server(nursery, converse)
    for close_first in (True, False):
        client = new_client(address)
        errors: list[Exception] = []

        async def ask(client: object = client, errors: list[Exception] = errors) -> None:
            try:
                await client.decide(ALICE)  # type: ignore[attr-defined] # any client
            except ClosedError as error:
                errors.append(error)

        async with trio.open_nursery() as asking:
            if not close_first:
                asking.start_soon(ask)
                await is_asked.wait()
            client.close()
            asking.start_soon(ask)
        assert len(errors) == 2 - close_first


async def test_address_of_no_listener_is_an_error(new_client: NewClient, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    places = (f"tcp://127.0.0.1:{port}", f"tls://127.0.0.1:{port}", f"unix:{tmp_path}/nothing")
    for address in (*places, f"no-such-host.invalid:{port}", f"unix:{'x' * 200}"):
        with pytest.raises(ConnectionLostError, match="not connected: "):
            await new_client(address, timeout_seconds=0.2).decide(ALICE)


async def test_valid_address_is_accepted(new_client: NewClient) -> None:
    for address in ("unix:/a", "tcp://[::1]:1", "h:1", "tls://[::1]:1", "tls://h.example:65535"):
        new_client(address)


@pytest.mark.parametrize(
    "address", ["", "unix:", "host", ":1", "host:", "host:65536", "http://h:1", "tls://h"]
)
async def test_invalid_address_is_rejected(new_client: NewClient, address: str) -> None:
    with pytest.raises(ValueError, match="expected tls://HOST:PORT, tcp://HOST:PORT"):
        new_client(address)
