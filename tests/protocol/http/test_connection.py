"""One HTTP connection: bytes to requests, and responses to bytes, however the bytes are split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.http.connection import CONTINUE, Event, Pause, ServerConnection
from authorizerd.protocol.http.messages import Request, Response, text_response
from authorizerd.protocol.http.request_head import BadRequest, HttpLimits
from tests.protocol.http.fields import fields

LIMITS = HttpLimits(body_bytes_max=1024)
TIGHT = HttpLimits(body_bytes_max=8, request_line_bytes_max=40, header_bytes_max=64, headers_max=3)
OK = Response(status=200, body=b'{"decision":true}', content_type="application/json")

FRAGMENTS = st.sampled_from([
    b"GET / HTTP/1.1\r\n", b"POST /a?b=c HTTP/1.1\r\n", b"GET / HTTP/1.0\r\n", b"GET ", b"/",
    b" HTTP/1.1", b" HTTP/2.0\r\n", b"CONNECT a:1 HTTP/1.1\r\n", b"get ", b"FETCH / HTTP/1.1\r\n",
    b"Host: x\r\n", b"Host: x\n", b"A: b\r\n", b"A : b\r\n", b" folded\r\n", b"A: " + b"b" * 30,
    b"Content-Length: 3\r\n", b"Content-Length: 9\r\n", b"Content-Length: x\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"Expect: 1\r\n",
    b"\r\n", b"\n", b"\r", b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n",
    b"3;x=y\r\n", b"f\r\n", b"\x00", b"\x16\x03\x01", b"/" * 50, b"x" * 70,
])  # fmt: skip


def events_of(pieces: list[bytes], limits: HttpLimits = LIMITS) -> list[Event]:
    """Return the events of these pieces. Each event is answered at once."""
    connection = ServerConnection(limits)
    events: list[Event] = []
    for piece in pieces:
        connection.receive_data(piece)
        while (event := connection.next_event()) is not None:
            events.append(event)
            if isinstance(event, Request | BadRequest):
                connection.send(OK)
    return events


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def the_request(data: bytes) -> Request:
    [event] = events_of([data])
    assert isinstance(event, Request)
    return event


def refusal(data: bytes, limits: HttpLimits = LIMITS) -> BadRequest:
    event = events_of([data], limits)[-1]
    assert isinstance(event, BadRequest)
    return event


@st.composite
def written_requests(draw: st.DrawFn) -> tuple[bytes, Request]:
    path = "/" + draw(st.text("ab/%", max_size=5))
    query = draw(st.text("a=&?", max_size=5))
    body = draw(st.binary(max_size=20))
    headers = {b"host": b"h", b"x-a": draw(st.sampled_from([b"", b"b", b"b c", b"\xff"]))}
    upgrade = draw(st.booleans())
    if upgrade:
        headers |= {b"connection": b"Upgrade, HTTP2-Settings", b"upgrade": b"h2c"}
    if draw(st.booleans()):
        headers[b"transfer-encoding"] = b"chunked"
        sizes = draw(st.lists(st.integers(1, 7), max_size=4))
        written = b""
        rest = body
        for size in [*sizes, len(body)]:
            if rest:
                written += b"%x\r\n%b\r\n" % (len(rest[:size]), rest[:size])
                rest = rest[size:]
        trailers = b"X-T: 1\r\nx-~:\r\nB:\t\xff\r\n"
        written += draw(st.sampled_from([b"0\r\n\r\n", b"00;a=b\r\n%b\r\n" % trailers]))
    else:
        headers[b"content-length"] = b"%d" % len(body)
        written = body
    name = draw(st.sampled_from([bytes.lower, bytes.upper, bytes.title]))
    space = draw(st.sampled_from([b"", b" "]))
    lines = [name(key) + b":" + space + value + space for key, value in headers.items()]
    target = path + ("?" + query if query else "")
    head = b"\r\n".join([b"POST %b HTTP/1.1" % target.encode(), *lines, b"", b""])
    request = Request(method="POST", path=path, query=query, headers=headers, body=body)
    return draw(st.sampled_from([b"", b"\r\n", b"\r\n\r\n"])) + head + written, request


@given(st.lists(written_requests(), max_size=4), st.lists(st.integers(0, 500), max_size=6))
def test_pipelined_requests_are_read_in_order(
    requests: list[tuple[bytes, Request]], places: list[int]
) -> None:
    """This holds for any framing of bodies, spelling of headers and split of the bytes."""
    stream = b"".join(written for written, _ in requests)
    wanted = [fields(request) for _, request in requests]
    assert [fields(event) for event in events_of(cut(stream, places))] == wanted
    assert [fields(event) for event in events_of(bytewise(stream))] == wanted


@given(st.lists(FRAGMENTS, max_size=14).map(b"".join), st.lists(st.integers(0, 500), max_size=6))
def test_events_do_not_depend_on_the_split(stream: bytes, places: list[int]) -> None:
    """This holds for invalid bytes and beyond the limits as well."""
    for limits in (LIMITS, TIGHT):
        whole = [fields(event) for event in events_of([stream], limits)]
        assert [fields(event) for event in events_of(cut(stream, places), limits)] == whole
        assert [fields(event) for event in events_of(bytewise(stream), limits)] == whole


@given(st.binary(max_size=200))
def test_garbage_is_rejected(garbage: bytes) -> None:
    """It causes exactly one event."""
    assert [type(event) for event in events_of([garbage, b"\r\n" * 4])] == [BadRequest]


def test_request_has_its_parts_as_sent() -> None:
    """Path and query stay encoded. Commas join the values of repeated headers."""
    request = the_request(
        b"GET /a%20b?c=%3F?&d HTTP/1.1\r\nHost: x\r\nAccept: a\r\naccept:  b \r\n\r\n"
    )
    assert request == Request(
        method="GET",
        path="/a%20b",
        query="c=%3F?&d",
        headers=request.headers,
        body=b"",
    )
    assert dict(request.headers) == {b"host": b"x", b"accept": b"a, b"}


@pytest.mark.parametrize(
    ("status", "request_bytes"),
    [
        (400, b"GET /\r\n\r\n"),
        (400, b"get / HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n"),
        (400, b"GET / HTTP/1.1\nHost: x\n\n"),
        (400, b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, b"GET a HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, b"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost : x\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\nA: b\nB: c\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rB: c\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\nb c: d\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\n\xff: b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n Host: x\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: a\r\nContent-Type: a\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"),
        (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na"),
        (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na"),
        (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\na"),
        (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"0" * 5000 + b"\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n"),
        (
            400,
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n0\r\n\r\n",
        ),
        (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (501, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"),
        (501, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        (501, b"FETCH / HTTP/1.1\r\nHost: x\r\n\r\n"),
        (501, b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"),
        (505, b"GET / HTTP/2.0\r\nHost: x\r\n\r\n"),
        (505, b"GET / HTTP/0.9\r\nHost: x\r\n\r\n"),
        (417, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: tea\r\n\r\n"),
        (413, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1025\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: x\r\n\r\ngarbage\r\n"),
        (400, b"\x16\x03\x01\x02\x00\x01"),
    ],
)
def test_bad_request_is_rejected_with_its_status(status: int, request_bytes: bytes) -> None:
    assert refusal(request_bytes).status == status


@pytest.mark.parametrize(
    "chunks",
    [
        b"x\r\n",
        b"-1\r\n",
        b"0x1\r\na\r\n0\r\n\r\n",
        b"1\na\r\n0\r\n\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
        b"1\r\naXX0\r\n\r\n",
        b"1\r\na\n0\r\n\r\n",
        *(b"1;\0\r\na\r\n0\r\n\r\n", b"1;a\x0bb\r\na\r\n0\r\n\r\n", b"1;\x7f\r\na\r\n0\r\n\r\n"),
        b"1;" + b"x" * 300,
        b"1" * 300,
    ],
)
def test_malformed_chunk_is_rejected(chunks: bytes) -> None:
    """Two readers of a stream must not disagree where a body ends."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert refusal(head + chunks).status == 400


