import secrets
import ssl
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from authorizerd.tls.client_hello import (
    CLIENT_HELLO_BYTES_MAX,
    QUICK_BYTES_MAX,
    RETRY_CURVE,
    ClientHelloCheck,
    is_last_answer,
    is_whole_record,
)
from authorizerd.tls.errors import TlsError
from authorizerd.tls.first_hello import answer_hello
from authorizerd.tls.stream import Quick, TlsStream
from tests.support.certificates import Authority

P_256, P_384, X25519, FFDHE2048, FFDHE3072, FFDHE8192 = 0x17, 0x18, 0x1D, 0x100, 0x101, 0x104
_point = ec.generate_private_key(ec.SECP256R1()).public_key()
SHARES = {
    P_256: _point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
    P_384: secrets.token_bytes(97),
    X25519: secrets.token_bytes(32),
    FFDHE2048: bytes(255) + b"\x04",  # a square, as OpenSSL requires
    FFDHE3072: secrets.token_bytes(384),
    FFDHE8192: secrets.token_bytes(1024),
}
GROUPS, SIGNATURES, VERSIONS, KEY_SHARE, PADDING = 10, 13, 43, 51, 21


def prefixed(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data


def numbers(*each: int) -> bytes:
    return struct.pack(f">{len(each)}H", *each)


def hello(
    shares: Sequence[int],
    groups: Sequence[int] = (FFDHE8192, FFDHE3072, FFDHE2048, X25519, P_256),
    more: Mapping[int, bytes] | None = None,
) -> bytes:
    """Return a ClientHello of TLS 1.3 that OpenSSL answers."""
    share = b"".join(numbers(group) + prefixed(2, SHARES[group]) for group in shares)
    extensions = {
        **(more or {}),
        GROUPS: prefixed(2, numbers(*groups)),
        SIGNATURES: prefixed(2, numbers(0x0804, 0x0403)),
        VERSIONS: prefixed(1, numbers(0x0304)),
        KEY_SHARE: prefixed(2, share),
    }
    body = b"\x03\x03" + bytes(32) + prefixed(1, b"") + prefixed(2, numbers(0x1301))
    body += prefixed(1, b"\0")
    body += prefixed(
        2, b"".join(numbers(key) + prefixed(2, value) for key, value in extensions.items())
    )
    return b"\x01" + prefixed(3, body)


def of_tls_1_2(message: bytes) -> bytes:
    return message.replace(b"\0\x2b\0\x03\x02\x03\x04", b"\0\x2b\0\x03\x02\x03\x03")


def records(message: bytes, size: int = 2**14) -> bytes:
    parts = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + prefixed(2, part) for part in parts)


@pytest.fixture(scope="module")
def keystore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority(tmp_path_factory.mktemp("authority")).issue("server", "localhost")


