"""The last head of a connection: a head that resembles it is read as any other."""

import gc
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.last_head import HEAD_BYTES_MAX, remember_head
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.request_head import BadRequest, HttpLimits, parse_head
from tests.protocol.http.fields import fields

LIMITS = HttpLimits(body_bytes_max=20)
TIGHT = HttpLimits(body_bytes_max=8, request_line_bytes_max=60, header_bytes_max=90, headers_max=4)
OK = Response(status=200, body=b"ok")
VALUES = (
        b"1", b"0", b"3", b"9", b"99", b"x", b"", b" ", b" 3", b"3 ", b"\t3", b"+3", b"3, 3",
        b"3\r", b"3\r\nA: b", b"3\r\nContent-Length: 1", b"\x00", b"\xff", b"Bearer a.b", b"a" * 40,
        b"a" * 70,
        b"9" * 19, b"chunked", b"close", b"h", b"/a",
)  # fmt: skip
NAMES = (
        b"Content-Length", b"content-length", b"Authorization", b"X-Request-ID", b"traceparent",
        b"Cookie", b"Connection", b"Expect", b"Transfer-Encoding", b"A",
        b"X-Original-URI", b"X-Forwarded-User",
)  # fmt: skip
LINES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=3)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Requests of one client, whose heads differ a little."""
    line = draw(
        st.sampled_from([b"POST / HTTP/1.1", b"GET /a HTTP/1.1", b"GET /?token=a HTTP/1.1"])
    )
    lines = [(b"Host", b"h"), *draw(LINES)]
    stream = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            place = draw(st.integers(0, len(lines) - 1))
            lines[place] = (lines[place][0], draw(st.sampled_from(VALUES)))
        head = b"\r\n".join([line, *(b"%b: %b" % each for each in lines), b"", b""])
        stream.append(head + draw(st.sampled_from([b"", b"abc", b"a"])))
    return stream


def read(connection: ServerConnection) -> tuple[list[object], list[bytes]]:
    """Return the fields of the events in the data so far, and their answers."""
    events: list[object] = []
    answers = []
    while (event := connection.next_event()) is not None:
        repeated = getattr(getattr(event, "headers", None), "repeated", None)
        events.append((fields(event), repeated))
        if isinstance(event, (Request, BadRequest)):
            answers.append(connection.send(OK))
    return events, answers


@pytest.mark.parametrize("limits", [LIMITS, TIGHT])
@pytest.mark.parametrize("name", NAMES)
def test_any_value_is_read_as_if_no_head_had_come_before(name: bytes, limits: HttpLimits) -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\n%b: %b\r\nB: c\r\n\r\n"
    for first, second in product(VALUES, repeat=2):
        requests = [head % (name, each) for each in (first, second)]
        if name.lower() == b"content-length":
            requests = [each + b"abc" for each in requests]
        compare(requests, limits)


@given(streams(), st.integers(0, 150), st.sampled_from([LIMITS, TIGHT]))
def test_a_head_is_read_as_if_none_had_come_before(
    stream: list[bytes], place: int, limits: HttpLimits
) -> None:
    compare(stream, limits)
    compare([piece for data in stream for piece in (data[:place], data[place:])], limits)


def test_long_value_counts_for_the_limit_of_a_head() -> None:
    """The rest of the head is behind it, so it passes the limit that its value has not reached."""
    limits = HttpLimits(body_bytes_max=8, request_line_bytes_max=200, header_bytes_max=70)
    head = b"GET / HTTP/1.1\r\nHost: h\r\nX-Request-ID: %b\r\nBCD: cdefghijklmno\r\n\r\n"
    for size in range(40):
        compare([head % b"1", head % (b"1" * size)], limits)


def test_half_a_head_waits_for_the_rest() -> None:
    data = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-Request-ID: 12\r\n\r\nabc"
    for place in range(len(data)):
        compare([data, data[:place], data[place:], data], LIMITS)


def compare(stream: list[bytes], limits: HttpLimits) -> None:
    known, forgetful = ServerConnection(limits), ServerConnection(limits)
    for data in stream:
        known.receive_data(data)
        forgetful.receive_data(data)
        forgetful._last = None
        assert read(known) == read(forgetful)
        assert known.echo == forgetful.echo


def test_no_secret_is_kept() -> None:
    """Not even between two requests, since a client may send the next one after a long time."""
    connection = ServerConnection(LIMITS)
    secret = b"Bearer id.very-secret"
    names = (b"Authorization", b"authorization", b"Cookie", b"Proxy-Authorization")
    for name in (*names, b"X-Original-URI"):
        line = b"%b: %b\r\nContent-Length: 1\r\n\r\na" % (name, secret)
        connection.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\n" + line)
        assert isinstance(connection.next_event(), Request)
        connection.send(OK)
        assert secret not in reachable(connection)
    head = b"GET /?token=id.very-secret HTTP/1.1\r\nHost: x\r\n\r\n"
    connection.receive_data(head)
    assert isinstance(connection.next_event(), Request)
    connection.send(OK)
    assert b"very-secret" not in reachable(connection)
    assert remember_head(head, parse_head(head, 9), HEAD_BYTES_MAX) is None


def reachable(start: object) -> bytes:
    found, seen, left = [], set(), [start]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, (bytes, bytearray)):
            found.append(bytes(each))
        if isinstance(each, str):
            found.append(each.encode())
        if isinstance(each, (tuple, list, dict)) or type(each).__module__.startswith("authorizerd"):
            left += gc.get_referents(each)
            left += [getattr(each, name) for name in getattr(type(each), "__struct_fields__", ())]
    return b"\n".join(found)


def test_most_requests_are_recognized() -> None:
    """Otherwise the comparison above compares nothing."""
    connection = ServerConnection(LIMITS)
    for number in range(9):
        connection.receive_data(
            b"POST /a HTTP/1.1\r\nHost: x\r\nX-Request-ID: %d\r\nAuthorization: Bearer a.b\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (10**number, number, b"a" * number)
        )
        last = connection._last
        event = connection.next_event()
        assert isinstance(event, Request)
        assert event.headers[b"x-request-id"] == b"%d" % 10**number
        assert event.body == b"a" * number
        assert number == 0 or connection._last is last is not None
        assert b"X-Request-ID: %d\r\n" % 10**number in connection.send(OK)