def test_many_chunks_are_read_with_pauses() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    wide = HttpLimits(body_bytes_max=10_000)
    *pauses, request = events_of([head + b"1\r\na\r\n" * 2000 + b"0\r\n\r\n"], wide)
    assert isinstance(request, Request)
    assert request.body == b"a" * 2000
    assert len(pauses) >= 3
    assert set(map(type, pauses)) == {Pause}


@pytest.mark.parametrize(
    "trailers",
    [
        *(b"a", b"a: b\r\nc", b": b", b"a b: c", b" a: b", b"a : b", b"a: b\r\n c", b"a\0: b"),
        *(b"a: b\n\nGET / HTTP/1.1", b"a: b\rc", b"a: \0", b"a: \x7f", b"\xff: b"),
    ],
)
def test_malformed_trailers_are_rejected(trailers: bytes) -> None:
    start = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    data = start + trailers + b"\r\n\r\n"
    refused = BadRequest(400, "malformed trailers")
    assert events_of([data]) == events_of(bytewise(data)) == [refused]


def test_trailers_have_the_limits_of_headers() -> None:
    start = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    most = b"a:\r\n" * LIMITS.headers_max
    assert isinstance(events_of([start + most + b"\r\n"])[0], Request)
    assert refusal(start + most + b"a:\r\n\r\n") == BadRequest(431, "too many trailers")
    long = b"a: %b\r\n\r\n" % (b"b" * LIMITS.header_bytes_max)
    assert refusal(start + long) == BadRequest(431, "trailers too large")


