"""Generate the Grafana dashboard from a table of its panels.

``make install-files`` writes ops/grafana/dashboards/authorizerd.json. A test checks that every
query asks for exported metrics.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

TITLE: Final = "authorizerd"
_COLUMNS: Final = 24
_PANEL_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WHERE: Final = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph.

    ``queries`` are pairs of PromQL and legend; ``INSTANCE`` stands for the selected instances.
    """

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A heading, and the panels that share the width below it."""

    title: str
    panels: tuple[Panel, ...]


ROWS: Final = (
    Row(
        "Health",
        (
            Panel(
                "Ready",
                "1 while the daemon makes decisions. If it is 0, /readyz gives the reason.",
                "short",
                (("authorizerd_ready{INSTANCE}", "{{instance}}"),),
            ),
            Panel(
                "Endpoints open",
                "1 means open. The admin and metrics ports are always open, the others once the"
                " ACLs are loaded.",
                "short",
                (("authorizerd_endpoint_open{INSTANCE}", "{{instance}} {{listener}}"),),
            ),
            Panel(
                "Offsets behind",
                "Offsets that decisions are behind the log, and workers behind the main process.",
                "short",
                (
                    ("instance:authorizerd_snapshot_lag:offsets{INSTANCE}", "{{instance}}"),
                    (
                        "authorizerd_snapshot_offset{INSTANCE}"
                        " - (authorizerd_workers_offset{INSTANCE} >= 0)",
                        "{{instance}} slowest worker",
                    ),
                ),
            ),
            Panel(
                "ACLs",
                "Number of ACLs in force, -1 until they are loaded.",
                "short",
                (("authorizerd_acls{INSTANCE}", "{{instance}}"),),
            ),
        ),
    ),
    Row(
        "Following a cluster",
        (
            Panel(
                "Time since the last contact",
                "Time since the cluster last confirmed the ACLs. At the limit, decisions stop.",
                "s",
                (
                    ("authorizerd_source_contact_age_seconds{INSTANCE}", "{{instance}}"),
                    ("authorizerd_source_stale_max_seconds{INSTANCE}", "{{instance}} limit"),
                ),
            ),
            Panel(
                "Lag",
                "Time for which committed changes have not been applied.",
                "s",
                (("authorizerd_source_lag_seconds{INSTANCE}", "{{instance}}"),),
            ),
            Panel(
                "Failed exchanges per second",
                "By error code or reason. A few are normal when the leader changes.",
                "ops",
                (
                    (
                        "sum by (reason)"
                        " (rate(authorizerd_source_errors_total{INSTANCE}[$__rate_interval]))",
                        "{{reason}}",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Decisions",
        (
            Panel(
                "Questions per second, by result",
                "Allowed, denied, invalid, or asked before the ACLs were loaded.",
                "ops",
                (
                    (
                        "sum by (result) (instance_result:authorizerd_decisions:rate5m{INSTANCE})",
                        "{{result}}",
                    ),
                ),
            ),
            Panel(
                "Questions per second, by surface",
                "The interfaces over which callers ask.",
                "ops",
                (
                    (
                        "sum by (surface)"
                        " (rate(authorizerd_decisions_total{INSTANCE}[$__rate_interval]))",
                        "{{surface}}",
                    ),
                ),
            ),
            Panel(
                "Share of denials",
                "Denials among the questions that were allowed or denied.",
                "percentunit",
                (("instance:authorizerd_denials:ratio_rate5m{INSTANCE}", "{{instance}}"),),
            ),
        ),
    ),
    Row(
        "Load",
        (
            Panel(
                "Requests per second",
                "Requests over HTTP and Kafka, frames over the stream.",
                "reqps",
                tuple(
                    (
                        "sum by (listener)"
                        f" (rate(authorizerd_{kind}_requests_total{{INSTANCE}}[$__rate_interval]))",
                        f"{kind} {{{{listener}}}}",
                    )
                    for kind in ("http", "kafka", "stream")
                ),
            ),
            Panel(
                "Refused per second",
                "Requests refused (overload, memory limit), invalid HTTP requests, failed logins.",
                "reqps",
                (
                    ("instance:authorizerd_requests_refused:rate5m{INSTANCE}", "{{instance}}"),
                    (
                        "sum by (instance)"
                        " (rate(authorizerd_http_requests_bad_total{INSTANCE}[$__rate_interval]))",
                        "{{instance}} bad",
                    ),
                    (
                        "sum by (instance) (rate("
                        "authorizerd_kafka_logins_failed_total{INSTANCE}[$__rate_interval]))",
                        "{{instance}} authentications",
                    ),
                ),
            ),
            Panel(
                "Connections open",
                "By listener. Each listener accepts max.connections in each process.",
                "short",
                tuple(
                    (
                        f"sum by (listener) (authorizerd_{kind}_connections{{INSTANCE}})",
                        f"{kind} {{{{listener}}}}",
                    )
                    for kind in ("http", "kafka", "stream")
                ),
            ),
        ),
    ),
    Row(
        "Kafka requests and updates",
        (
            Panel(
                "Local time, p99",
                "Time that the daemon spends working on a Kafka request, by API.",
                "s",
                (
                    (
                        "instance_request:authorizerd_request_local_seconds:p99_rate5m{INSTANCE}",
                        "{{instance}} {{request}}",
                    ),
                ),
            ),
            Panel(
                "Time in purgatory, p99",
                "Time that Kafka requests wait for the disk and the workers, by API.",
                "s",
                (
                    (
                        "instance_request:authorizerd_request_remote_seconds:p99_rate5m{INSTANCE}",
                        "{{instance}} {{request}}",
                    ),
                ),
            ),
            Panel(
                "Updates waiting",
                "Changes in the queue, and requests in purgatory.",
                "short",
                (
                    ("authorizerd_updates_waiting{INSTANCE}", "{{instance}} queue"),
                    ("authorizerd_delayed_operations{INSTANCE}", "{{instance}} purgatory"),
                ),
            ),
        ),
    ),
    Row(
        "TLS",
        (
            Panel(
                "Time left for each certificate",
                "Certificates of keystores and truststores, until they expire.",
                "s",
                (
                    (
                        "authorizerd_certificate_expiry_timestamp_seconds{INSTANCE} - time()",
                        "{{instance}} {{listener}} {{store}} {{position}}",
                    ),
                ),
            ),
            Panel(
                "Handshakes per second",
                "Handshakes that succeeded, by listener.",
                "ops",
                tuple(
                    (
                        "sum by (listener) (rate("
                        f"authorizerd_{kind}_handshakes_total{{INSTANCE}}[$__rate_interval]))",
                        f"{kind} {{{{listener}}}}",
                    )
                    for kind in ("http", "kafka", "stream")
                ),
            ),
            Panel(
                "Failures of TLS and of reloads",
                "Failed handshakes and failed reloads, in the last hour.",
                "short",
                (
                    *(
                        (
                            "sum by (listener) (increase("
                            f"authorizerd_{kind}_handshakes_failed_total{{INSTANCE}}[1h]))",
                            f"{kind} {{{{listener}}}}",
                        )
                        for kind in ("http", "kafka", "stream")
                    ),
                    (
                        "sum by (instance)"
                        ' (increase(authorizerd_reloads_total{result="failed",INSTANCE}[1h]))',
                        "{{instance}} reloads",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Log, audit, process",
        (
            Panel(
                "Written per second",
                "Appends to the log, the batches in them, and audit lines.",
                "ops",
                tuple(
                    (
                        f"sum by (instance) (rate({name}{{INSTANCE}}[$__rate_interval]))",
                        f"{{{{instance}}}} {legend}",
                    )
                    for name, legend in (
                        ("authorizerd_log_flushes_total", "appends"),
                        ("authorizerd_log_batches_total", "batches"),
                        ("authorizerd_audit_written_total", "audit lines"),
                    )
                ),
            ),
            Panel(
                "Should be zero",
                "Lost audit lines, failed checkpoints and replaced workers, in the last hour.",
                "short",
                tuple(
                    (
                        f"sum by (instance) (increase({name}{{INSTANCE}}[1h]))",
                        f"{{{{instance}}}} {legend}",
                    )
                    for name, legend in (
                        ("authorizerd_audit_dropped_total", "audit lines lost"),
                        ("authorizerd_checkpoint_failures_total", "checkpoints failed"),
                        ("authorizerd_worker_restarts_total", "workers replaced"),
                    )
                ),
            ),
            Panel(
                "CPU and memory of the main process",
                "The event loop can use one core at most. Workers are not included.",
                "short",
                (
                    (
                        "rate(process_cpu_seconds_total"
                        '{job="authorizerd",INSTANCE}[$__rate_interval])',
                        "{{instance}} cores",
                    ),
                    (
                        'process_resident_memory_bytes{job="authorizerd",INSTANCE} / 1e9',
                        "{{instance}} GB",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Verification by verify --follow",
        (
            Panel(
                "Decisions of brokers",
                "Decisions per second in brokers' audit logs, by whether the same is decided here.",
                "reqps",
                (
                    (
                        "sum by (instance, result, reason)"
                        " (rate(authorizerd_verified_decisions_total{INSTANCE}[5m]))",
                        "{{instance}} {{result}} {{reason}}",
                    ),
                ),
            ),
            Panel(
                "Differences",
                "Decisions that no state of the ACLs explains, by likely cause.",
                "short",
                (("authorizerd_disagreements_total{INSTANCE} > 0", "{{instance}} {{cause}}"),),
            ),
            Panel(
                "Behind",
                "Age of the oldest line that is not counted, and of the newest known ACLs.",
                "s",
                (
                    ("authorizerd_verify_oldest_line_age_seconds{INSTANCE}", "{{instance}} line"),
                    ("authorizerd_verify_history_lag_seconds{INSTANCE}", "{{instance}} history"),
                ),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "authorizerd",
        "title": TITLE,
        "tags": ["kafka", "authorization"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables()},
        "annotations": {"list": [_alerts()]},
        "panels": _panels(),
    }


def _variables() -> list[dict[str, Any]]:
    query = 'label_values(up{job=~"authorizerd(-verify)?"}, instance)'
    return [
        {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus"},
        {
            "name": "instance",
            "label": "Instance",
            "type": "query",
            "datasource": _SOURCE,
            "definition": query,
            "query": {"query": query, "refId": "instances"},
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]


def _alerts() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Authorizerd.*",alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{instance}}",
    }


def _panels() -> list[dict[str, Any]]:
    """Return rows and graphs from top to bottom, each with its position and its own id."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        panels.append({"id": len(panels) + 1, "type": "row", "title": row.title, "gridPos": place})
        width = _COLUMNS // len(row.panels)
        for column, panel in enumerate(row.panels):
            place = {"x": column * width, "y": top + 1, "w": width, "h": _PANEL_HEIGHT}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_graph(panel)})
        top += 1 + _PANEL_HEIGHT
    return panels


def _graph(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.replace("INSTANCE", _WHERE),
                "legendFormat": legend,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def text() -> str:
    """Return the content of the dashboard's file."""
    return json.dumps(dashboard(), indent=2) + "\n"
