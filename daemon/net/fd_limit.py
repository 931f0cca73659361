"""Raise the limit on open files to what all connections need, or allow fewer connections.

Connections never use up the limit: the daemon also needs files to write its log and checkpoints,
and would end without them.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Mapping
from typing import Final

OTHER_FILES: Final = 512
"""Files for the log, checkpoints, the audit log, workers, and refused connections."""
OTHER_FILES_MIN: Final = 128
"""Files kept back if the limit is too low for all connections.

Even with a very low limit, connections get at least a quarter of it.
"""

_logger = logging.getLogger("authorizerd")


def allow_open_files(wanted: Mapping[str, int]) -> dict[str, int]:
    """Return how many connections each endpoint may have, by its name.

    Raise the limit on open files if possible. If it stays too low, log a warning and give each
    endpoint its own share, so that one endpoint's connections never use up the files of another.
    """
    files = sum(wanted.values()) + OTHER_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_unlimited = most == resource.RLIM_INFINITY
    if allowed != resource.RLIM_INFINITY and allowed < files:
        allowed = files if is_unlimited else min(files, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    if is_unlimited or most >= files:
        return dict(wanted)
    granted = divide(wanted, max(most - OTHER_FILES_MIN, most // 4))
    _logger.warning(
        "the limit of open files is %d, and max.connections needs %d: each endpoint may have at"
        " most %d connections; raise the hard limit, or lower max.connections",
        most,
        files,
        max(granted.values()),
    )
    return granted


def divide(wanted: Mapping[str, int], total: int) -> dict[str, int]:
    """Divide ``total`` equally; each part is at least 1 and at most what is wanted."""
    granted: dict[str, int] = {}
    # Smallest first: what a small endpoint does not need is left for larger ones.
    for name in sorted(wanted, key=lambda name: wanted[name]):
        part = max(1, total // (len(wanted) - len(granted)))
        granted[name] = min(wanted[name], part)
        total -= granted[name]
    return granted
