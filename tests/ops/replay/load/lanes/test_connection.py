"""The connections of lanes to each surface of a target."""

import re
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import (
    Ask,
    Hello,
    StreamServerConnection,
    encode_answer,
    encode_hello,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.lanes.connection import SocketLine, connect
from authorizerd.replay.load.surfaces import (
    Answer,
    HttpSurface,
    StreamSurface,
    Surface,
    check_welcome,
)
from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.load.lanes.target_server import target_server
from tests.support.certificates import Authority, expired
from tests.support.daemon_process import closed_address
from tests.support.sockets import accepting

MS = 1_000_000


def plan_for(target: str, **fields: str | Path | None) -> LoadPlan:
    texts = {name: None if value is None else str(value) for name, value in fields.items()}
    plan = LoadPlan(events="", out="", target=target, run_id="1")
    return msgspec.structs.replace(plan, **texts)


def probe(plan: LoadPlan) -> None:
    connected, _ = connect(plan)
    connected.close()


@pytest.mark.parametrize(("address", "said"), [
    ("", "Connection refused"),
    ("closed", "it closed the connection without an answer|Connection reset"),
    ("tls://closed", "it closed the connection: if it does not speak TLS, use HOST|Connection res"),
    ("nowhere.invalid:1", ""),
    ("unix:/nowhere/stream", "No such file"),
])  # fmt: skip
def test_unreachable_target_is_named(address: str, said: str) -> None:
    with accepting(socket.socket.close) as closing:
        target = address.replace("closed", closing) or closed_address()
        with pytest.raises(LoadError, match=f"target {re.escape(target)}: ({said})"):
            probe(plan_for(target))


def test_socket_line_does_not_block() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        line = SocketLine(plan_for("h:1"), ours)
        assert line.receive() is None
        taken = 0
        while sent := line.send(b"x" * 65536):
            taken += sent
        assert taken > 0
        assert not line.wait(line.now_ns(), to_send=True)
        theirs.sendall(b"answer")
        assert line.wait(line.now_ns() + 10_000 * MS, to_send=False)
        assert line.receive() == b"answer"
        theirs.shutdown(socket.SHUT_WR)
        assert line.wait(line.now_ns() + 10_000 * MS, to_send=False)
        assert line.receive() == b""


@pytest.mark.parametrize(("server", "options", "complaint"), [
    ("server", ("ca",), None),
    ("server", ("ca", "client"), None),
    ("server", (), "in certificate chain: name its CA with --cafile"),
    ("elsewhere", ("ca",), "certificate is rejected: IP address mismatch"),
    ("expired", ("ca",), "certificate is rejected: certificate has expired"),
    ("strict", ("ca",), "requires a client certificate, use --cert and --key"),
    ("strict", ("ca", "foreign"), "refuses the client certificate: unknown ca"),
    ("strict", ("ca", "client"), None),
])  # fmt: skip
def test_target_with_tls_is_checked(
    tmp_path: Path, server: str, options: tuple[str, ...], complaint: str | None
) -> None:
    authority = Authority(tmp_path)
    keystores = {
        "elsewhere": lambda: authority.issue("elsewhere", "10.0.0.1"),
        "expired": lambda: authority.issue("expired", "127.0.0.1", not_after=expired()),
    }
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca_file))
    context.load_cert_chain(keystores.get(server, lambda: authority.issue("server", "127.0.0.1"))())
    if server == "strict":
        context.verify_mode = ssl.CERT_REQUIRED
    files = {
        "ca": {"cafile": authority.ca_file},
        "client": {"cert": authority.issue("client")},
        "foreign": {"cert": Authority(tmp_path, "other").issue("foreign")},
    }
    given = {name: path for option in options for name, path in files[option].items()}
    with target_server(tls=context) as peer:
        plan = plan_for(f"tls://{peer.address}", **given)
        if complaint is None:
            probe(plan)
            assert peer.hellos == 1
            return
        with pytest.raises(LoadError, match=r"target tls://127\.0\.0\.1:") as raised:
            probe(plan)
        assert complaint in str(raised.value)
        assert peer.hellos == 0


