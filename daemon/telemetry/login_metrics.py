"""Metrics of the log-ins at Kafka listeners.

Source: Kafka 4.3's socket-server-metrics: successful- and failed-authentication-total, successful-
and failed-reauthentication-total, expired-connections-killed-count (KIP-368).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from authorizerd.daemon.kafka.listener import KafkaListener

_RESULTS: Final = {True: "succeeded", False: "failed"}


def login_metrics(listeners: Mapping[str, KafkaListener]) -> Iterable[Metric]:
    """Yield the counters of log-ins, by listener and mechanism."""
    logins = CounterMetricFamily(
        "authorizerd_kafka_logins",
        "Log-ins on new connections, by SASL mechanism and result.",
        labels=["listener", "mechanism", "result"],
    )
    again = CounterMetricFamily(
        "authorizerd_kafka_reauthentications",
        "Re-authentications on open connections, by SASL mechanism and result.",
        labels=["listener", "mechanism", "result"],
    )
    expired = CounterMetricFamily(
        "authorizerd_kafka_sessions_expired",
        "Connections closed because the client did not log in again in time.",
        labels=["listener"],
    )
    for name, listener in listeners.items():
        expired.add_metric([name], listener.statistics.sessions_expired)
        for mechanism in () if listener.sasl is None else listener.sasl.mechanisms:
            for is_success, result in _RESULTS.items():
                labels, key = [name, mechanism, result], (mechanism, is_success)
                logins.add_metric(labels, listener.statistics.logins[key])
                again.add_metric(labels, listener.statistics.reauthentications[key])
    return logins, again, expired
