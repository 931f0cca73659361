"""The metrics of watchers, of workers and of the process itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import trio

from authorizerd.daemon.telemetry.family import MetricFamily, Values
from authorizerd.daemon.telemetry.metric_sources import Scrape
from authorizerd.daemon.workers.pool import WorkerPool

_WATCH_ENDINGS: Final = ("closed", "slow", "expired", "forbidden", "not_ready")
_WORKERS: Final = "with `authorizerd.workers` above 1"


def _of_workers(read: Callable[[WorkerPool], Values]) -> Callable[[Scrape], Values | None]:
    return lambda scrape: None if scrape.workers is None else read(scrape.workers)


def _list_certificates(scrape: Scrape) -> Mapping[tuple[str, ...], float]:
    return {
        (each.port, each.store, str(each.position), each.validity.serial_text): (
            each.validity.not_after.timestamp()
        )
        for each in scrape.daemon.certificates.listed
    }


PROCESS_METRICS: Final = (
    MetricFamily(
        name="authorizerd_watchers",
        unit="clients",
        help="Clients that watch changes of ACLs now.",
        advice="If it is near `authorizerd.watch.max.connections`, raise it, or check who watches.",
        read=lambda scrape: scrape.watch.watchers_open,
    ),
    MetricFamily(
        name="authorizerd_watchers_refused_total",
        unit="requests",
        help="Watches refused because authorizerd.watch.max.connections was reached.",
        advice="Raise the limit, or let consumers share a watch.",
        read=lambda scrape: scrape.watch.watchers_refused,
    ),
    MetricFamily(
        name="authorizerd_watch_events_total",
        unit="batches",
        help="Batches of changes sent to watchers, counted once for each watcher.",
        advice="If it stays at 0 while ACLs change, nobody watches.",
        read=lambda scrape: scrape.watch.events_sent,
    ),
    MetricFamily(
        name="authorizerd_watchers_ended_total",
        labels=("reason",),
        unit="watches",
        help="Watches that have ended, by reason.",
        advice=(
            "`slow`, `expired`: clients read too slowly; raise `authorizerd.watch.journal.bytes`. "
            "`forbidden`: a token or the right to read was removed."
        ),
        read=lambda scrape: {
            ending: getattr(scrape.watch, f"watchers_ended_{ending}") for ending in _WATCH_ENDINGS
        },
    ),
    MetricFamily(
        name="authorizerd_workers",
        unit="processes",
        help="Workers that accept connections.",
        advice="If it stays below `authorizerd.workers`, the daemon's log says why workers end.",
        condition=_WORKERS,
        read=_of_workers(lambda workers: workers.listening),
    ),
    MetricFamily(
        name="authorizerd_workers_offset",
        unit="log offset",
        help="Lowest log offset that all workers have applied, -1 if none accepts connections.",
        advice="If it stays below `authorizerd_snapshot_offset`, a worker hangs.",
        condition=_WORKERS,
        read=_of_workers(lambda workers: workers.offset),
    ),
    MetricFamily(
        name="authorizerd_worker_restarts_total",
        unit="processes",
        help="Workers replaced because they ended or fell behind.",
        advice="Check for out-of-memory kills, and check `authorizerd.worker.timeout.ms`.",
        condition=_WORKERS,
        read=_of_workers(lambda workers: workers.restarts),
    ),
    MetricFamily(
        name="authorizerd_query_process_ready",
        unit="1 or 0",
        help="1 while the query process answers searches, explanations and listings, else 0.",
        advice="If it stays at 0, the daemon's log says why the process ends.",
        read=lambda scrape: scrape.daemon.query_process.listening,
    ),
    MetricFamily(
        name="authorizerd_query_process_restarts_total",
        unit="processes",
        help="Query processes replaced because they ended or fell behind.",
        advice="Check for out-of-memory kills, and check `authorizerd.worker.timeout.ms`.",
        read=lambda scrape: scrape.daemon.query_process.restarts,
    ),
    MetricFamily(
        name="authorizerd_queries_ended_total",
        labels=("reason",),
        unit="questions",
        help="Questions whose child in the query process ended without an answer.",
        advice=(
            "`time`: ask narrower questions, or raise `authorizerd.search.timeout.ms`. `memory`: "
            "ask narrower questions. `failure`: read the daemon's log."
        ),
        read=lambda scrape: scrape.daemon.query_process.ended(),
    ),
    MetricFamily(
        name="authorizerd_certificate_expiry_timestamp_seconds",
        labels=(
            "listener",
            "store",
            "position",
            "serial",
        ),
        unit="Unix time in seconds",
        help="Time at which a certificate in use expires. Position 0 is the server's certificate.",
        advice=(
            "Replace the certificate before that time, then reload. `listener` is a Kafka "
            "listener, or `http` for the ports of `authorizerd.http.ssl.*`. `store` is `keystore` "
            "or `truststore`. `serial` is hexadecimal, as openssl prints it. Each store shows the "
            "20 certificates that expire first."
        ),
        condition="with TLS",
        read=_list_certificates,
    ),
    MetricFamily(
        name="authorizerd_reloads_total",
        labels=("result",),
        unit="reloads",
        help="Reloads of the configuration and the files that it names, by result.",
        advice="`failed`: the daemon's log names the key, the file and the reason.",
        read=lambda scrape: {
            "succeeded": scrape.daemon.reloads.succeeded,
            "failed": scrape.daemon.reloads.failed,
        },
    ),
    MetricFamily(
        name="authorizerd_reload_failing",
        unit="1 or 0",
        help="1 if the last reload failed, so that the previous settings are still in force.",
        advice="Fix what the daemon's log names, and send SIGHUP again.",
        read=lambda scrape: scrape.daemon.reloads.failing,
    ),
    MetricFamily(
        name="authorizerd_log_lines_dropped_total",
        unit="lines",
        help="Log lines dropped because standard error was not read fast enough.",
        advice="Check what reads standard error: a pipe without a reader, or a slow log collector.",
        read=lambda scrape: scrape.log_lines_dropped,
    ),
    MetricFamily(
        name="authorizerd_tasks",
        unit="tasks",
        help="Tasks of the event loop, in the daemon's own process.",
        advice=(
            "A few dozen, and a few for each open connection. If it grows while connections do "
            "not, report it."
        ),
        read=lambda scrape: trio.lowlevel.current_statistics().tasks_living,
    ),
)
