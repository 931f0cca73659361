"""Readers of what a daemon sends to the Python client library, and to its own workers and back.

A client that misreads an answer could allow what was denied, or miss a change of the ACLs.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from authorizerd.acl.model import AclAdded, AclRemoved, ChangeBatch
from authorizerd.acl.steps import Steps
from authorizerd.image.changes import TopicAdded, TopicRemoved
from authorizerd.protocol.decisions.acl_feed import (
    CLOSED,
    EXPIRED,
    RESUMED,
    SUSPENDED,
    encode_begin,
    encode_changes,
    encode_heartbeat,
    encode_listed,
    encode_listing_begin,
    encode_listing_end,
    encode_state,
)
from authorizerd.protocol.decisions.stream import encode_answer, encode_hello
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.worker_changes import SharedTexts, to_batch
from authorizerd.protocol.worker_changes import encode_changes as encode_feed
from authorizerd.protocol.worker_feed import (
    Begin,
    Done,
    FeedReader,
    Files,
    Listen,
    Order,
    Stores,
    TakeChanges,
    TakeFiles,
    TakeSettings,
    WorkerAddress,
    encode_message,
    order_reader,
    report_reader,
)
from authorizerd_client.errors import AuthorizerdError
from authorizerd_client.following import Follower
from authorizerd_client.protocol import Connection, Exchange, encode_request
from authorizerd_client.values import Address, AnyQuestion
from authorizerd_client.watch_values import AclEvent
from tests.fuzz.target import SECRET, frame_contents, in_pieces, reader, rejected_with
from tests.support.acls import acl

_ADDRESS: Final = Address(None, "localhost", 8181)
_END: Final = b"\xff\xfe"
"""Ends the answer of one connection."""
_LISTS: Final = b"GET /v1/acls "
_HEAD: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_ID: Final = bytes(range(16))
_ACL: Final = acl("User:ü", "READ", topic="a b", pattern="PREFIXED")
_QUESTION: Final[AnyQuestion] = ("User:a", None, "READ", "TOPIC", "t")
COUNTS: Final = (2, 1, 3)
"""How many questions each frame asks."""

_Followed = list[tuple[list[AclEvent], bytes]]
"""For each answer, the events in it, and the next request."""


def _follow(answers: list[bytes], split: Callable[[bytes], list[bytes]]) -> Steps[_Followed]:
    follower = Follower("id.secret")
    follower.begin(_ADDRESS)
    followed: _Followed = []
    for answer in answers:
        events: list[AclEvent] = []
        with suppress(AuthorizerdError):
            for piece in (*split(answer), b""):
                events += follower.receive_data(piece)
                yield
                if follower.needs_connection:
                    break
        followed.append((events, follower.begin(_ADDRESS)))
    return followed


def _check_watch(data: bytes) -> Generator[None, None, None]:
    """However an answer is split, a watch shows the same events, or asks for the others again."""
    answers = data.split(_END)
    whole = yield from _follow(answers, lambda answer: [answer])
    split = yield from _follow(answers, in_pieces)
    before = b""
    for (events, request), (other_events, other_request) in zip(whole, split, strict=True):
        if events != other_events:
            assert events == other_events[: len(events)]
            is_asked_again = request == before or request.startswith(_LISTS)
            assert is_asked_again, "a watch goes on after changes that it has not shown"
        if (events, request) != (other_events, other_request):
            break
        before = request


def _check_stream(data: bytes) -> None:
    """Only an answer to the questions allows anything, and it allows what it says."""
    connection = Connection(4096)
    requests = [encode_request([_QUESTION] * count, -1, 4096) for count in COUNTS]
    exchanges = [connection.ask(request)[0] for request in requests]
    settled: list[Exchange] = []
    with suppress(AuthorizerdError):
        for piece in in_pieces(data):
            settled += connection.receive_data(piece)
    frames = [*frame_contents(data)]
    assert settled == exchanges[: len(settled)]
    for number, exchange in enumerate(settled, 1):
        with suppress(AuthorizerdError):
            decisions = exchange.get_decisions()
            said = msgspec.msgpack.decode(frames[number])
            assert said[:4] == [number, 0, decisions.offset, decisions.codes]
            assert len(decisions.codes) == COUNTS[number - 1]
            assert decisions.allowed == [code == 1 for code in said[3]]
    if settled:
        hello, _, error, *_ = msgspec.msgpack.decode(frames[0])
        assert (hello, error) == ("hello", 0)


_READERS: Final[tuple[Callable[[], FeedReader[Any]], ...]] = (order_reader, report_reader)


def _check_feed(data: bytes) -> Generator[None, None, None]:
    """Both ends of the feed read what was written, however it is split, and hide secrets."""
    for new_reader in _READERS:
        messages = yield from _messages(new_reader(), [data])
        assert (yield from _messages(new_reader(), in_pieces(data))) == messages
        written = b"".join(map(encode_message, messages))
        assert (yield from _messages(new_reader(), [written])) == messages
        for message in messages:
            if isinstance(message, TakeChanges):
                to_batch(message, SharedTexts())
            elif not isinstance(message, Done):
                shown = repr(message)
                assert SECRET not in shown or _is_shown(message)


def _is_shown(message: Any) -> bool:  # noqa: ANN401 - any order
    """Return True if the secret is in a field that is not secret."""
    return SECRET in repr((getattr(message, "places", ()), getattr(message, "reason", "")))


def _messages(reader: FeedReader[Any], pieces: list[bytes]) -> Steps[list[Any]]:
    """Return the messages before the first fault. Each is a step."""
    found: list[Any] = []
    with rejected_with(DecodeError):
        for piece in pieces:
            reader.receive_data(piece)
            while (message := reader.next_message()) is not None:
                found.append(message)
                yield
            yield
    return found


def _chunked(*parts: bytes) -> bytes:
    return _HEAD + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def _watch_seeds() -> Iterator[bytes]:
    listed = encode_listing_begin(7), encode_listed(_ID, _ACL), encode_listing_end(1)
    listing = _chunked(*(line + b"\n" for line in listed))
    changed = (True, _ID, _ACL), (False, _ID, _ACL)
    events = [
        encode_begin(7, 9),
        encode_changes(8, changed[:1], is_last=False) + encode_changes(8, changed, is_last=True),
        encode_state(SUSPENDED, 8, "why") + encode_state(RESUMED, 8),
        encode_heartbeat(9),
        encode_changes(12, changed, is_last=True),
    ]
    yield listing + _END + _chunked(*events)
    yield listing + _END + _chunked(*events, encode_state(EXPIRED, 12)) + _END + listing
    yield listing + _END + _chunked(*events, encode_state(CLOSED, 12)) + _END + _chunked(*events)
    for status in (b"400 Bad Request", b"410 Gone", b"503 Service Unavailable"):
        refusal = b"HTTP/1.1 %b\r\nContent-Length: 3\r\n\r\nwhy" % status
        yield listing + _END + refusal + _END + listing


def stream_seeds() -> Iterator[bytes]:
    greeting = encode_hello(ErrorCode.NONE, 7)
    answers = (encode_answer(number, 0, 7, b"\1\0\2"[:n]) for number, n in enumerate(COUNTS, 1))
    yield greeting + b"".join(answers)
    yield greeting + encode_answer(1, 0, -1, b"\3\3") + encode_answer(2, 89, 7, b"")
    yield encode_hello(ErrorCode.SASL_AUTHENTICATION_FAILED, -1)


def _feed_seeds() -> Iterator[bytes]:
    stores = Stores({"ssl.keystore.password": SECRET}, (b"chain",), SECRET.encode(), (b"ca",))
    place = WorkerAddress("http", ((2, "127.0.0.1", 0, 0, 0),), (7,))
    begin = Begin(0, {"a": SECRET}, (place,), SECRET.encode(), 9, stores, SECRET.encode())
    files = TakeFiles(1, Files(SECRET, b"", stores))
    orders: list[Order] = [begin, TakeSettings(3, {"b": SECRET}), Listen(4)]
    yield b"".join(map(encode_message, orders))
    yield encode_message(files)
    changes = (AclAdded(_ID, _ACL), AclRemoved(_ID))
    topics = (TopicAdded("t", _ID), TopicRemoved(_ID))
    yield b"".join(encode_feed(2, ChangeBatch(7, changes, cluster_changes=topics)))
    yield encode_message(Done(1, 7, {"a": 1})) + encode_message(Done(2, -1))


LIBRARY_TARGETS: Final = (
    reader("client-watch", _check_watch, _watch_seeds,
           words=(_END, b"\n\n", b"id: 9\n", b"event: acls\n", b'"more":false', b"0\r\n\r\n")),
    reader("client-stream", _check_stream, stream_seeds, weight=20),
    reader("worker-feed", _check_feed, _feed_seeds, weight=10),
)  # fmt: skip
