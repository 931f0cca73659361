"""The metrics of the servers of each kind, with a server's name as the label ``listener``.

Source: Kafka 4.3's socket-server-metrics: successful- and failed-authentication-total, successful-
and failed-reauthentication-total, expired-connections-killed-count (KIP-368).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from authorizerd.daemon.telemetry.family import MetricFamily
from authorizerd.daemon.telemetry.metric_sources import Scrape

_LISTENER: Final = ("listener",)
_REASONS: Final = ("refused", "evicted", "timed_out", "expired", "broken")
_RESULTS: Final = {True: "succeeded", False: "failed"}
_REFUSED: Final = "Requests refused because of overload or the memory limit."
_SASL: Final = "on SASL listeners"
_TOKENS: Final = "on listeners with OAUTHBEARER and an issuer's keys"


def _counter(kind: str, counter: str, *, unit: str, help: str, advice: str) -> MetricFamily:
    """Return the metric of a counter of the servers' ``statistics``."""

    def read(scrape: Scrape) -> Mapping[str, float]:
        return {name: getattr(counts, counter) for name, counts in scrape.servers[kind].items()}

    return MetricFamily(
        name=f"authorizerd_{kind}_{counter}_total",
        labels=_LISTENER,
        unit=unit,
        help=help,
        advice=advice,
        read=read,
    )


def _of_every_port(kind: str, *, open_advice: str, ended_advice: str) -> tuple[MetricFamily, ...]:
    """Return the metrics of connections and handshakes, which every port has."""

    def read_open(scrape: Scrape) -> Mapping[str, float]:
        servers = scrape.servers[kind].items()
        return {name: counts.connections_open for name, counts in servers}

    def read_ended(scrape: Scrape) -> Mapping[tuple[str, str], float]:
        return {
            (name, reason): getattr(counts, f"connections_{reason}")
            for name, counts in scrape.servers[kind].items()
            for reason in _REASONS
        }

    def read_refused(scrape: Scrape) -> Mapping[tuple[str, str], float]:
        refused: dict[tuple[str, str], float] = {}
        for name, counts in scrape.servers[kind].items():
            per_ip = counts.connections_refused_per_ip
            others = counts.connections_refused - per_ip
            refused[name, "max.connections"] = others
            refused[name, "max.connections.per.ip"] = per_ip
        return refused

    return (
        MetricFamily(
            name=f"authorizerd_{kind}_connections",
            labels=_LISTENER,
            unit="connections",
            help="Open connections.",
            advice=open_advice,
            read=read_open,
        ),
        MetricFamily(
            name=f"authorizerd_{kind}_connections_ended_total",
            labels=("listener", "reason"),
            unit="connections",
            help="Connections refused at a limit, evicted for a new connection, timed out,"
            " outliving the client's certificate (expired), or broken by invalid data or a fault.",
            advice=ended_advice,
            read=read_ended,
        ),
        MetricFamily(
            name=f"authorizerd_{kind}_connections_refused_total",
            labels=("listener", "reason"),
            unit="connections",
            help="Connections refused, by the key whose limit was reached.",
            advice="Raise the limit that `reason` names, or let clients share connections.",
            read=read_refused,
        ),
        _counter(
            kind,
            "connections_never_established",
            unit="connections",
            help="Connections that timed out before authentication (including the TLS handshake), a"
            " hello or an answered request.",
            advice="Clients or probes connect and send nothing, or are too slow to log in.",
        ),
        _counter(
            kind,
            "accepts_failed",
            unit="attempts",
            help="Failed attempts to accept a connection, usually for lack of file descriptors or"
            " memory.",
            advice="Raise the limit of open files, or find the process that uses them up.",
        ),
        _counter(
            kind,
            "handshakes",
            unit="handshakes",
            help="TLS handshakes that succeeded.",
            advice="If it grows as fast as the requests, clients do not reuse connections.",
        ),
        _counter(
            kind,
            "handshakes_failed",
            unit="handshakes",
            help="TLS handshakes that failed, for any reason.",
            advice="The daemon's log names the reason: no TLS, an unknown CA, an expired"
            " certificate.",
        ),
    )


def _count_logins(
    counter: Literal["logins", "reauthentications"], scrape: Scrape
) -> Mapping[tuple[str, str, str], float]:
    return {
        (name, mechanism, result): getattr(listener.statistics, counter)[mechanism, is_success]
        for name, listener in scrape.daemon.kafka_listeners.items()
        for mechanism in (() if listener.sasl is None else listener.sasl.mechanisms)
        for is_success, result in _RESULTS.items()
    }


