"""Frames of the decision stream, from both ends."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Operation, ResourceType
from authorizerd.protocol.decisions.stream import (
    OPERATION_OF,
    RESOURCE_TYPE_OF,
    Answer,
    Ask,
    Greeting,
    Hello,
    StreamClientConnection,
    StreamQuestion,
    StreamServerConnection,
    Unreadable,
    encode_answer,
    encode_hello,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.support.strategies import texts

BYTES_MAX = 4096
some_examples = settings(max_examples=40, deadline=None)

Received: TypeAlias = Hello | Ask | Unreadable
QUESTION: StreamQuestion = ("User:alice", None, "READ", 2, "orders")
GREETED = StreamClientConnection(BYTES_MAX).hello()

codes_and_names = st.integers(-(2**63), 2**64 - 1) | texts
questions = st.lists(
    st.tuples(texts, st.none() | texts, codes_and_names, codes_and_names, texts), max_size=4
)
asks = st.builds(
    Ask, st.integers(-(2**63), 2**64 - 1), questions, st.just(-1) | st.integers(0, 2**63 - 1)
)
answers = st.builds(
    Answer, st.integers(-(2**63), 2**64 - 1), st.integers(-1, 801), st.integers(-1), st.binary()
).filter(lambda answer: answer.offset < 2**63)


def read(
    take: Callable[[], object], feed: Callable[[bytes], None], data: bytes
) -> Iterator[object]:
    """Yield the results of ``take`` while ``data`` arrives byte by byte."""
    for at in range(len(data)):
        feed(data[at : at + 1])
        while (taken := take()) is not None:
            yield taken


def packed(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def received(*contents: bytes, greeted: bool = True) -> list[Received]:
    """Return what a server reads from a hello and frames with these contents."""
    server = StreamServerConnection(BYTES_MAX)
    server.receive_data(b"".join((GREETED if greeted else b"", *map(frame, contents))))
    taken: list[Received] = []
    while (each := server.next_frame()) is not None:
        taken.append(each)
    return taken[1:] if greeted else taken


@some_examples
@given(token=st.none() | texts, asked=st.lists(asks, max_size=4))
def test_server_reads_what_a_client_sends(token: str | None, asked: list[Ask]) -> None:
    """Byte by byte or at once, with and without a token and an offset."""
    client, server = StreamClientConnection(BYTES_MAX), StreamServerConnection(BYTES_MAX)
    data = client.hello(token) + b"".join(
        client.ask(each.correlation_id, each.questions, each.min_offset) for each in asked
    )
    expected = [Hello("hello", 1, token), *asked]
    assert list(read(server.next_frame, server.receive_data, data)) == expected
    at_once = StreamServerConnection(BYTES_MAX)
    at_once.receive_data(data)
    assert [at_once.next_frame() for _ in expected] == expected
    assert at_once.next_frame() is None


@some_examples
@given(
    error=st.sampled_from(ErrorCode), offset=st.integers(-1, 2**63 - 1), answered=st.lists(answers)
)
def test_client_reads_a_servers_frames(
    error: ErrorCode, offset: int, answered: list[Answer]
) -> None:
    client = StreamClientConnection(BYTES_MAX)
    greeting = list(read(client.next_greeting, client.receive_data, encode_hello(error, offset)))
    assert greeting == [Greeting("hello", 1, error, offset)]
    data = b"".join(
        encode_answer(each.correlation_id, each.error_code, each.offset, each.decisions)
        for each in answered
    )
    assert list(read(client.next_answer, client.receive_data, data)) == answered


@some_examples
@given(content=st.binary(max_size=60), pieces=st.lists(asks, max_size=2))
def test_any_bytes_give_frames_or_one_decode_error(content: bytes, pieces: list[Ask]) -> None:
    data = frame(content) + b"".join(frame(packed(each)) for each in pieces)
    for start in (b"", GREETED):
        server = StreamServerConnection(BYTES_MAX)
        server.receive_data(start + data)
        drained(server.next_frame)
    for take in (StreamClientConnection.next_greeting, StreamClientConnection.next_answer):
        client = StreamClientConnection(BYTES_MAX)
        client.receive_data(data)
        drained(lambda client=client, take=take: take(client))  # type: ignore[misc]


def drained(take: Callable[[], object]) -> None:
    try:
        while take() is not None:
            pass
    except DecodeError:
        assert take() is None


@pytest.mark.parametrize(
    "content", [packed(("hello", 1, None)), packed((7, [QUESTION], 3))], ids=["hello", "questions"]
)
def test_cut_frame_is_awaited_and_cut_content_rejected(content: bytes) -> None:
    whole = frame(content)
    start = b"" if b"hello" in content else GREETED
    for size in range(len(whole)):
        server = StreamServerConnection(BYTES_MAX)
        server.receive_data(start + whole[:size])
        assert len([each for each in [server.next_frame(), server.next_frame()] if each]) == (
            1 if start else 0
        )
    for size in range(len(content)):
        with pytest.raises(DecodeError):
            received(content[:size], greeted=bool(start))


def test_bytes_after_the_array_are_rejected() -> None:
    for greeted, content in ((False, packed(("hello", 1))), (True, packed((1, [QUESTION])))):
        with pytest.raises(DecodeError):
            received(content + b"\0", greeted=greeted)


NO_FRAMES = {
    "nothing": b"",
    "no msgpack": b"\xc1",
    "text": packed("hello"),
    "map": packed({"correlation_id": 1, "questions": []}),
    "no correlation id": packed([]),
    "text as correlation id": packed(("1", [])),
    "a second hello": packed(("hello", 1, None)),
    "fraction as correlation id": packed((1.0, [])),
    "true as correlation id": packed((True, [])),
    "array announced, not there": bytes.fromhex("9201ddffffffff"),
    "text announced, not there": bytes.fromhex("920191dbffffffff"),
    "bytes announced, not there": bytes.fromhex("9201c6ffffffff"),
    "deep nesting": b"\x92\x01" + b"\x91" * 3000 + b"\xc0",
}


@pytest.mark.parametrize("content", NO_FRAMES.values(), ids=NO_FRAMES)
@pytest.mark.parametrize("greeted", [True, False])
def test_invalid_frame_ends_the_connection(content: bytes, greeted: bool) -> None:
    """Nothing after it is read, and its size is not trusted."""
    if greeted or content != NO_FRAMES["a second hello"]:
        with pytest.raises(DecodeError):
            received(content, packed((1, [QUESTION])), greeted=greeted)


UNREADABLE: dict[str, tuple[object, ...]] = {
    "no questions": (1,),
    "questions of nothing": (1, None),
    "a map": (1, {}),
    "a question of four": (1, [QUESTION[:4]]),
    "a question of six": (1, [(*QUESTION, "more")]),
    "a question that is a text": (1, ["User:alice"]),
    "no principal": (1, [(None, *QUESTION[1:])]),
    "bytes as a name": (1, [(*QUESTION[:4], b"orders")]),
    "a fraction as a code": (1, [(*QUESTION[:3], 2.5, "orders")]),
    "true as a code": (1, [(*QUESTION[:2], True, 2, "orders")]),
    "an offset in words": (1, [QUESTION], "newest"),
    "more than this version knows": (1, [QUESTION], 0, "unless it rains"),
    "one bad question of many": (1, [QUESTION, QUESTION, ("x",)]),
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_invalid_questions_fail_only_their_frame(content: tuple[object, ...]) -> None:
    """Its correlation id can be answered, and the next frame is read."""
    first, second = received(packed(content), packed((2, [QUESTION])))
    assert isinstance(first, Unreadable)
    assert first.correlation_id == 1
    assert first.reason
    assert second == Ask(2, [QUESTION])


def test_text_must_be_utf8() -> None:
    content = packed((1, [QUESTION])).replace(b"orders", b"order\xff")
    (only,) = received(content)
    assert isinstance(only, Unreadable)
    with pytest.raises(DecodeError):
        received(packed(("hello", 1, "token")).replace(b"token", b"toke\xff"), greeted=False)


@pytest.mark.parametrize(
    "content", [(1, [QUESTION]), ("hallo", 1), ("hello", "1"), ("hello",), ("hello", 1, 5)]
)
def test_first_frame_must_be_a_hello(content: tuple[object, ...]) -> None:
    with pytest.raises(DecodeError, match="expected a hello"):
        received(packed(content), greeted=False)


def test_hello_of_a_later_version_may_have_more_fields() -> None:
    """The daemon can then answer with its own version."""
    (hello,) = received(packed(("hello", 2, None, {"more": [1]})), greeted=False)
    assert hello == Hello("hello", 2)


def test_repr_of_a_hello_shows_no_token() -> None:
    assert "secret" not in repr(Hello("hello", 1, "id.secret"))


def test_frame_above_the_limit_is_rejected_by_its_size() -> None:
    empty = len(packed((1, [(*QUESTION[:4], "x" * 1000)]))) - 1000
    largest = packed((1, [(*QUESTION[:4], "x" * (BYTES_MAX - empty))]))
    assert len(largest) == BYTES_MAX
    assert len(received(largest)) == 1
    server = StreamServerConnection(BYTES_MAX)
    server.receive_data(GREETED + (BYTES_MAX + 1).to_bytes(4, "big"))
    assert isinstance(server.next_frame(), Hello)
    with pytest.raises(DecodeError, match=f"found {BYTES_MAX + 1}"):
        server.next_frame()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", packed((1, 0, 0)), packed((1, 0, 0, "\1")), packed(("1", 0, 0, b"")),
     packed((1, 0, 0, b"")) + b"\0", b"\x95\1\0\0\xc4\0" + b"\x91" * 3000 + b"\xc0",
     bytes.fromhex("94010000c6ffffffff")],
)  # fmt: skip
def test_invalid_answer_is_an_error(content: bytes) -> None:
    """Nothing after it is read."""
    client = StreamClientConnection(BYTES_MAX)
    client.receive_data(frame(content) + encode_answer(2, 0, 0, b"\1"))
    with pytest.raises(DecodeError, match="expected an answer"):
        client.next_answer()
    assert client.next_answer() is None


@pytest.mark.parametrize(
    "content", [packed(("hallo", 1, 0, 0)), packed(("hello", 1, 0)), packed((1, 0, 0, b"")), b""]
)
def test_invalid_greeting_is_an_error(content: bytes) -> None:
    client = StreamClientConnection(BYTES_MAX)
    client.receive_data(frame(content))
    with pytest.raises(DecodeError, match="expected an answer to the hello"):
        client.next_greeting()


def test_answers_may_have_more_fields() -> None:
    client = StreamClientConnection(BYTES_MAX)
    client.receive_data(frame(packed(("hello", 1, 0, 9, "more"))))
    assert client.next_greeting() == Greeting("hello", 1, 0, 9)
    client.receive_data(frame(packed((1, 0, 9, b"\1", ["more"]))))
    assert client.next_answer() == Answer(1, 0, 9, b"\1")


@pytest.mark.parametrize("text", ["\ud800"])
@pytest.mark.parametrize("number", [1, 2**64])
def test_value_that_cannot_be_encoded_is_an_error(text: str, number: int) -> None:
    """For example half of a surrogate pair, or a number of more than 64 bits."""
    client = StreamClientConnection(BYTES_MAX)
    with pytest.raises((ValueError, OverflowError)):
        client.ask(1, [("User:a", None, number, 2, text)])


def test_operations_and_types_are_known_by_code_and_name() -> None:
    """ANY, UNKNOWN, and names in another case are not accepted."""
    for code in OPERATIONS:
        assert OPERATION_OF[code] == OPERATION_OF[Operation(code).name] == code
    for code in RESOURCE_TYPES:
        assert RESOURCE_TYPE_OF[code] == RESOURCE_TYPE_OF[ResourceType(code).name] == code
    assert len(OPERATION_OF) == 2 * len(OPERATIONS)
    assert len(RESOURCE_TYPE_OF) == 2 * len(RESOURCE_TYPES)
    for unknown in (0, 1, -1, 999, "ANY", "UNKNOWN", "read", "topic", "", "3"):
        assert unknown not in OPERATION_OF
        assert unknown not in RESOURCE_TYPE_OF


PAGE = (Path(__file__).parents[3] / "docs" / "stream.md").read_text()


def test_example_in_the_documentation_matches_the_codec() -> None:
    client, server = StreamClientConnection(BYTES_MAX), StreamServerConnection(BYTES_MAX)
    asked: list[StreamQuestion] = [
        ("User:alice", "192.168.1.20", "READ", "TOPIC", "orders"),
        ("User:bob", None, Operation.WRITE, ResourceType.TOPIC, "status"),
    ]
    sent = [
        ("client", client.hello()),
        ("daemon", encode_hello(ErrorCode.NONE, 9)),
        ("client", client.ask(1, asked, 9)),
        ("daemon", encode_answer(1, ErrorCode.NONE, 9, b"\1\0")),
    ]
    found = re.findall(r"^(client|daemon)((?:\s+[0-9a-f]{2}\b)+)$", PAGE, re.MULTILINE)
    assert [(side, bytes.fromhex(digits)) for side, digits in found] == sent
    server.receive_data(sent[0][1] + sent[2][1])
    assert server.next_frame() == Hello("hello", 1)
    assert server.next_frame() == Ask(1, asked, 9)


def test_documentation_lists_every_code() -> None:
    named = re.findall(r"\b([A-Z_]{3,}) (\d+)", PAGE)
    for name, code in named:
        assert int(code) in (OPERATION_OF.get(name), RESOURCE_TYPE_OF.get(name)), name
    assert len(named) == len(OPERATIONS) + len(RESOURCE_TYPES)
    errors = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE, re.MULTILINE)
    assert all(ErrorCode[name] == int(code) for code, name in errors)
    assert len(set(errors)) == 8
