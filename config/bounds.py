"""The maximum memory of all connections together: the sum of the configured bounds.

**Invariant:** whatever peers send, the daemon's memory stays below its memory at rest plus this
sum. Each term is a count times the maximum size of one item.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import HttpEndpoint, StreamEndpoint

ADMIN_CONNECTIONS_MAX: Final = 64
"""The maximum number of connections of the admin port, independent of max.connections."""
METRICS_CONNECTIONS_MAX: Final = 64
"""The maximum number of connections of the metrics port, independent of max.connections."""
METRICS_CONNECTIONS_PER_IP_MAX: Final = 16
"""The maximum per client address, so that one client cannot keep Prometheus and probes out."""
CONSOLE_PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""The memory of a console page while it is built: its answer, its rows and its HTML."""
RESERVED_CONNECTIONS: Final = 8
"""Extra connections beyond max.connections, so that an administrator can still log in."""
FREE_BYTES: Final = 4096
"""The bytes of requests and answers per connection that its endpoint's budget does not count."""
TOKEN_BYTES_MAX: Final = 32 * 1024
"""The largest message of a client that logs in with OAUTHBEARER; it is free on such listeners."""
RECEIVE_BYTES: Final = 64 * 1024
"""The maximum size of one receive."""
SEND_BYTES: Final = 64 * 1024
"""Answers are sent as soon as this many bytes are ready."""
ANSWERS_AT_ONCE_MAX: Final = 8
"""The number of list requests that a Kafka listener answers at once. More wait for their turn."""

HTTP_HEAD_BYTES_MAX: Final = 24 * 1024
EVALUATIONS_BYTES_MAX: Final = 512 * 1024
"""The memory of a thousand evaluations and their answers while they are decided."""
CONNECTION_BYTES: Final = 32 * 1024
"""The memory of a connection's task, socket and objects."""
TLS_BYTES: Final = 160 * 1024
"""The memory that TLS adds to a connection: keys, records, a client's chain, an encrypted
answer."""
TLS_SESSIONS_MAX: Final = 20 * 1024
"""OpenSSL's default number of sessions that a port keeps for resumption."""
TLS_SESSION_BYTES: Final = 4096

# Bytes of memory per byte of a request, measured by tests/daemon/test_memory_growth.py: a question
# of 12 bytes becomes a tuple and three texts; an alteration of 8 bytes becomes an entity, a text
# and more.
HTTP_GROWTH: Final = 4
STREAM_GROWTH: Final = 24
KAFKA_GROWTH: Final = 48
LIST_BYTES_MAX: Final = 8 * 1024 * 1024
"""The additional memory of a list request, even if its items are short. Also measured."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The memory of ``count`` items of at most ``each_bytes``."""

    what: str
    count: int
    each_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.count * self.each_bytes


def memory_bytes(configuration: Configuration, request_bytes_max: int) -> int:
    """Return the memory budget of an endpoint: at least what its largest request needs."""
    return max(configuration.queued_max_request_bytes, request_bytes_max + RECEIVE_BYTES)


def http_memory_bytes(configuration: Configuration) -> int:
    return memory_bytes(configuration, configuration.http_request_max_bytes + HTTP_HEAD_BYTES_MAX)


def stream_memory_bytes(configuration: Configuration) -> int:
    return memory_bytes(configuration, configuration.stream_frame_max_bytes)


def kafka_memory_bytes(configuration: Configuration) -> int:
    return memory_bytes(configuration, configuration.socket_request_max_bytes)


def listener_connections_max(configuration: Configuration, listener_name: str) -> int:
    """Return the maximum number of connections of a Kafka listener, reserved ones included."""
    most = configuration.max_connections
    own = configuration.listener_max_connections.get(listener_name, most)
    has_reserve = (
        listener_name in configuration.sasl_listeners
        or listener_name in configuration.early_start_listeners
    )
    return min(own, most) + RESERVED_CONNECTIONS * has_reserve


def memory_bounds(configuration: Configuration, answer_bytes_max: int) -> Iterator[Bound]:
    """Yield every memory bound of a single process that makes decisions.

    Args:
        answer_bytes_max: the size, as objects, of the largest list that a Kafka client may request.
            Like memory at rest, it grows with the contents of the log.
    """
    connections = configuration.max_connections
    http_each = CONNECTION_BYTES + HTTP_GROWTH * FREE_BYTES + SEND_BYTES
    room = HTTP_GROWTH * http_memory_bytes(configuration)
    connection_bytes = http_each + EVALUATIONS_BYTES_MAX + _tls_bytes(configuration.decision_http)
    yield Bound("decision HTTP, connections", connections, connection_bytes)
    yield Bound("decision HTTP, requests and answers", 1, room)
    connection_bytes = http_each + _tls_bytes(configuration.admin_http)
    yield Bound("admin HTTP, connections", ADMIN_CONNECTIONS_MAX, connection_bytes)
    yield Bound("admin HTTP, requests and answers", 1, room)
    if configuration.console:
        yield Bound("console, pages", ADMIN_CONNECTIONS_MAX, CONSOLE_PAGE_BYTES_MAX)
    if configuration.metrics_http is not None:
        connection_bytes = http_each + _tls_bytes(configuration.metrics_http)
        yield Bound("metrics HTTP, connections", METRICS_CONNECTIONS_MAX, connection_bytes)
        yield Bound("metrics HTTP, requests and answers", 1, room)
    if configuration.decision_stream is not None:
        connection_bytes = CONNECTION_BYTES + STREAM_GROWTH * FREE_BYTES + SEND_BYTES
        connection_bytes += _tls_bytes(configuration.decision_stream)
        yield Bound("decision stream, connections", connections, connection_bytes)
        room = STREAM_GROWTH * stream_memory_bytes(configuration)
        yield Bound("decision stream, requests and answers", 1, room)
    yield Bound("journal of changes", 1, configuration.watch_journal_bytes)
    yield Bound("TLS sessions", _tls_ports(configuration) * TLS_SESSIONS_MAX, TLS_SESSION_BYTES)
    for listener in configuration.listeners:
        name = listener.listener_name
        connection_bytes = CONNECTION_BYTES + KAFKA_GROWTH * FREE_BYTES + SEND_BYTES
        connection_bytes += TLS_BYTES * (name in configuration.listener_tls)
        # The received message, and its copy while the token is checked.
        sasl = configuration.sasl_listeners.get(name)
        connection_bytes += 2 * TOKEN_BYTES_MAX * (sasl is not None and sasl.tokens is not None)
        most = listener_connections_max(configuration, name)
        yield Bound(f"{name}, connections", most, connection_bytes)
        room = KAFKA_GROWTH * kafka_memory_bytes(configuration)
        yield Bound(f"{name}, requests and answers", 1, room)
        list_bytes = max(answer_bytes_max, LIST_BYTES_MAX)
        yield Bound(f"{name}, lists that are made", ANSWERS_AT_ONCE_MAX + 1, list_bytes)


def _tls_ports(configuration: Configuration) -> int:
    """Return the number of ports with their own context; our own ports share two."""
    own = 0 if configuration.http_tls is None else 2
    return own + len(configuration.listener_tls)


def _tls_bytes(endpoint: HttpEndpoint | StreamEndpoint) -> int:
    return TLS_BYTES * endpoint.is_tls


def memory_bound_bytes(configuration: Configuration, answer_bytes_max: int) -> int:
    """Return the sum of all bounds."""
    return sum(bound.total_bytes for bound in memory_bounds(configuration, answer_bytes_max))