@pytest.mark.parametrize("lines", [0, 1, 2, 3])
def test_two_empty_lines_before_a_request_are_ignored(lines: int) -> None:
    request = b"\r\n" * lines + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    for pieces in ([request * 2], bytewise(request * 2)):
        events = events_of(pieces)
        if lines <= 2:
            assert [type(event) for event in events] == [Request, Request]
        else:
            assert events == [BadRequest(400, "malformed request line")]
    assert refusal(b"\rGET / HTTP/1.1\r\nHost: x\r\n\r\n").status == 400
    assert refusal(b"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n").status == 400


def test_nothing_after_a_bad_request_is_read() -> None:
    connection = ServerConnection(LIMITS)
    good = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    connection.receive_data(b"GET / HTTP/9.9\r\n\r\n" + good)
    assert isinstance(connection.next_event(), BadRequest)
    assert connection.closed
    assert b"\r\nConnection: close\r\n" in connection.send(text_response(505, "no"))
    connection.receive_data(good)
    assert connection.next_event() is None
    assert connection.closed
    assert not connection.receiving


@pytest.mark.parametrize(
    ("keeps", "line_and_options"),
    [
        (True, b"GET / HTTP/1.1\r\n"),
        (False, b"GET / HTTP/1.1\r\nConnection: close\r\n"),
        (False, b"GET / HTTP/1.1\r\nConnection: foo,\tClose\r\n"),
        (False, b"GET / HTTP/1.0\r\n"),
        (True, b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n"),
        (False, b"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n"),
    ],
)
def test_client_decides_whether_the_connection_stays(keeps: bool, line_and_options: bytes) -> None:
    """HTTP/1.1 keeps it by default, HTTP/1.0 does not."""
    request_bytes = line_and_options + b"Host: x\r\n\r\n"
    events = events_of([request_bytes * 2])
    assert [type(event) for event in events] == [Request] * (2 if keeps else 1)


def test_answer_says_whether_the_connection_stays() -> None:
    """HTTP/1.0 must be told if it stays, HTTP/1.1 if it ends."""
    expected = {
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n": None,
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n": b"keep-alive",
        b"GET / HTTP/1.0\r\n\r\n": b"close",
    }
    for data, wanted in expected.items():
        connection = ServerConnection(LIMITS)
        connection.receive_data(data)
        connection.next_event()
        lines = connection.send(OK).split(b"\r\n")
        found = [line for line in lines if line.startswith(b"Connection")]
        assert found == ([] if wanted is None else [b"Connection: " + wanted])


def test_upgrade_to_http2_is_ignored() -> None:
    """Java's HttpClient offers h2c with each request."""
    java = (
        b"POST /v1/data HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 7\r\n"
        b"Host: 127.0.0.1:8181\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
        b'Upgrade: h2c\r\nUser-Agent: Java-http-client/17\r\n\r\n{"a":1}'
    )
    events = events_of([java * 3])
    assert [event.body for event in events if isinstance(event, Request)] == [b'{"a":1}'] * 3


def test_client_that_expects_100_continue_gets_it() -> None:
    """The server sends it once, after the head, but not if the body is too large."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: %d\r\n\r\n"
    for pieces in ([head % 3, b"abc"], [head % 3 + b"abc"]):
        first, second = events_of(pieces)
        assert first == CONTINUE
        assert isinstance(second, Request)
        assert second.body == b"abc"
    assert [type(event) for event in events_of([head % 0])] == [Request]
    assert [type(event) for event in events_of([head % 1025])] == [BadRequest]


def test_absolute_target_must_name_the_host() -> None:
    """Source: RFC 9112, section 3.2.2."""
    request = the_request(b"GET http://x:1/a?b HTTP/1.1\r\nHost: x:1\r\n\r\n")
    assert (request.path, request.query) == ("/a", "b")
    assert the_request(b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n").path == "/"
    assert the_request(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").path == "*"


def line_of(size: int) -> bytes:
    return b"GET /%b HTTP/1.1\r\n" % (b"a" * (size - len("GET / HTTP/1.1")))


def headers_of(size: int) -> bytes:
    """Return header lines that have ``size`` bytes together with the empty line."""
    return b"Host: x\r\nA: %b\r\n\r\n" % (b"a" * (size - len("Host: x\r\nA: \r\n\r\n")))


@pytest.mark.parametrize("small", [False, True])
def test_limits_are_exact(small: bool) -> None:
    limits = TIGHT if small else LIMITS
    line, headers = limits.request_line_bytes_max, limits.header_bytes_max
    host = b"Host: x\r\n\r\n"
    assert isinstance(events_of([line_of(line) + host], limits)[0], Request)
    assert refusal(line_of(line + 1) + host, limits).status == 414
    assert events_of([b"GET /" + b"a" * (line - 4)], limits) == []
    assert refusal(b"GET /" + b"a" * (line - 3), limits).status == 414
    assert isinstance(events_of([line_of(20) + headers_of(headers)], limits)[0], Request)
    assert refusal(line_of(20) + headers_of(headers + 1), limits).status == 431
    many = b"a:\r\n" * (limits.headers_max - 1)
    assert isinstance(events_of([line_of(20) + many + host], limits)[0], Request)
    assert refusal(line_of(20) + b"a:\r\n" + many + host, limits).status == 431
    post = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    wide = HttpLimits(body_bytes_max=limits.body_bytes_max)
    body = b"a" * (limits.body_bytes_max - 1)
    chunks = post + b"%x\r\n%b\r\n" % (len(body), body)
    assert isinstance(events_of([chunks + b"1\r\na\r\n0\r\n\r\n"], wide)[0], Request)
    assert refusal(chunks + b"2\r\n", wide).status == 413


def test_endless_part_is_rejected() -> None:
    """A line, header, chunk or trailer cannot grow without bound."""
    start = b"GET / HTTP/1.1\r\nHost: x\r\n"
    chunked = start + b"Transfer-Encoding: chunked\r\n\r\n"
    for status, beginning, more in (
        (414, b"GET /", b"a"),
        (431, start + b"A:", b" "),
        (431, start, b"a:b\r\n"),
        (413, chunked, b"1\r\na\r\n"),
        (400, chunked, b"1"),
        (431, chunked + b"0\r\n", b"a:b\r\n"),
    ):
        events = events_of([beginning, *[more * 200] * 200])
        assert [event.status for event in events if isinstance(event, BadRequest)] == [status]


def test_receiving_is_true_from_the_first_to_the_last_byte() -> None:
    connection = ServerConnection(LIMITS)
    seen = []
    for piece in (b"G", b"ET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", b"a"):
        seen.append(connection.receiving)
        connection.receive_data(piece)
        event = connection.next_event()
    assert seen == [False, True, True]
    assert isinstance(event, Request)
    assert not connection.receiving


def test_head_is_answered_with_the_length_but_without_the_body() -> None:
    """Source: RFC 9110, section 9.3.2."""
    connection = ServerConnection(LIMITS)
    connection.receive_data(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert isinstance(connection.next_event(), Request)
    assert connection.send(OK).endswith(b"\r\nContent-Length: 17\r\n\r\n")


def test_request_stays_unanswered_if_the_response_is_invalid() -> None:
    """The server can then answer with an error."""
    connection = ServerConnection(LIMITS)
    connection.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.next_event()
    for bad in (
        Response(status=200, body=b"", headers=((b"A", b"b\r\nC: d"),)),
        Response(status=204, body=b""),
        Response(status=299, body=b""),
    ):
        with pytest.raises(ValueError, match=r"header|status|valid"):
            connection.send(bad)
    assert connection.send(text_response(500, "internal error"), close=True).startswith(
        b"HTTP/1.1 500 Internal Server Error\r\n"
    )
    assert connection.closed
