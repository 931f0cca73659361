"""The reference of metrics, from the catalogue that a test holds against a scrape.

``python -m ops.prometheus.reference > docs/metrics.md`` writes it anew; a test compares the two.
"""

from __future__ import annotations

import sys

from ops.prometheus.catalogue import CATALOGUE, MetricEntry

_HEAD = """\
# Metrics

`GET /metrics` on the admin port (`authorizerd.admin.http`), in Prometheus' text format. Counters
begin at 0 with the process. With workers the daemon adds up what they report each second; a sum
never goes back. Beside these there are prometheus_client's `process_*` and `python_*`, of the
daemon's own process alone. Rules, alerts and a dashboard: [monitoring.md](monitoring.md).

| metric | type | labels | unit | what it tells | what to do |
|---|---|---|---|---|---|
"""


def reference() -> str:
    """Return the whole document."""
    return _HEAD + "".join(map(_row, CATALOGUE))


def _row(entry: MetricEntry) -> str:
    labels = ", ".join(f"`{label}`" for label in entry.labels)
    tells = f"{entry.tells} Only {entry.condition}." if entry.condition else entry.tells
    return (
        f"| `{entry.name}` | {entry.kind} | {labels} | {entry.unit} | {tells} | {entry.advice} |\n"
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
