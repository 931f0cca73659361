"""The counters of one server's connections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ConnectionStatistics:
    """Counters of one server; only the server writes them.

    ``handshakes`` counts the TLS handshakes that succeeded. ``connections_expired`` counts
    connections that were closed because the client's certificate had expired or was no longer
    trusted. ``connections_refused_per_ip`` counts the connections in ``connections_refused`` whose
    address had reached max.connections.per.ip. ``connections_never_established`` counts those in
    ``connections_timed_out`` that were not established.
    """

    connections_open: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_refused_per_ip: int = 0
    connections_evicted: int = 0
    connections_timed_out: int = 0
    connections_never_established: int = 0
    connections_expired: int = 0
    connections_broken: int = 0
    handshakes: int = 0
    handshakes_failed: int = 0
    accepts_failed: int = 0
    requests: int = 0
    requests_refused: int = 0


@dataclass(slots=True)
class HttpStatistics(ConnectionStatistics):
    """The counters of one HTTP server.

    ``requests`` counts complete, valid requests, and ``requests_failed`` those that ended in an
    internal error. ``requests_bad`` counts invalid or too large requests; ``requests`` does not
    include these.
    """

    requests_bad: int = 0
    requests_failed: int = 0