def _read_issuers(value: Literal["count", "is_failing"], scrape: Scrape) -> Mapping[str, float]:
    return {
        name: getattr(listener.tokens.keys, value)
        for name, listener in scrape.daemon.kafka_listeners.items()
        if listener.tokens is not None and listener.tokens.keys is not None
    }


_http, _kafka, _stream = (partial(_counter, kind) for kind in ("http", "kafka", "stream"))

SERVER_METRICS: Final = (
    *_of_every_port(
        "http",
        open_advice="If it is near `max.connections`, there are too many callers, or they do not"
        " reuse connections.",
        ended_advice="`refused`: raise `max.connections` or `max.connections.per.ip`. `evicted`:"
        " the same, or a client holds idle connections. `timed_out`: callers are slow or broken.",
    ),
    _http(
        "requests",
        unit="requests",
        help="Complete requests received.",
        advice="If it grows but decisions do not, callers use the wrong paths.",
    ),
    _http(
        "requests_bad",
        unit="requests",
        help="Requests rejected because they are invalid HTTP or too large.",
        advice="A client has a bug, or someone probes the port.",
    ),
    _http(
        "requests_failed",
        unit="requests",
        help="Requests answered with status 500: an internal error.",
        advice="The daemon's log has the traceback. Report it.",
    ),
    _http(
        "requests_refused",
        unit="requests",
        help=_REFUSED,
        advice="Add workers, or send more questions per request.",
    ),
    *_of_every_port(
        "kafka",
        open_advice="See `authorizerd_http_connections`.",
        ended_advice="`broken`: the client does not speak Kafka, or uses the wrong kind of"
        " listener.",
    ),
    _kafka(
        "requests",
        unit="requests",
        help="Requests received.",
        advice="Shows the load of each listener.",
    ),
    _kafka(
        "requests_refused",
        unit="requests",
        help=_REFUSED,
        advice="Spread administration over time, or raise `queued.max.request.bytes`.",
    ),
    _kafka(
        "accepts_delayed",
        unit="connections",
        help="Connections delayed by max.connection.creation.rate.",
        advice="Let clients reuse connections, or raise the rate.",
    ),
    _kafka(
        "accept_delay_seconds",
        unit="seconds",
        help="Time by which max.connection.creation.rate delayed connections, in seconds.",
        advice="If it grows by a second per second, connections arrive faster than the rate.",
    ),
    _kafka(
        "logins_failed",
        unit="authentications",
        help="Failed authentications, for any reason.",
        advice="If there are many, a client uses an old password, or someone guesses passwords.",
    ),
    MetricFamily(
        name="authorizerd_kafka_logins_total",
        labels=("listener", "mechanism", "result"),
        unit="authentications",
        help="Authentications on new connections, by SASL mechanism and result.",
        advice="Before you disable a mechanism, check that nobody uses it. Authentications with a"
        " mechanism that the listener does not enable count only in"
        " `authorizerd_kafka_logins_failed_total`.",
        condition=_SASL,
        read=partial(_count_logins, "logins"),
    ),
    MetricFamily(
        name="authorizerd_kafka_reauthentications_total",
        labels=("listener", "mechanism", "result"),
        unit="authentications",
        help="Re-authentications on open connections, by SASL mechanism and result.",
        advice="A failure means that the user was removed, or that the password has changed.",
        condition=_SASL,
        read=partial(_count_logins, "reauthentications"),
    ),
    _kafka(
        "sessions_expired",
        unit="connections",
        help="Connections closed because the client did not log in again in time.",
        advice="If it grows, a client does not support re-authentication (KIP-368): update it.",
    ),
    MetricFamily(
        name="authorizerd_issuer_keys",
        labels=_LISTENER,
        unit="keys",
        help="Usable keys of the issuer whose tokens the listener accepts.",
        advice="If it is 0, nobody can log in with a token.",
        condition=_TOKENS,
        read=partial(_read_issuers, "count"),
    ),
    MetricFamily(
        name="authorizerd_issuer_keys_failing",
        labels=_LISTENER,
        unit="1 or 0",
        help="1 if the issuer's keys could not be read at the last attempt, else 0.",
        advice="The last known keys stay in use, but new ones are not found. The log has the"
        " reason.",
        condition=_TOKENS,
        read=partial(_read_issuers, "is_failing"),
    ),
    *_of_every_port(
        "stream",
        open_advice="See `authorizerd_http_connections`.",
        ended_advice="`broken`: the client has another version, or sends frames that are too"
        " large.",
    ),
    _stream(
        "requests",
        unit="frames",
        help="Frames received, including hellos.",
        advice="Compare with decisions to see how well callers batch.",
    ),
    _stream(
        "requests_refused",
        unit="frames",
        help=_REFUSED,
        advice="Add workers, or keep fewer frames in flight.",
    ),
)
