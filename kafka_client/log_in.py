"""Open connections to Kafka nodes, and log in.

**Invariant:** no error and no ``repr`` contains a password or a token. With SCRAM, the password is
never sent.

Source: KIP-43, KIP-152, KIP-368; Kafka 4.3 SaslClientAuthenticator; RFC 4616 for PLAIN, RFC 7628
for OAUTHBEARER, RFC 4752 for GSSAPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

import trio

from authorizerd.config.follow.settings import AnyLogIn
from authorizerd.config.kerberos import TicketLogIn
from authorizerd.config.oauth import TokenLogIn
from authorizerd.config.values import GSSAPI, OAUTHBEARER
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import CONNECTION_SETUP_TIMEOUT_MS, Node, message_call
from authorizerd.kafka_client.errors import Cause, ConnectionFailedError, RequestFailedError
from authorizerd.kafka_client.kerberos import TicketSource
from authorizerd.kafka_client.oauth import TokenSource, write_first_message
from authorizerd.kafka_client.scram import ScramError, ScramExchange, check_signature, new_nonce
from authorizerd.kafka_client.transport import OpenStream
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import SaslAuthenticateRequest, SaslHandshakeRequest
from authorizerd.protocol.kafka.responses import SaslAuthenticateAnswer, SaslHandshakeAnswer
from authorizerd.protocol.records.scram import ScramMechanism, salt_password

_LIFETIME_USED: Final = 0.85
"""The fraction of a session's lifetime after which it is renewed, as in Kafka's client."""


class Mechanism(StrEnum):
    """A mechanism with passwords; values are SASL names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user's name and password, and the mechanism to log in with."""

    mechanism: Mechanism
    username: str
    password: str = field(repr=False)


AnyCredentials = Credentials | TokenSource | TicketSource


def new_credentials(log_in: AnyLogIn | None) -> AnyCredentials | None:
    """Return the credentials of a configured login; None without authentication."""
    match log_in:
        case None:
            return None
        case TokenLogIn():
            return TokenSource(log_in)
        case TicketLogIn():
            return TicketSource(log_in)
        case _:
            mechanism = Mechanism(log_in.mechanism)
            return Credentials(
                mechanism=mechanism, username=log_in.username, password=log_in.password
            )


async def log_in(node: Node, credentials: AnyCredentials) -> None:
    """Log in on a connection. A thread computes SCRAM's proof, which takes milliseconds.

    Raises:
        ConnectionFailedError: the connection broke.
        RequestFailedError: the node rejects the mechanism or the credentials, or does not prove
            that it knows them. Or no token or ticket can be got.
    """
    if isinstance(credentials, TokenSource):
        await _log_in_with_token(node, credentials)
        return
    if isinstance(credentials, TicketSource):
        await _log_in_with_ticket(node, credentials)
        return
    await _choose_mechanism(node, credentials.mechanism)
    if credentials.mechanism is Mechanism.PLAIN:
        await _authenticate(node, f"\0{credentials.username}\0{credentials.password}".encode())
        return
    try:
        await _log_in_with_scram(node, credentials)
    except ScramError as error:
        failure = ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{node.address}: {error}")
        raise RequestFailedError(failure, Cause.IMPOSTOR) from None


async def requires_log_in(node: Node) -> bool:
    """Return True if the listener requires SASL; other listeners reject the handshake.

    Raises:
        ConnectionFailedError, RequestFailedError: see ``Node.request``.
    """
    answer = await _shake_hands(node, Mechanism.PLAIN)
    return int(answer.error_code) in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM)


async def _log_in_with_scram(node: Node, credentials: Credentials) -> None:
    mechanism = ScramMechanism[credentials.mechanism.name]
    exchange = ScramExchange(mechanism, credentials.username, new_nonce())
    challenge = exchange.read_challenge(await _authenticate(node, exchange.first))
    salted = await trio.to_thread.run_sync(
        salt_password,
        mechanism,
        credentials.password,
        challenge.salt,
        challenge.iterations,
        abandon_on_cancel=True,
    )
    proof = exchange.prove(challenge, salted)
    check_signature(proof, await _authenticate(node, proof.message))


