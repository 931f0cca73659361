"""Find out which security protocol a listener expects if it rejects the client's.

**Invariant:** no credentials are sent. The probes are a TLS ClientHello, ApiVersions and
SaslHandshake, each on a separate connection.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

import trio

from authorizerd.config.values import SecurityProtocol, protocol_of
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.errors import (
    Cause,
    ConnectionFailedError,
    RequestFailedError,
    Stage,
    UnservedError,
)
from authorizerd.kafka_client.log_in import requires_log_in
from authorizerd.kafka_client.transport import OpenStream
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

PROBE_SECONDS: Final = 1.0

_CLIENT_ID: Final = "authorizerd-probe"
_NO_ANSWER: Final = ErrorCode.NETWORK_EXCEPTION
_TLS_ANSWERS: Final = (b"\x16\x03", b"\x15\x03")
"""The first bytes of a TLS record: of a handshake message, and of an alert."""


async def find_mismatch(
    failure: UnservedError,
    *,
    has_tls: bool,
    has_credentials: bool,
    open_tcp: OpenStream,
    open_stream: OpenStream,
) -> RequestFailedError | None:
    """Return the error for a listener that expects another security protocol, or None.

    Args:
        failure: how the listener ended an accepted connection.
        has_tls: True if ``open_stream`` uses TLS.
    """
    address = failure.address
    own = protocol_of(has_tls=has_tls, has_log_in=has_credentials)
    match failure.stage:
        case Stage.REQUEST if not has_credentials and await _is_log_in_required(
            address, open_stream
        ):
            return log_in_required(address, has_tls=has_tls)
        case Stage.NEGOTIATION if not has_tls and await speaks_tls(address, open_tcp):
            expected = f"{SecurityProtocol.SSL} or {SecurityProtocol.SASL_SSL}"
            return _mismatch(address, own, expected, Cause.TLS_REQUIRED)
        case Stage.HANDSHAKE if found := await find_cleartext_protocol(address, open_tcp):
            return _mismatch(address, own, found, Cause.TLS_UNEXPECTED)
        case _:
            return None


def log_in_required(address: Address, *, has_tls: bool) -> RequestFailedError:
    """Return the error for a client without credentials on a listener that requires them."""
    own = protocol_of(has_tls=has_tls, has_log_in=False)
    expected = protocol_of(has_tls=has_tls, has_log_in=True)
    return _mismatch(address, own, expected, Cause.LOG_IN_REQUIRED)


def _mismatch(address: Address, own: str, expected: str, cause: Cause) -> RequestFailedError:
    text = f"{address}: the listener expects {expected}, but the client uses {own}"
    code = ErrorCode.ILLEGAL_SASL_STATE if cause is Cause.LOG_IN_REQUIRED else _NO_ANSWER
    return RequestFailedError(ApiError(code, text), cause)


async def speaks_tls(address: Address, open_tcp: OpenStream) -> bool:
    """Return True if a listener answers a ClientHello with TLS, within a second."""
    hello, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    with suppress(ssl.SSLWantReadError):  # it waits for the server's answer
        context.wrap_bio(hello, outgoing).do_handshake()
    answer = b""
    with trio.move_on_after(PROBE_SECONDS):
        try:
            async with await open_tcp(address) as stream:
                await stream.send_all(outgoing.read())
                while len(answer) < len(_TLS_ANSWERS[0]):
                    received = await stream.receive_some()
                    if not received:
                        break
                    answer += received
        except (ConnectionFailedError, trio.BrokenResourceError, OSError):
            return False
    return answer.startswith(_TLS_ANSWERS)


async def find_cleartext_protocol(
    address: Address, open_tcp: OpenStream
) -> SecurityProtocol | None:
    """Return PLAINTEXT or SASL_PLAINTEXT if a listener answers without TLS, within a second."""
    with trio.move_on_after(PROBE_SECONDS):
        try:
            needs_log_in = await _probe_log_in(address, open_tcp)
        except (ConnectionFailedError, RequestFailedError):
            return None
        return SecurityProtocol.SASL_PLAINTEXT if needs_log_in else SecurityProtocol.PLAINTEXT
    return None


async def _is_log_in_required(address: Address, open_stream: OpenStream) -> bool:
    with trio.move_on_after(PROBE_SECONDS):
        try:
            return await _probe_log_in(address, open_stream)
        except (ConnectionFailedError, RequestFailedError):
            return False
    return False


async def _probe_log_in(address: Address, open_stream: OpenStream) -> bool:
    """Return True if a listener requires authentication.

    Raises:
        ConnectionFailedError, RequestFailedError: it does not answer.
    """
    node = Node(address, await open_stream(address), _CLIENT_ID)
    try:
        await node.negotiate()
        return await requires_log_in(node)
    finally:
        await node.aclose()
