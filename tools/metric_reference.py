"""Generate the reference of metrics from their statements.

Run ``python -m tools.metric_reference > docs/metrics.md`` to update the page; a test compares the
two.
"""

from __future__ import annotations

import sys
import textwrap
from typing import Any, Final

from authorizerd.cli.sync.metrics import SYNC_METRICS
from authorizerd.cli.verify_metrics import FOLLOW_METRICS
from authorizerd.daemon.telemetry.family import Family
from authorizerd.daemon.telemetry.metrics import METRICS
from tools.site.places import link_pages

_WIDTH: Final = 105

_HEAD: Final = """\
# Metrics

This page lists every metric of the daemon, of `authorizerd verify --follow` and of `authorizerd
sync`, what it means, and what to do about unusual values.

- `GET /metrics` on the admin port (`authorizerd.admin.http`), and on the metrics port
  (`authorizerd.metrics.http`) if it is configured, returns them as Prometheus text.
- Counters start at 0 with the process.
- With workers, the daemon adds up what they report each second. A sum never decreases.
- The daemon also exports prometheus_client's `process_*` and `python_*`, for its own process only.
- [Monitoring](monitoring.md) describes the rules, the alerts and the dashboard.

Each entry names the type of the metric, its unit, and its labels in braces.

"""


def reference() -> str:
    """Return the whole page."""
    metrics: tuple[Family[Any], ...] = (*METRICS, *FOLLOW_METRICS, *SYNC_METRICS)
    return _HEAD + "".join(map(_describe, metrics))


def _describe(metric: Family[Any]) -> str:
    """Return the list item of one metric, wrapped."""
    labels = ", ".join(metric.labels)
    name = f"{metric.name}{{{labels}}}" if labels else metric.name
    text = link_pages(f"{metric.help} {metric.advice}")
    remarks = ", ".join(filter(None, (metric.kind, metric.unit, metric.condition)))
    return "\n".join(
        (
            f"- **`{name}`** ({remarks})",
            *(f"  {line}" for line in textwrap.wrap(text, _WIDTH - 2)),
            "",
        )
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