async def _log_in_with_token(node: Node, source: TokenSource) -> None:
    token = await source.get()
    await _choose_mechanism(node, OAUTHBEARER)
    try:
        refusal = await _authenticate(node, write_first_message(token, source.settings))
        if refusal:  # the server gives the reason, and expects another message before its error
            await _authenticate(node, b"\x01")
            error = ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the server refused the token")
            raise RequestFailedError(error, Cause.CREDENTIALS)
    except RequestFailedError:
        source.discard(token)
        raise


async def _log_in_with_ticket(node: Node, source: TicketSource) -> None:
    context = await source.new_context(node.address.host)
    token = await context.answer(None)
    await _choose_mechanism(node, GSSAPI)
    try:
        while not context.is_established:
            token = await context.answer(await _authenticate(node, token))
        offer = await _authenticate(node, token)
        await _authenticate(node, await context.answer(offer))
    except RequestFailedError:
        source.discard()
        raise


async def _choose_mechanism(node: Node, mechanism: str) -> None:
    answer = await _shake_hands(node, mechanism)
    if answer.error_code:
        error = _refused_mechanism(mechanism, answer.error_code, [*answer.mechanisms])
        is_disabled = error.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        cause = Cause.MECHANISM if is_disabled else Cause.LOG_IN_UNEXPECTED
        raise RequestFailedError(error, cause)


async def _shake_hands(node: Node, mechanism: str) -> SaslHandshakeAnswer:
    fields = SaslHandshakeRequest(mechanism=mechanism)
    call = message_call(ApiKey.SASL_HANDSHAKE, fields, SaslHandshakeAnswer)
    return await node.request(call, CONNECTION_SETUP_TIMEOUT_MS)


async def _authenticate(node: Node, token: bytes) -> bytes:
    """Send a token of the mechanism, and return the server's token."""
    fields = SaslAuthenticateRequest(auth_bytes=token)
    call = message_call(ApiKey.SASL_AUTHENTICATE, fields, SaslAuthenticateAnswer)
    answer = await node.request(call, CONNECTION_SETUP_TIMEOUT_MS)
    if answer.error_code:
        error = ApiError(answer.error_code, answer.error_message)
        raise RequestFailedError(error, Cause.CREDENTIALS)
    # A lifetime of 0 means that the session does not expire.
    lifetime = answer.session_lifetime
    if lifetime > timedelta():
        node.renewal_time = trio.current_time() + _LIFETIME_USED * lifetime.total_seconds()
    return answer.auth_bytes


def _refused_mechanism(mechanism: str, code: int, mechanisms: Sequence[str]) -> ApiError:
    enabled = f"enabled mechanisms are [{', '.join(mechanisms)}]"
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        reason = f"Client SASL mechanism '{mechanism}' not enabled in the server, {enabled}"
        return ApiError(code, reason)
    reason = f"Unexpected handshake request with client mechanism {mechanism}, {enabled}"
    return ApiError(ErrorCode.ILLEGAL_SASL_STATE, reason)


async def open_node(
    address: Address, credentials: AnyCredentials | None, client_id: str, open_stream: OpenStream
) -> Node:
    """Connect to a node and log in.

    Raises:
        ConnectionFailedError: it cannot be reached, or does not answer like a Kafka server.
        RequestFailedError: it rejects authentication.
    """
    with trio.move_on_after(CONNECTION_SETUP_TIMEOUT_MS / 1000):
        node = Node(address, await open_stream(address), client_id)
        try:
            await node.negotiate()
            if credentials is not None:
                await log_in(node, credentials)
        except BaseException:
            await node.aclose()
            raise
        return node
    raise ConnectionFailedError(f"{address}: not connected within {CONNECTION_SETUP_TIMEOUT_MS} ms")
