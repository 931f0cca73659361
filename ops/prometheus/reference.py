"""Generate the reference of metrics from the catalogue.

Run ``python -m ops.prometheus.reference > docs/metrics.md`` to update the page; a test compares the
two.
"""

from __future__ import annotations

import sys
import textwrap
from typing import Final

from ops.prometheus.catalogue import CATALOGUE
from ops.prometheus.entry import MetricEntry

_WIDTH: Final = 105

_HEAD: Final = """\
# Metrics

This page lists every metric of the daemon, what it means, and what to do about unusual values.

- `GET /metrics` on the admin port (`authorizerd.admin.http`), and on the metrics port
  (`authorizerd.metrics.http`) if it is configured, returns them as Prometheus text.
- Counters start at 0 with the process.
- With workers, the daemon adds up what they report each second. A sum never decreases.
- The daemon also exports prometheus_client's `process_*` and `python_*`, for its own process only.
- [monitoring.md](monitoring.md) describes the rules, the alerts and the dashboard.

Each entry names the type of the metric, its unit, and its labels in braces.

"""


def reference() -> str:
    """Return the whole page."""
    return _HEAD + "".join(map(_entry, CATALOGUE))


def _entry(entry: MetricEntry) -> str:
    """Return the list item of one metric, wrapped."""
    labels = ", ".join(entry.labels)
    name = f"{entry.name}{{{labels}}}" if labels else entry.name
    remarks = ", ".join(filter(None, (entry.kind, entry.unit, entry.condition)))
    return "\n".join(
        (
            f"- **`{name}`** ({remarks})",
            *(f"  {line}" for line in textwrap.wrap(f"{entry.help} {entry.advice}", _WIDTH - 2)),
            "",
        )
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
