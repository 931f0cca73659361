"""The metrics of ``verify --follow``, which start from the state file.

**Invariant:** a counter is what the state file has, so that it never decreases, whatever ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.daemon.telemetry.family import Family, Values
from authorizerd.protocol.verification import Cause, Findings

_NEVER: Final = -1


def _metric(
    name: str, unit: str, help: str, advice: str, read: Callable[[Findings], Values], *labels: str
) -> Family[Findings]:
    return Family(
        name=f"authorizerd_{name}", labels=labels, unit=unit, help=help, advice=advice,
        condition="of `authorizerd verify --follow`", read=read,
    )  # fmt: skip


def _read_decisions(found: Findings) -> dict[tuple[str, ...], float]:
    counts = found.counts
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
    _metric("verified_decisions_total", "decisions",
            "Decisions in brokers' audit logs: agreed, differed, or not_judged with the reason.",
            "If most are not judged, nothing is proved: the reason says what is missing.",
            _read_decisions, "result", "reason"),
    _metric("disagreements_total", "decisions",
            "Decisions of brokers that no state of the ACLs of that time explains.",
            "Each one is logged, and `authorizerd docs prove` explains each cause.",
            # Every cause, because Prometheus sees no increase to the first value of a series.
            lambda found: {
                cause.value: found.counts.disagreements.get(cause.value, 0) for cause in Cause
            }, "cause"),
    _metric("verify_set_aside_lines_total", "lines",
            "Lines of the logs without a decision, by reason.",
            "If most lines are set aside, these are not audit logs, or `--format` is wrong.",
            lambda found: found.counts.set_aside, "reason"),
    _metric("verify_lost_files_total", "files",
            "Logs and partitions that were replaced or removed before they were known to be "
            "read to their end.",
            "Keep a renamed log beside the new one, unpacked, until it is read.",
            lambda found: found.counts.lost_files),
    _metric("verify_lost_records_total", "records",
            "Records of topics that Kafka deleted before they were read.",
            "Set the retention of the topic longer than any pause of the verifier.",
            lambda found: found.counts.lost_records),
    _metric("verify_bytes_behind", "bytes",
            "Bytes of the files that are not counted yet.",
            "If it keeps growing, one core cannot keep up, or the history is late.",
            lambda found: found.lag.bytes),
    _metric("verify_records_behind", "records",
            "Records of the topics that are not counted yet.",
            "As for `authorizerd_verify_bytes_behind`; an open transaction also delays records.",
            lambda found: found.lag.records),
    _metric("verify_lines_waiting", "lines",
            "Lines that were read and wait for the history of the ACLs.",
            "A few seconds' lines always wait, for the window.",
            lambda found: found.lag.lines),
    _metric("verify_oldest_line_age_seconds", "seconds",
            "Age of the oldest line that is not counted, 0 if there is none.",
            "Normally somewhat more than the window. It also grows while a topic does not answer.",
            lambda found: _age_s(found.lag.oldest_ms, 0)),
    _metric("verify_last_decision_timestamp_seconds", "seconds since 1970",
            "Time of the latest decision that was judged, -1 before the first.",
            "If it stands still although clients are active, brokers do not log, or nothing "
            "can be judged.",
            lambda found: _NEVER if (ms := found.counts.judged_ms) is None else ms / 1000),
    _metric("verify_history_lag_seconds", "seconds",
            "Time for which the history of the ACLs is not known yet, -1 before the first record.",
            "Above a few seconds, the log grows no longer: look at the daemon that copies it.",
            lambda found: _age_s(found.lag.history_ms, _NEVER)),
)  # fmt: skip


class _Collector(Collector):
    def __init__(self, read: Callable[[], Findings]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        found = self._read()
        return [metric for each in FOLLOW_METRICS if (metric := each.collect(found)) is not None]


def serve_metrics(
    read: Callable[[], Findings], listen: HttpEndpoint
) -> tuple[int, Callable[[], None]]:
    """Serve /metrics in a thread; return the port, and a function that ends this.

    Raises:
        OSError: the address cannot be bound.
    """
    registry = CollectorRegistry()
    registry.register(_Collector(read))
    ProcessCollector(registry=registry)
    server, thread = start_http_server(listen.port, listen.host or "", registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop
