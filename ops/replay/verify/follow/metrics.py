"""The metrics of ``verify --follow``, which start from the state file.

**Invariant:** a counter is what the state file has, so that it never decreases, whatever ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.protocol.verification import Cause, Counts, Lag
from authorizerd.replay.verify.follow.shadow import Shadow

_NEVER: Final = -1


class FollowMetric(NamedTuple):
    """A metric, as docs/metrics.md explains it; ``read`` returns its values by labels."""

    name: str
    unit: str
    help: str
    advice: str
    read: Callable[[Counts, Lag], float | Mapping[tuple[str, ...], float]]
    labels: tuple[str, ...] = ()
    condition: str = "of `authorizerd verify --follow`"

    @property
    def kind(self) -> Literal["counter", "gauge"]:
        """Prometheus' name of the metric's type."""
        return "counter" if self.name.endswith("_total") else "gauge"

    def collect(self, counts: Counts, lag: Lag) -> Metric:
        """Return the metric with its values now."""
        metric = Metric(self.name.removesuffix("_total"), self.help, self.kind)
        read = self.read(counts, lag)
        for labels, value in (read if isinstance(read, Mapping) else {(): read}).items():
            metric.add_sample(self.name, dict(zip(self.labels, labels, strict=True)), value)
        return metric


def _read_decisions(counts: Counts, lag: Lag) -> dict[tuple[str, ...], float]:
    differing = sum(counts.disagreements.values())
    return {
        ("agreed", ""): counts.agreed,
        ("agreed", "another ACL that matches"): counts.other_rule,
        ("differed", ""): differing,
        **{("not_judged", reason): events for reason, events in counts.not_judged.items()},
    }


def _age_s(time_ms: int | None, without: float) -> float:
    return without if time_ms is None else max(0, time.time() - time_ms / 1000)


FOLLOW_METRICS: Final = (
    FollowMetric(
        name="authorizerd_verified_decisions_total",
        labels=("result", "reason"),
        unit="decisions",
        help="Decisions in brokers' audit logs: agreed, differed, or not_judged with the reason.",
        advice="If most are not judged, nothing is proved: the reason says what is missing.",
        read=_read_decisions,
    ),
    FollowMetric(
        name="authorizerd_disagreements_total",
        labels=("cause",),
        unit="decisions",
        help="Decisions of brokers that no state of the ACLs of that time explains.",
        advice="Each one is logged, and `authorizerd docs prove` explains each cause.",
        # Every cause, because Prometheus sees no increase to the first value of a series.
        read=lambda counts, _: {
            (cause.value,): counts.disagreements.get(cause.value, 0) for cause in Cause
        },
    ),
    FollowMetric(
        name="authorizerd_verify_set_aside_lines_total",
        labels=("reason",),
        unit="lines",
        help="Lines of the logs without a decision, by reason.",
        advice="If most lines are set aside, these are not audit logs, or `--format` is wrong.",
        read=lambda counts, _: {(each,): lines for each, lines in counts.set_aside.items()},
    ),
    FollowMetric(
        name="authorizerd_verify_lost_files_total",
        unit="files",
        help="Logs and partitions that were replaced or removed before they were known to be read "
        "to their end.",
        advice="Keep a renamed log beside the new one, unpacked, until it is read.",
        read=lambda counts, _: counts.lost_files,
    ),
    FollowMetric(
        name="authorizerd_verify_lost_records_total",
        unit="records",
        help="Records of topics that Kafka deleted before they were read.",
        advice="Set the retention of the topic longer than any pause of the verifier.",
        read=lambda counts, _: counts.lost_records,
    ),
    FollowMetric(
        name="authorizerd_verify_bytes_behind",
        unit="bytes",
        help="Bytes of the files that are not counted yet.",
        advice="If it keeps growing, one core cannot keep up, or the history is late.",
        read=lambda _, lag: lag.bytes,
    ),
    FollowMetric(
        name="authorizerd_verify_records_behind",
        unit="records",
        help="Records of the topics that are not counted yet.",
        advice="As for `authorizerd_verify_bytes_behind`; an open transaction also delays records.",
        read=lambda _, lag: lag.records,
    ),
    FollowMetric(
        name="authorizerd_verify_lines_waiting",
        unit="lines",
        help="Lines that were read and wait for the history of the ACLs.",
        advice="A few seconds' lines always wait, for the window.",
        read=lambda _, lag: lag.lines,
    ),
    FollowMetric(
        name="authorizerd_verify_oldest_line_age_seconds",
        unit="seconds",
        help="Age of the oldest line that is not counted, 0 if there is none.",
        advice="Normally somewhat more than the window. It also grows while a topic does not "
        "answer.",
        read=lambda _, lag: _age_s(lag.oldest_ms, 0),
    ),
    FollowMetric(
        name="authorizerd_verify_last_decision_timestamp_seconds",
        unit="seconds since 1970",
        help="Time of the latest decision that was judged, -1 before the first.",
        advice="If it stands still although clients are active, brokers do not log, or nothing "
        "can be judged.",
        read=lambda counts, _: _NEVER if counts.judged_ms is None else counts.judged_ms / 1000,
    ),
    FollowMetric(
        name="authorizerd_verify_history_lag_seconds",
        unit="seconds",
        help="Time for which the history of the ACLs is not known yet, -1 before the first record.",
        advice="Above a few seconds, the log grows no longer: look at the daemon that copies it.",
        read=lambda _, lag: _age_s(lag.history_ms, _NEVER),
    ),
)


class _ShadowCollector(Collector):
    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    def collect(self) -> Iterable[Metric]:
        counts, lag = self._shadow.state.counts, self._shadow.lag
        return [metric.collect(counts, lag) for metric in FOLLOW_METRICS]


def serve_metrics(shadow: Shadow, listen: HttpEndpoint) -> tuple[int, Callable[[], None]]:
    """Serve /metrics in a thread; return the port, and a function that ends this.

    Raises:
        OSError: the address cannot be bound.
    """
    registry = CollectorRegistry()
    registry.register(_ShadowCollector(shadow))
    ProcessCollector(registry=registry)
    server, thread = start_http_server(listen.port, listen.host or "", registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop
