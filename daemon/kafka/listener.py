"""A Kafka listener: accepts connections, authenticates them if required, and answers requests.

**Invariant:** the requests of one connection are answered in order, one at a time, so each request
is judged after the earlier ones have taken effect. A misbehaving peer ends only its own connection.

Source: Kafka 4.3 SocketServer, SaslServerAuthenticator; KIP-43, KIP-152, KIP-255, KIP-368 (SASL),
KIP-511.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import trio

from authorizerd.actors.boot_clock import Clock, boot_time
from authorizerd.config.bounds import ANSWERS_AT_ONCE_MAX, SEND_BYTES, TOKEN_BYTES_MAX
from authorizerd.config.configuration import Configuration
from authorizerd.config.sasl import SaslSettings
from authorizerd.config.values import protocol_of
from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.kafka.api_versions import ApiVersionsHandler, is_valid
from authorizerd.daemon.kafka.codec import read_body, refuse_all, write_body
from authorizerd.daemon.kafka.dispatch import Session
from authorizerd.daemon.kafka.errors import InvalidCredentialsError, SessionExpiredError
from authorizerd.daemon.kafka.login.authentication import SaslExchange
from authorizerd.daemon.kafka.login.login_credentials import LoginCredentials
from authorizerd.daemon.kafka.login.sasl_oauth import read_first
from authorizerd.daemon.kafka.login.token_check import TokenCheck
from authorizerd.daemon.net.accepting import Stream
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX, Connection, Phase
from authorizerd.daemon.net.connection_limits import UNLIMITED, ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.creation_rate import ListenerRates
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import holds_frame
from authorizerd.protocol.kafka.api import ApiKey, served_apis
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from authorizerd.protocol.kafka.responses import SaslAuthenticateAnswer
from authorizerd.protocol.kafka.server_connection import (
    KafkaRequest,
    KafkaServerConnection,
    frame_response,
    frame_token,
    unsupported_api_versions,
)
from authorizerd.tls.server import TlsServer

_LISTING_APIS: Final = frozenset(
    (
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    )
)
"""APIs with long answers. Few are answered at once: no memory can be reserved for them."""


@dataclass(slots=True)
class KafkaStatistics(ConnectionStatistics):
    """Counters of one listener.

    ``logins_failed`` counts failed authentications, for any reason. ``logins`` and
    ``reauthentications`` count those for which a mechanism was chosen, by mechanism and success.
    ``sessions_expired`` counts connections that were closed because the client did not log in
    again in time. ``accepts_delayed`` and ``accept_delay_seconds`` count connections above a
    connection rate, and their delays.
    """

    logins_failed: int = 0
    logins: Counter[tuple[str, bool]] = field(default_factory=Counter)
    reauthentications: Counter[tuple[str, bool]] = field(default_factory=Counter)
    sessions_expired: int = 0
    accepts_delayed: int = 0
    accept_delay_seconds: float = 0.0


class Handlers(Protocol):
    """The handlers of requests from authenticated clients."""

    async def answer(self, request: KafkaRequest, session: Session) -> list[Chunk]:
        """Return the body of the response, in chunks.

        Raises:
            DecodeError: the connection is to be closed.
        """


class KafkaListener(ConnectionServer):
    """Serve the Kafka protocol on one listener.

    Args:
        sasl: how clients log in; None if the listener has no authentication. A client is then
            ANONYMOUS, or the principal of its certificate.
        failed_login_delay_ms: the delay of the answer to failed authentication.
        is_super_user: returns True if a principal may use a reserved slot once authenticated.
        tokens: checks the tokens of OAUTHBEARER; None if ``sasl`` does not offer it.
        rates: limits of how fast connections are accepted; None: no limit.
        is_controller: True if it serves the APIs of Kafka's controllers instead of the brokers'.
        clock: measures sessions (`connections.max.reauth.ms`).
    """

    def __init__(
        self,
        *,
        name: str,
        handlers: Handlers,
        versions: ApiVersionsHandler,
        sasl: SaslSettings | None,
        credentials: LoginCredentials,
        failed_login_delay_ms: int,
        limits: ConnectionLimits,
        request_bytes_max: int,
        memory_bytes_max: int,
        is_super_user: Callable[[str], bool],
        tokens: TokenCheck | None = None,
        rates: ListenerRates | None = None,
        is_controller: bool = False,
        tls: TlsServer | None = None,
        clock: Clock = boot_time,
    ) -> None:
        login_bytes_max = LOGIN_BYTES_MAX if tokens is None else TOKEN_BYTES_MAX
        super().__init__(
            name=name,
            limits=limits,
            memory_bytes_max=memory_bytes_max,
            login_bytes_max=None if sasl is None else login_bytes_max,
            tls=tls,
        )
        self.apis: Final = served_apis(is_controller=is_controller)
        self.statistics: KafkaStatistics = KafkaStatistics()
        self._handlers = handlers
        self.versions: Final = versions
        self.sasl: Final = sasl
        self.security_protocol: Final = protocol_of(
            has_tls=tls is not None, has_log_in=sasl is not None
        )
        self.credentials: Final = credentials
        self.tokens: Final = tokens
        self.failed_login_delay_s: Final = failed_login_delay_ms / 1000
        self.request_bytes_max: Final = request_bytes_max
        self.first_bytes_max: Final = request_bytes_max if sasl is None else login_bytes_max
        self.is_super_user: Final = is_super_user
        self._listing = trio.CapacityLimiter(ANSWERS_AT_ONCE_MAX)
        self._rates = rates
        self.clock: Final = clock

    async def serve(
        self,
        listeners: Sequence[trio.abc.Listener[Stream]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async with trio.open_nursery() as nursery:
            if self.tokens is not None and self.tokens.keys is not None:
                nursery.start_soon(self.tokens.keys.run)
            await super().serve(listeners, task_status=task_status)
            nursery.cancel_scope.cancel()

    def reserve_accept(self) -> float:
        delay_s = 0.0 if self._rates is None else self._rates.reserve(trio.current_time())
        self.statistics.accepts_delayed += delay_s > 0
        self.statistics.accept_delay_seconds += delay_s
        return delay_s

    def reconfigure(self, settings: Configuration, connections_max: int) -> None:
        super().reconfigure(settings, connections_max)
        if self._rates is not None:
            own = settings.listener_creation_rates.get(self.name, UNLIMITED)
            shared = settings.max_connection_creation_rate
            self._rates.change(own, shared, trio.current_time())

    def holds_request(self, opening: bytes) -> bool:
        return holds_frame(opening)

    async def converse(self, connection: Connection) -> None:
        try:
            await _Conversation(self, connection).run()
        except SessionExpiredError:
            self.statistics.sessions_expired += 1
            raise

    async def answer(
        self, request: KafkaRequest, session: Session, connection: Connection
    ) -> list[Chunk]:
        """Return the body of the response; a listing may first wait for other listings.

        Raises:
            BrokenResourceError: the client of a listing disconnected while it waited.
        """
        if request.api_key not in _LISTING_APIS:
            return await self._handlers.answer(request, session)
        async with self._listing:
            if connection.is_disconnected:  # it may have disconnected during the wait
                raise trio.BrokenResourceError
            return await self._handlers.answer(request, session)


class _Conversation:
    """One connection, from its first byte to its last."""

    def __init__(self, listener: KafkaListener, connection: Connection) -> None:
        self._listener = listener
        self._connection = connection
        self._host = connection.address or ""
        self._sasl = SaslExchange(
            listener.sasl, listener.credentials, connection.principal, listener.tokens
        )
        self._requests = KafkaServerConnection(listener.first_bytes_max)

    async def run(self) -> None:
        """Read and answer in turn until the peer, or an invalid request, ends the connection."""
        while data := await self._connection.receive(self._requests.bytes_held):
            self._requests.receive_data(data)
            answered = 0
            while (chunks := await self._answer_next()) is not None:
                await self._send(chunks)
                answered += 1
                self._connection.finish_answer()
                if self._sasl.has_failed:
                    raise ClosingError(
                        f"failed authentication from {self._host}: {self._sasl.failure}"
                    )
                if self._requests.bytes_held:
                    await self._connection.wait_for_turn()
            self._connection.admission.leave(
                has_backlog=answered > 1 or self._requests.bytes_held > 0
            )

    async def _answer_next(self) -> list[Chunk] | None:
        """Return the answer to the next received frame, None until the frame is complete."""
        if self._sasl.expects_raw_token:
            token = self._requests.next_token()
            return None if token is None else await self._accept_raw_token(token)
        request = self._requests.next_request()
        return None if request is None else await self._answer(request)

    async def _answer(self, request: KafkaRequest) -> list[Chunk]:
        self._connection.phase = Phase.ANSWERING
        self._listener.statistics.requests += 1
        _ = self._connection.certified  # raises once the certificate has expired
        if request.api_key not in self._listener.apis:
            raise DecodeError(f"{request.api_key.name} is not served on this listener", 0)
        if not request.is_served:
            return unsupported_api_versions(request)
        # SaslHandshake checks the session itself, because it may begin a new one.
        if request.api_key is not ApiKey.SASL_HANDSHAKE:
            self._sasl.check_session(self._listener.clock())
        match request.api_key:
            case ApiKey.API_VERSIONS:
                body = await self._answer_api_versions(request)
            case ApiKey.SASL_HANDSHAKE:
                asked: SaslHandshakeRequest = await read_body(request)
                chosen = self._sasl.choose_mechanism(
                    asked.mechanism, request.api_version, self._listener.clock()
                )
                await self._on_login()
                body = await write_body(request, chosen)
            case ApiKey.SASL_AUTHENTICATE:
                sent: SaslAuthenticateRequest = await read_body(request)
                result = await self._authenticate(sent.auth_bytes)
                if result is None:
                    return []
                body = await write_body(request, result)
            case _:
                principal = self._sasl.principal
                if principal is None:
                    raise ClosingError(f"{request.api_key.name} before authentication")
                session = Session(
                    listener_name=self._listener.name,
                    security_protocol=self._listener.security_protocol,
                    principal=principal,
                    host=self._host,
                    authentication=self._sasl.authentication,
                )
                body = await self._listener.answer(request, session, self._connection)
        if (
            self._listener.sasl is None
        ):  # without authentication, the first answer establishes a connection
            self._listener.establish(self._connection, is_known=False)
        return frame_response(request, body)

    async def _answer_api_versions(self, request: KafkaRequest) -> list[Chunk]:
        asked: ApiVersionsRequest = await read_body(request)
        versions = self._listener.versions
        error = ErrorCode.INVALID_REQUEST
        if is_valid(asked):
            error = self._sasl.accept_versions_request()
            await self._on_login()
            # As in Kafka, a client that has not logged in yet may be connected to any node.
            if self._sasl.principal is not None and versions.is_misrouted(
                asked, self._listener.name
            ):
                error = ErrorCode.REBOOTSTRAP_REQUIRED
        if error:
            return await refuse_all(request, ApiError(error))
        answer = versions.answer(self._listener.apis, request.api_version)
        return await write_body(request, answer)

    async def _accept_raw_token(self, token: bytes) -> list[Chunk]:
        """Log in a client that predates SaslAuthenticate: the answer is also a bare token."""
        self._connection.phase = Phase.ANSWERING
        result = await self._authenticate(token)
        if result is None or self._sasl.has_failed:
            return []
        return [frame_token(result.auth_bytes)]

    async def _authenticate(self, token: bytes) -> SaslAuthenticateAnswer | None:
        """Check a token, after waiting until the required credentials are loaded."""
        sasl, credentials = self._sasl, self._listener.credentials
        if sasl.uses_credentials and not credentials.are_loaded:
            self._connection.enter(Phase.SENDING)  # so that a new connection may replace it
            await credentials.wait_until_loaded()
            self._connection.phase = Phase.ANSWERING
        if sasl.uses_token and self._listener.tokens is not None:
            await self._prepare(self._listener.tokens, token)
        is_login, is_reauthentication = sasl.expects_token, sasl.is_reauthentication
        result = sasl.authenticate(token, self._listener.clock())
        if is_login and sasl.mechanism is not None and not sasl.expects_token:
            statistics = self._listener.statistics
            counts = statistics.reauthentications if is_reauthentication else statistics.logins
            counts[sasl.mechanism, not sasl.has_failed] += 1
        await self._on_login()
        return result

    async def _prepare(self, tokens: TokenCheck, message: bytes) -> None:
        """Wait until the issuer's key for a token is known, if it may become known."""
        with suppress(InvalidCredentialsError):
            token = read_first(message)[1]
            if not tokens.knows_key(token):
                self._connection.enter(Phase.SENDING)  # so that a new connection may replace it
                await tokens.wait_for_key(token)
                self._connection.phase = Phase.ANSWERING

    async def _on_login(self) -> None:
        """Delay the answer to failed authentication; after a successful one, accept larger
        requests.

        Raises:
            ClosingError: only slots that are reserved for super users are left.
        """
        principal = self._sasl.principal
        if self._sasl.has_failed:
            self._listener.statistics.logins_failed += 1
            self._connection.enter(Phase.SENDING)  # so that a new connection may replace it
            await trio.sleep(self._listener.failed_login_delay_s)
        elif principal is not None and not self._connection.is_established:
            self._requests.request_bytes_max = self._listener.request_bytes_max
            may_use_reserve = self._listener.is_super_user(principal)
            self._listener.establish(
                self._connection, is_known=True, may_use_reserve=may_use_reserve
            )

    async def _send(self, chunks: list[Chunk]) -> None:
        """Send the chunks in order, small ones together, and empty the list.

        Raises:
            MemoryBudgetError: the memory budget is exhausted.
        """
        self._connection.hold_answer(sum(map(len, chunks)))
        together = bytearray()
        chunks.reverse()  # popping from the end frees each chunk once it is sent
        while chunks:
            together += chunks.pop()
            if len(together) >= SEND_BYTES:
                await self._connection.send(together)
                together = bytearray()
        if together:
            await self._connection.send(together)
        self._connection.keep(self._requests.bytes_held)