@pytest.mark.parametrize(("target", "answer", "complaint"), [
    ("tls://", b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS: use HOST:PORT"),
    ("", bytes.fromhex("15 0303 0002 02 46"), "expects TLS: use tls://"),
    ("", b"HTTP/1.1 400 Bad Request\r\n\r\nthis port expects TLS: use https://\n", "expects TLS"),
])  # fmt: skip
def test_missing_tls_is_named(target: str, answer: bytes, complaint: str) -> None:
    def refuse(accepted: socket.socket) -> None:
        accepted.recv(1000)
        accepted.sendall(answer)

    with accepting(refuse) as address, pytest.raises(LoadError, match=complaint):
        probe(plan_for(f"{target}{address}"))


def test_socket_line_with_tls_does_not_block(tmp_path: Path) -> None:
    """A frame that the socket's buffer cannot hold is sent again as a whole."""
    authority = Authority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(authority.issue("server", "localhost"))
    plain, theirs = socket.socketpair()
    frame = bytes(range(256)) * 40_000
    with ThreadPoolExecutor(1) as threads:
        accepting = threads.submit(server.wrap_socket, theirs, server_side=True)
        ours = authority.client_context().wrap_socket(plain, server_hostname="localhost")
        with ours, accepting.result(10) as peer:
            ours.setblocking(False)
            line = SocketLine(plan_for("h:1"), ours)
            assert line.receive() is None
            assert line.send(frame) == 0
            receiving = threads.submit(read_exactly, peer, len(frame))
            while not line.send(frame):
                line.wait(line.now_ns() + 10_000 * MS, to_send=True)
            assert receiving.result(10) == frame
            peer.sendall(b"answer" * 10_000)
            received = b""
            while len(received) < 60_000:
                assert line.wait(line.now_ns() + 10_000 * MS, to_send=False)
                received += line.receive() or b""
            assert received == b"answer" * 10_000


def read_exactly(connected: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        data += connected.recv(65536)
    return bytes(data)


WELCOME = encode_hello(ErrorCode.NONE, 7) + encode_answer(0, 0, 7, b"\0")


def http(status: int, body: bytes, *, length: str = "Content-Length") -> bytes:
    head = b"HTTP/1.1 %d Whatever\r\n%b: %d\r\n\r\n" % (status, length.encode(), len(body))
    return head + body


DENIED = b'{"evaluations":[{"decision":false,"context":{"offset":7,"reason":"","rule":""}}]}'
FORBIDDEN = b'{"evaluations":[{"decision":false,"context":{"error":{"status":403,"message":""}}}]}'


def greet(surface: Surface) -> bool:
    """Return True once the target has accepted the greeting."""
    answer = surface.next_answer()
    if answer is not None:
        check_welcome(answer)
    return answer is not None


def test_stream_greets_with_token_and_question() -> None:
    connection = StreamServerConnection(1 << 20)
    connection.receive_data(StreamSurface("h:1", "id.secret").greeting())
    assert connection.next_frame() == Hello("hello", 1, "id.secret")
    asked = connection.next_frame()
    assert isinstance(asked, Ask)
    assert len(asked.questions) == 1


def test_every_http_request_has_the_token() -> None:
    head = HttpSurface("localhost:8181", "id.secret").request(b"{}")
    assert head == (
        b"POST /access/v1/evaluations HTTP/1.1\r\nHost: localhost:8181\r\n"
        b"Authorization: Bearer id.secret\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    assert b"Authorization" not in HttpSurface("localhost:8181", None).greeting()


@pytest.mark.parametrize(("surface", "said", "complaint"), [
    (StreamSurface("h:1", None), encode_hello(ErrorCode.SASL_AUTHENTICATION_FAILED, -1),
     "it rejects the token (58 SASL_AUTHENTICATION_FAILED)"),
    (StreamSurface("h:1", None), encode_hello(ErrorCode.UNSUPPORTED_VERSION, -1),
     "it rejects the hello (35 UNSUPPORTED_VERSION)"),
    (StreamSurface("h:1", None),
     encode_hello(ErrorCode.NONE, 7)
     + encode_answer(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 7, b""),
     "authorizerd.callers.ask"),
    (StreamSurface("h:1", None), encode_hello(ErrorCode.NONE, 7) + encode_answer(0, 0, 7, b""),
     "it answered a question without a decision"),
    *((StreamSurface("h:1", None), said, "")
      for said in (b"HTTP/1.1 400 Bad\r\n\r\n", frame(b"\xc1"), frame(b"\x90"))),
    (HttpSurface("h:1", None), http(401, b"expected a token"), "rejects the token (HTTP 401)"),
    (HttpSurface("h:1", None), http(200, FORBIDDEN), "authorizerd.callers.ask"),
    (HttpSurface("h:1", None), http(404, b""), "no AuthZEN endpoint"),
    (HttpSurface("h:1", None), http(500, b""), "it answered with HTTP 500"),
    (HttpSurface("h:1", None), http(200, b"hello"), "not a list of decisions"),
    (HttpSurface("h:1", None), b"SSH-2.0-x\r\n\r\n", "not HTTP"),
    (HttpSurface("h:1", None), b"x" * 70_000, "not HTTP"),
])  # fmt: skip
def test_rejected_greeting_names_the_reason(surface: Surface, said: bytes, complaint: str) -> None:
    surface.receive_data(said)
    with pytest.raises(LoadError if complaint else DecodeError) as raised:
        greet(surface)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(("surface", "said"), [
    (StreamSurface("h:1", None), WELCOME),
    (HttpSurface("h:1", None), http(200, DENIED)),
    (StreamSurface("h:1", None), encode_hello(ErrorCode.NONE, -1)
     + encode_answer(0, ErrorCode.AUTHORIZER_NOT_READY, -1, b"")),
    (HttpSurface("h:1", None), http(503, b"AUTHORIZER_NOT_READY")),
])  # fmt: skip
def test_greeting_is_read_from_any_pieces(surface: Surface, said: bytes) -> None:
    for position in range(len(said)):
        assert not greet(surface)
        surface.receive_data(said[position : position + 1])
    assert greet(surface)


@given(st.lists(st.integers(1, 40), max_size=20))
def test_http_answers_are_read_from_any_pieces(cuts: list[int]) -> None:
    mixed = (
        b'{"evaluations":[{"decision":true,"context":{"offset":9}},'
        b'{"decision":false,"context":{"error":{"status":400}}},{"decision":false}]}'
    )
    data = http(200, mixed) + http(503, b"x", length="content-length") + http(200, DENIED)
    surface, found, position = HttpSurface("h:1", None), list[Answer](), 0
    for size in [*cuts, len(data)]:
        surface.receive_data(data[position : position + size])
        position += size
        while (answer := surface.next_answer()) is not None:
            found.append(answer)
    assert found == [
        Answer(None, None, 9, b"\1\2\0"),
        Answer(None, "HTTP 503", -1, b""),
        Answer(None, None, 7, b"\0"),
    ]