@pytest.fixture
def context(keystore: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    return context


async def answer_to(context: ssl.SSLContext, *flights: bytes) -> bytes | str:
    """Return the server's last answer, or the error with which the handshake ends."""
    ours, theirs = trio.testing.memory_stream_pair()
    answer: bytes | str = b""

    async def serve() -> None:
        nonlocal answer
        try:
            await TlsStream(ours, context, server_side=True).handshake()
        except TlsError as error:
            answer = str(error)
            await ours.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        for flight in flights:
            await theirs.send_all(flight)
            answer = bytes(await theirs.receive_some()) or answer
        nursery.cancel_scope.cancel()
    return answer


@pytest.mark.parametrize("shares", [[P_256], [X25519], [FFDHE2048], [P_256, FFDHE2048], []])
@pytest.mark.parametrize("size", [2**14, 100, 3])
async def test_usual_key_share_is_answered(
    context: ssl.SSLContext, shares: Sequence[int], size: int
) -> None:
    answer = await answer_to(context, records(hello(shares), size))
    assert isinstance(answer, bytes)
    assert answer[:1] == b"\x16", answer.hex()


@pytest.mark.parametrize(
    "flight",
    [
        records(hello([FFDHE8192])),
        records(hello([FFDHE3072])),
        records(hello([P_256, FFDHE8192])),
        records(hello([FFDHE8192]), 100),
        records(hello([FFDHE8192]), 1),
        b"\x16\x03\x01\0\0" + records(hello([FFDHE8192])),  # after an empty record
        b"\x15\x03\x01\0\x02\x01\x5a" + records(hello([FFDHE8192])),  # after an alert
    ],
)
async def test_large_key_share_reaches_no_thread(context: ssl.SSLContext, flight: bytes) -> None:
    assert "more than 2048 bits" in str(await answer_to(context, flight))


@pytest.mark.parametrize(
    ("message", "may_be_retried", "is_quick"),
    [
        (hello([X25519]), True, True),
        (hello([FFDHE2048]), True, False),
        (hello([X25519, FFDHE2048]), True, False),
        (hello([P_384], [P_384, P_256]), True, False),
        (hello([]), True, True),
        (hello([P_256]), False, True),
        (hello([X25519, P_256]), False, True),
        (hello([X25519], [X25519]), False, True),
        (hello([X25519], more={PADDING: bytes(QUICK_BYTES_MAX)}), True, False),
        (of_tls_1_2(hello([X25519])), False, False),
    ],
)
def test_hello_is_answered_without_a_thread_if_that_is_quick(
    context: ssl.SSLContext, message: bytes, may_be_retried: bool, is_quick: bool
) -> None:
    """A hello without a share of the curve gets a HelloRetryRequest, unless it is of TLS 1.2."""
    check = ClientHelloCheck()
    check.check(records(message))
    assert (check.may_be_retried, check.is_quick) == (may_be_retried, is_quick)
    for is_retried, expected in ((False, is_quick), (True, may_be_retried)):
        if is_retried:
            context.set_ecdh_curve(RETRY_CURVE)
        answered = answer_hello(context, records(message), is_retried=is_retried)
        assert (answered is not None) == expected
        if answered is not None:
            begun, size = answered
            assert size == len(records(message))
            needs_another = is_retried or message == hello([])
            assert begun.is_retried == needs_another
            assert is_last_answer(begun.outgoing.read()) != needs_another


@pytest.mark.parametrize("message", [hello([FFDHE8192]), b"\x0b\0\0\0", b"\x01\0\0\x01\0"])
def test_unusual_hello_is_not_answered_without_a_task(message: bytes) -> None:
    """The handshake refuses it, or needs more of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for is_retried in (False, True):
        assert answer_hello(context, records(message), is_retried=is_retried) is None


@pytest.mark.parametrize(
    ("opening", "is_whole"),
    [
        (records(hello([X25519])), True),
        (records(hello([X25519]))[:-1], False),
        (b"\x16\x03\x01", False),
        (b"\x16", False),
        (b"GET ", True),
    ],
)
def test_part_of_a_record_is_recognized(opening: bytes, is_whole: bool) -> None:
    assert is_whole_record(opening) == is_whole


async def test_large_key_share_after_a_retry_reaches_no_thread(context: ssl.SSLContext) -> None:
    first, change_cipher_spec = records(hello([], [FFDHE8192])), b"\x14\x03\x03\0\x01\x01"
    for size in (2**14, 500):
        second = change_cipher_spec + records(hello([FFDHE8192], [FFDHE8192]), size)
        assert "more than 2048 bits" in str(await answer_to(context, first, second))


async def test_large_key_share_after_a_retry_without_a_task_is_refused(
    context: ssl.SSLContext,
) -> None:
    """It would occupy the event loop for a tenth of a second."""
    answered = answer_hello(context, records(hello([], [FFDHE8192])), is_retried=False)
    assert answered is not None
    ours, theirs = trio.testing.memory_stream_pair()
    stream = TlsStream(ours, context, server_side=True, begun=answered[0], quick=Quick.WHOLE)
    await theirs.send_all(records(hello([FFDHE8192], [FFDHE8192])))
    await theirs.send_eof()
    with pytest.raises(TlsError, match="more than 2048 bits"):
        await stream.handshake()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (hello([P_256], more={PADDING: bytes(CLIENT_HELLO_BYTES_MAX)}), "expected at most"),
        (b"\x01\xff\xff\xff", "has 16777219 bytes"),
        (b"\x0b\0\0\0", "expected a ClientHello, found message type 11"),
        (hello([P_256], more=dict.fromkeys(range(2000, 2065), b"")), "more than 64 items"),
    ],
)
def test_costly_message_is_refused(message: bytes, reason: str) -> None:
    check = ClientHelloCheck()
    with pytest.raises(TlsError, match=reason):
        check.check(records(message))


def test_malformed_message_is_left_to_openssl() -> None:
    whole = hello([X25519])
    for end in range(len(whole)):
        ClientHelloCheck().check(records(b"\x01" + prefixed(3, whole[4:end])))
