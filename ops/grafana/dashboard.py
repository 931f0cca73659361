"""The dashboard, as Grafana reads it, from a table of its panels.

``python -m ops.grafana.dashboard > ops/grafana/dashboards/authorizerd.json`` updates it; a test
compares the two, and every query with what the daemon exports.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, Final

TITLE: Final = "authorizerd"
_COLUMNS: Final = 24
_PANEL_WIDTH: Final = 8
_PANEL_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WHERE: Final = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph; ``queries`` are PromQL and the legend of each, ``INSTANCE`` the chosen instances."""

    title: str
    tells: str
    unit: str
    queries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


ROWS: Final = (
    Row(
        "Is it well?",
        (
            Panel(
                "Endpoints open",
                "1 is open. The admin port always is; the others once the ACLs are loaded.",
                "short",
                (("authorizerd_endpoint_open{INSTANCE}", "{{instance}} {{listener}}"),),
            ),
            Panel(
                "Offsets behind",
                "How far decisions, and the slowest worker, are behind what is committed.",
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
                "ACLs in force; -1 until they are loaded.",
                "short",
                (("authorizerd_acls{INSTANCE}", "{{instance}}"),),
            ),
        ),
    ),
    Row(
        "Decisions",
        (
            Panel(
                "Questions a second, by result",
                "Allowed, denied, not valid, and asked before it was ready.",
                "ops",
                (
                    (
                        "sum by (result) (instance_result:authorizerd_decisions:rate5m{INSTANCE})",
                        "{{result}}",
                    ),
                ),
            ),
            Panel(
                "Questions a second, by surface",
                "Which way they are asked.",
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
                "Share that is denied",
                "Of what was allowed or denied.",
                "percentunit",
                (("instance:authorizerd_denials:ratio_rate5m{INSTANCE}", "{{instance}}"),),
            ),
        ),
    ),
    Row(
        "Load",
        (
            Panel(
                "Requests a second",
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
                "Refused a second",
                "For want of time or room, and bad requests over HTTP.",
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
                        "{{instance}} log-ins",
                    ),
                ),
            ),
            Panel(
                "Connections open",
                "By listener; max.connections is the bound of each, in each process.",
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
                "The daemon's own time, p99",
                "Of Kafka requests, by API.",
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
                "Of Kafka requests, by API: the disk, and the workers.",
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
                "In the queue, and in purgatory.",
                "short",
                (
                    ("authorizerd_updates_waiting{INSTANCE}", "{{instance}} queue"),
                    ("authorizerd_delayed_operations{INSTANCE}", "{{instance}} requests"),
                    ("authorizerd_purgatory_size{INSTANCE}", "{{instance}} items"),
                ),
            ),
        ),
    ),
    Row(
        "Log, audit, process",
        (
            Panel(
                "Written a second",
                "Appends to the log, batches in them, and lines of the audit.",
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
                "What should be nothing",
                "Audit lines lost, checkpoints that failed, workers replaced, in an hour.",
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
                "CPU and memory of the daemon's process",
                "Cores on the left: one is all that an event loop can use. Workers are not in it.",
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
)


def dashboard() -> dict[str, Any]:
    """Return what Grafana imports."""
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
    query = 'label_values(up{job="authorizerd"}, instance)'
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
    """Return rows and graphs, top to bottom, each with its place and a number of its own."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        panels.append({"id": len(panels) + 1, "type": "row", "title": row.title, "gridPos": place})
        for column, panel in enumerate(row.panels):
            place = {
                "x": column * _PANEL_WIDTH,
                "y": top + 1,
                "w": _PANEL_WIDTH,
                "h": _PANEL_HEIGHT,
            }
            panels.append({"id": len(panels) + 1, "gridPos": place, **_graph(panel)})
        top += 1 + _PANEL_HEIGHT
    return panels


def _graph(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.tells,
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
    """Return the dashboard's file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
